"""Flags, which take no words, or name what is appended to a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind, split_symbol


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
