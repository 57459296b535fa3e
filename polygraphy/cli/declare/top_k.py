"""The form of value of `--postprocess`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Kind

_FORM = re.compile(r"top-(\d+)(?:,axis=(-?\d+))?", re.ASCII)


class TopK(Kind):
    """How many of the largest elements: ``top-5``, or along another axis than the last
    ``top-5,axis=1``.
    """

    metavar = "top-K[,axis=A]"

    def parse(self, words: Sequence[str]) -> int | tuple[int, int]:
        """Return the number, or the number and the axis."""
        match = _FORM.fullmatch(words[0])
        if match is None or int(match[1]) == 0:
            raise BadValue(f"{words[0]!r} is no post-processing such as top-5 or top-5,axis=1")
        return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))

    def unparse(self, value: int | tuple[int, int]) -> list[str]:
        """Return number and axis in one word."""
        return [f"top-{value}" if isinstance(value, int) else f"top-{value[0]},axis={value[1]}"]
