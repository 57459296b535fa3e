"""Options that may be given several times, each time for another thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.cli.declare.kinds import Kind


class Repeated(Kind):
    """A value for each time that the flag stands on the command line, in order."""

    def __init__(self, single: Kind) -> None:
        """Set what form the value of one time has."""
        self.single = single
        self.nargs = single.nargs
        self.metavar = single.metavar
        self.choices = single.choices

    def parse(self, words: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values; `words` holds one list of words for each time."""
        return tuple(self.single.parse(each) for each in words)

    def argument(self, value: Sequence[Any]) -> list[Any]:
        return [self.single.argument(each) for each in value]

    def unparse(self, value: Sequence[Any]) -> list[Any]:
        """Return one list of words for each value."""
        return [self.single.unparse(each) for each in value]

    def command_line(self, flags: tuple[str, ...], words: list[Any]) -> list[str]:
        """Return the flag before the words of each value."""
        return [word for each in words for word in (flags[0], *each)]
