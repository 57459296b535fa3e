"""Values for all tensors, or for some of them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind
from polygraphy.cli.declare.kinds.texts import Choice


class PerName(Kind):
    """A value for all tensors, a value for some of them by name, or both: ``1e-5 output:1e-3``.

    The value is what one word after the last colon gives; without a colon it stands for all tensors
    that are not named. The result is the value itself when it is for all, else a dictionary in
    which the key ``""`` stands for the others.
    """

    nargs = "+"

    def __init__(self, value: Kind, what: str = "OUTPUT") -> None:
        """Set what form a single value has, and what the names are names of."""
        self.value = value
        self.metavar = f"[{what}:]{value.metavar}"

    def parse(self, words: Sequence[str]) -> Any:
        """Return a value, or a dictionary of values."""
        per_name: dict[str, Any] = {}
        for word in words:
            name, _, text = word.rpartition(":")
            if name in per_name:
                raise BadValue(f"there are two values for {repr(name) if name else 'all'}")
            per_name[name] = self.value.parse([text])
        return per_name[""] if list(per_name) == [""] else per_name

    def unparse(self, value: Any) -> list[str]:
        """Return one word per value."""
        per_name = value if isinstance(value, Mapping) else {"": value}
        words = []
        for name, single in per_name.items():
            [text] = self.value.unparse(single)
            words.append(f"{name}:{text}" if name or ":" in text else text)
        return words


class Statistics(PerName):
    """Like `PerName` for choices, but several values for the same name are all kept: ``max
    mean``.
    """

    def __init__(self, *choices: str) -> None:
        """Set which words are allowed."""
        super().__init__(Choice(*choices))
        self.metavar = "[OUTPUT:]STAT"
        self.listed = choices

    def parse(self, words: Sequence[str]) -> Any:
        """Return a word, a tuple of words, or a dictionary of such."""
        per_name: dict[str, list[str]] = {}
        for word in words:
            name, _, text = word.rpartition(":")
            chosen = self.value.parse([text])
            listed = per_name.setdefault(name, [])
            if chosen not in listed:
                listed.append(chosen)
        collected = {
            name: tuple(texts) if len(texts) > 1 else texts[0] for name, texts in per_name.items()
        }
        return collected[""] if list(collected) == [""] else collected

    def unparse(self, value: Any) -> list[str]:
        per_name = value if isinstance(value, Mapping) else {"": value}
        return [
            f"{name}:{text}" if name else text
            for name, texts in per_name.items()
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
