"""Texts: any, some of a few, paths and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind, Repeated


class Text(Kind):
    """Any text."""

    metavar = "TEXT"

    def __init__(
        self, metavar: str = "", nargs: Any = None, without_word: str | None = None
    ) -> None:
        """Name the text; `nargs` is ``?`` for one that may be left out, which is `without_word`."""
        super().__init__(metavar, nargs)
        self.without_word = without_word

    def parse(self, words: Sequence[str]) -> str | None:
        """Return the word."""
        return words[0] if words else self.without_word

    def unparse(self, value: str) -> list[str]:
        """Return the text as one word, if one is needed."""
        return [] if value == self.without_word else [value]


class Texts(Kind):
    """One or more texts; a subclass makes something else of each word."""

    nargs = "+"
    metavar = "TEXT"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the words."""
        return tuple(words)

    def unparse(self, value: Iterable[Any]) -> list[str]:
        """Return the texts."""
        return list(map(str, value))

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
        self,
        *choices: str,
        metavar: str = "",
        aliases: Mapping[str, str] | None = None,
        in_any_case: bool = False,
        what: str = "",
    ) -> None:
        """Set which words are allowed, which others are taken for one of them, whether capitals
        count, and what messages call a word.
        """
        super().__init__(metavar or "{" + ",".join(choices) + "}")
        self.choices = choices
        self.aliases = dict(aliases or {})
        if in_any_case:
            self.aliases |= {
                key.lower(): word for key, word in (*zip(choices, choices), *self.aliases.items())
            }
        self.in_any_case = in_any_case
        self.what = what

    def parse(self, words: Sequence[str]) -> Any:
        """Return the word."""
        return self.chosen(words[0])

    def chosen(self, word: str) -> str:
        """Return the choice that a word stands for."""
        choices = self.choices or ()
        found = self.aliases.get(word.lower() if self.in_any_case else word, word)
        if found in choices:
            return found
        listed = ", ".join(choices)
        raise BadValue(
            f"{word!r} is no {self.what}; there is {listed}"
            if self.what
            else f"{word!r} is none of {listed}"
        )


class Choices(Choice, Texts):
    """Some of a few words, each at most once."""

    nargs = "+"

    def ends_before(self, word: str, taken: Sequence[str]) -> bool:
        """Return whether a word is none of the choices, where one precedes it."""
        return bool(taken) and word not in (self.choices or ())

    def parse(self, words: Sequence[str]) -> Any:
        """Return the words without repetitions."""
        return tuple(dict.fromkeys(map(self.chosen, words)))


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
