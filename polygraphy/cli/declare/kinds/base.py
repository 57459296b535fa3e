"""What every kind of value is, and several of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word that follows `taken` can be no further value of the option, so that
        it is an argument of the command.
        """
        return False

    def parse(self, words: Sequence[str]) -> Any:
        """Return the value of some words; BadValue when they have none."""
        raise NotImplementedError

    def unparse(self, value: Any) -> list[str]:
        """Return words that have this value."""
        raise NotImplementedError

    def files(self, value: Any) -> list[tuple[str, str | None]]:
        """Return the files that a value names, each with the symbol that it is to define, if any;
        of an option whose values are paths.
        """
        return [split_symbol(path) for path in ([value] if isinstance(value, str) else value)]

    def flags_of(self, value: Any) -> list[str]:
        """Return the flags that name these files, where an option has a flag for each."""
        return []

    def argument(self, value: Any) -> Any:
        """Return the value as the argument of a call in a program: a list, say, for a tuple."""
        return value

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the words with the flag in front that makes them belong to the option."""
        return [*flags[:1], *words]


def split_symbol(path: str) -> tuple[str, str | None]:
    """Return the path of a script, and the symbol in it that ``path.py:symbol`` names; other paths
    are paths only.
    """
    script, colon, symbol = path.rpartition(":")
    if colon and symbol.isidentifier() and script.lower().endswith(".py"):
        return script, symbol
    return path, None


class Repeated(Kind):
    """A value for each time that the flag stands on the command line, in order."""

    def __init__(self, single: Kind) -> None:
        """Set what form the value of one time has."""
        self.single = single
        self.nargs = single.nargs
        self.metavar = single.metavar
        self.choices = single.choices

    def parse(self, words: Sequence[Any]) -> Any:
        """Return a tuple of the values; `words` holds one list of words for each time."""
        return tuple(self.single.parse(each) for each in words)

    def argument(self, value: Any) -> Any:
        return [self.single.argument(each) for each in value]

    def unparse(self, value: Any) -> list[Any]:
        """Return one list of words for each value."""
        return [self.single.unparse(each) for each in value]

    def command_line(self, flags: tuple[str, ...], words: list[Any]) -> list[str]:
        """Return the flag before the words of each value."""
        return [word for each in words for word in (flags[0], *each)]
