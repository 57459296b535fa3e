"""What every kind of value is, several of one kind, and flags, which take no words, or name what is
appended to a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue


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

    def __init__(self, metavar: str = "", nargs: Any = None) -> None:
        """Set what the words are called, and how many it takes, if not as the class says."""
        self.metavar = metavar or self.metavar
        self.nargs = self.nargs if nargs is None else nargs

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word that follows `taken` can be no further value of the option, so that
        it is an argument of the command.
        """
        return False

    def parse(self, words: Sequence[str]) -> Any:
        """Return the value of some words; BadValue when they have none."""
        raise NotImplementedError

    def unparse(self, value: Any) -> list[str]:
        """Return words that have this value: by default itself, as one word."""
        return [str(value)]

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
        super().__init__(single.metavar, single.nargs)
        self.single = single
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


class Flag(Kind):
    """On when it is there; takes no words."""

    nargs = 0

    def parse(self, words: Sequence[str]) -> bool:
        """Return True."""
        return True

    def unparse(self, value: bool) -> list[str]:
        """Return no words."""
        return []


class Count(Flag):
    """How often the flag is there."""

    def parse(self, words: Sequence[str]) -> Any:
        """Return how many times the flag stood on the command line."""
        return len(words)

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the flag as often as there are words."""
        return [flags[0]] * len(words)

    def unparse(self, value: int) -> list[str]:
        """Return one word for each time."""
        return [""] * value


class Ordered(Kind):
    """Several flags that append a name each, in the order of the command line; a flag may
    repeat. Some take a text, which follows the name and a colon: ``trt_engine:model.engine``.
    """

    nargs = 0

    def __init__(
        self,
        names: Mapping[str, str],
        helps: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Map flags to the names that they append, to what each does, and those that take a text
        to what the text is called.
        """
        self.names = dict(names)
        self.helps = dict(helps)
        self.texts = dict(texts or {})

    def extended(self, names: Mapping[str, str], helps: Mapping[str, str]) -> Ordered:
        """Return the same with further flags."""
        return Ordered({**self.names, **names}, {**self.helps, **helps}, self.texts)

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the flags that were there; a flag's text stands behind ``=``."""
        return tuple(map(self._name, words))

    def _name(self, word: str) -> str:
        flag, _, text = word.partition("=")
        if flag not in self.texts:
            return self.names[flag]
        if not text:
            raise BadValue(f"{flag} needs a {self.texts[flag]}")
        return f"{self.names[flag]}:{text}"

    def unparse(self, value: Sequence[str]) -> list[str]:
        """Return the flags, each with its text behind it."""
        flags = {name: flag for flag, name in self.names.items()}
        words = []
        for entry in value:
            name, colon, text = entry.partition(":")
            words += [flags[name], text] if colon else [flags[name]]
        return words

    def files(self, value: Sequence[str]) -> list[tuple[str, str | None]]:
        """Return what the texts name, each with its symbol if it has one."""
        texts = (entry.partition(":")[2] for entry in value)
        return [split_symbol(text) for text in texts if text]

    def flags_of(self, value: Sequence[str]) -> list[str]:
        flags = {name: flag for flag, name in self.names.items()}
        named = (entry.partition(":") for entry in value)
        return [flags[name] for name, _, text in named if text]

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the words: they are the flags."""
        return words
