"""Texts: any, some of a few, paths and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind, Repeated


class Text(Kind):
    """Any text."""

    def __init__(self, metavar: str = "TEXT", nargs: Any = None) -> None:
        """Name the text; `nargs` is ``?`` for an optional positional argument."""
        self.metavar = metavar
        self.nargs = nargs

    def parse(self, words: Sequence[str]) -> str | None:
        """Return the word."""
        return words[0] if words else None

    def unparse(self, value: str) -> list[str]:
        """Return the text as one word."""
        return [value]


class Folder(Text):
    """The path of a folder; without a word, the current one."""

    def __init__(self) -> None:
        """Take one word, or none."""
        super().__init__("FOLDER", nargs="?")

    def parse(self, words: Sequence[str]) -> str:
        return words[0] if words else "."


class Texts(Kind):
    """One or more texts."""

    nargs = "+"

    def __init__(self, metavar: str = "TEXT") -> None:
        """Name one of the texts."""
        self.metavar = metavar

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words."""
        return tuple(words)

    def unparse(self, value: Iterable[str]) -> list[str]:
        """Return the texts."""
        return list(value)

    def argument(self, value: Sequence[Any]) -> Any:
        """Return a list."""
        return list(value)


class Assignments(Repeated):
    """Values by name, ``NAME=VALUE``: several words, and as often as one likes."""

    def __init__(self, metavar: str, example: str) -> None:
        """Set what the help calls a word, and one that messages show."""
        super().__init__(Texts(metavar))
        self._example = example

    def parse(self, words: Sequence[Any]) -> Mapping[str, str]:
        """Return the values by name; `words` holds one list of words for each time."""
        made: dict[str, str] = {}
        for word in (word for each in words for word in each):
            name, equals, value = word.partition("=")
            if not name or not equals:
                raise BadValue(f"{word!r} is not {self.metavar}, as in {self._example}")
            if name in made:
                raise BadValue(f"there are two values for {name!r}")
            made[name] = value
        return made

    def unparse(self, value: Mapping[str, str]) -> list[Any]:
        """Return a list with one word per name."""
        return [[f"{name}={text}" for name, text in value.items()]]

    def argument(self, value: Mapping[str, str]) -> Any:
        """Return the mapping as it is."""
        return value


class Choice(Kind):
    """One of a few words."""

    def __init__(
        self, *choices: str, metavar: str | None = None, aliases: Mapping[str, str] | None = None
    ) -> None:
        """Set which words are allowed, and which others are taken for one of them."""
        self.choices = choices
        self.metavar = metavar or "{" + ",".join(choices) + "}"
        self.aliases = aliases or {}

    def parse(self, words: Sequence[str]) -> str:
        """Return the word."""
        return _chosen(self.aliases.get(words[0], words[0]), self.choices or ())

    def unparse(self, value: str) -> list[str]:
        """Return the word."""
        return [value]


class Choices(Choice):
    """Some of a few words, each at most once."""

    nargs = "+"

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word is none of the choices, where one precedes it."""
        return bool(taken) and word not in (self.choices or ())

    def parse(self, words: Sequence[str]) -> Any:
        """Return the words without repetitions."""
        return tuple(dict.fromkeys(_chosen(word, self.choices or ()) for word in words))

    def unparse(self, value: Any) -> list[str]:
        """Return the words."""
        return list(value)

    def argument(self, value: Sequence[str]) -> Any:
        """Return a list."""
        return list(value)


def _chosen(word: str, choices: Sequence[str]) -> str:
    if word not in choices:
        raise BadValue(f"{word!r} is none of {', '.join(choices)}")
    return word


class Script(Kind):
    """A symbol in a Python script: ``path/script.py:symbol``, or ``path/script.py`` for the usual
    one.
    """

    def __init__(self, symbol: str) -> None:
        """Set which symbol is usual."""
        self.symbol = symbol
        self.metavar = "SCRIPT[:SYMBOL]"

    def parse(self, words: Sequence[str]) -> tuple[str, str]:
        """Return the path and the symbol."""
        path, colon, symbol = words[0].rpartition(":")
        if not colon or not symbol.isidentifier() or len(path) == 1:  # A drive letter is no path.
            path, symbol = words[0], self.symbol
        if not path.endswith(".py"):
            raise BadValue(f"{words[0]!r} is no Python script, as in script.py:{self.symbol}")
        return path, symbol

    def files(self, value: tuple[str, str]) -> list[tuple[str, str | None]]:
        """Return the script with its symbol."""
        return [value]

    def argument(self, value: tuple[str, str]) -> Any:
        """Return the call that invokes what the symbol stands for."""
        from polygraphy.codegen.call import Call

        return Call("InvokeFromScript", value[:1], {"name": value[1]})

    def unparse(self, value: tuple[str, str]) -> list[str]:
        """Return path and symbol in one word."""
        return [":".join(value)]
