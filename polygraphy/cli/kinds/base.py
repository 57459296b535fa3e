"""What every kind of value is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Kind"]


class Kind:
    """One form of value.

    Attributes:
        nargs: how many words it takes, as argparse counts: None for one, ``?``, ``+``, ``*``, or 0
            for a flag.
        metavar: what the words are called in the help.
        choices: the words that are allowed, where that is a short list.
    """

    nargs: Any = None
    metavar: str = "VALUE"
    choices: tuple[str, ...] | None = None

    def parse(self, words: Sequence[str]) -> Any:
        """Return the value of some words; BadValue when they have none."""
        raise NotImplementedError

    def unparse(self, value: Any) -> list[str]:
        """Return words that have this value."""
        raise NotImplementedError

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the words with the flag in front that makes them belong to the option."""
        return [*flags[:1], *words]
