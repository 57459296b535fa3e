"""How the words that follow an option become a value, and a value becomes words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polygraphy.cli.errors import BadValue

__all__ = [
    "Choice",
    "Choices",
    "Count",
    "Flag",
    "Integer",
    "Kind",
    "Number",
    "Ordered",
    "PerName",
    "Range",
    "Script",
    "Shapes",
    "Statistics",
    "Text",
    "Texts",
]


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
    repeat.
    """

    nargs = 0

    def __init__(self, names: Mapping[str, str], helps: Mapping[str, str]) -> None:
        """Map flags to the names that they append, and to what each does."""
        self.names = dict(names)
        self.helps = dict(helps)

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the flags that were there."""
        return tuple(self.names[word] for word in words)

    def unparse(self, value: Sequence[str]) -> list[str]:
        """Return the flags."""
        flags = {name: flag for flag, name in self.names.items()}
        return [flags[name] for name in value]

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the words: they are the flags."""
        return words


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


class Choice(Kind):
    """One of a few words."""

    def __init__(self, *choices: str, metavar: str | None = None) -> None:
        """Say which words are allowed."""
        self.choices = choices
        self.metavar = metavar or "{" + ",".join(choices) + "}"

    def parse(self, words: Sequence[str]) -> str:
        """Return the word."""
        return _chosen(words[0], self.choices or ())

    def unparse(self, value: str) -> list[str]:
        """Return the word."""
        return [value]


class Choices(Choice):
    """Some of a few words, each at most once."""

    nargs = "+"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the words without repetitions."""
        return tuple(dict.fromkeys(_chosen(word, self.choices or ()) for word in words))

    def unparse(self, value: Any) -> list[str]:
        """Return the words."""
        return list(value)


def _chosen(word: str, choices: Sequence[str]) -> str:
    if word not in choices:
        raise BadValue(f"{word!r} is none of {', '.join(choices)}")
    return word


class Integer(Kind):
    """A whole number."""

    metavar = "N"

    def __init__(self, minimum: int | None = None) -> None:
        """Say which is the smallest allowed."""
        self.minimum = minimum

    def parse(self, words: Sequence[str]) -> int:
        """Return the number."""
        value = integer(words[0])
        if self.minimum is not None and value < self.minimum:
            raise BadValue(f"{value} is less than {self.minimum}")
        return value

    def unparse(self, value: int) -> list[str]:
        """Return the number in words."""
        return [str(value)]


class Number(Kind):
    """A number within limits."""

    metavar = "NUMBER"

    def __init__(self, minimum: float = -math.inf, maximum: float = math.inf) -> None:
        """Say which are the smallest and the largest allowed."""
        self.minimum = minimum
        self.maximum = maximum

    def parse(self, words: Sequence[str]) -> float:
        """Return the number."""
        try:
            value = float(words[0])
        except ValueError:
            raise BadValue(f"{words[0]!r} is not a number") from None
        if not self.minimum <= value <= self.maximum:
            limit = f"from {self.minimum:g}" + (
                f" to {self.maximum:g}" if self.maximum < math.inf else ""
            )
            raise BadValue(f"{words[0]} is not allowed here: numbers {limit} are")
        return value

    def unparse(self, value: float) -> list[str]:
        """Return the number in words."""
        return [repr(value)]


class PerName(Kind):
    """A value for all tensors, a value for some of them by name, or both: ``1e-5 output:1e-3``.

    The value is what one word after the last colon gives; without a colon it stands for all tensors
    that are not named. The result is the value itself when it is for all, else a dictionary in
    which the key ``""`` stands for the others.
    """

    nargs = "+"

    def __init__(self, value: Kind, what: str = "OUTPUT") -> None:
        """Say what form a single value has, and what the names are names of."""
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
        """Say which words are allowed."""
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
        """Return one word per value."""
        per_name = value if isinstance(value, Mapping) else {"": value}
        return [
            f"{name}:{text}" if name else text
            for name, texts in per_name.items()
            for text in ([texts] if isinstance(texts, str) else texts)
        ]


class Range(Kind):
    """A range of numbers: ``[0,1]``."""

    metavar = "[MIN,MAX]"

    def parse(self, words: Sequence[str]) -> tuple[float | int, float | int]:
        """Return the smaller and the larger number."""
        parts = bracketed(words[0])
        if len(parts) != 2:
            raise BadValue(f"{words[0]!r} is not a range such as [0,1]")
        low, high = map(number, parts)
        if not low <= high:
            raise BadValue(f"{words[0]!r} does not go from the smaller to the larger number")
        return low, high

    def unparse(self, value: tuple[float, float]) -> list[str]:
        """Return the range in brackets."""
        return [f"[{value[0]!r},{value[1]!r}]"]


class Shapes(Kind):
    """Shapes of tensors by name: ``image:[1,3,224,224] mask:[1,224,224]``; a name may repeat."""

    nargs = "+"
    metavar = "INPUT:[DIM,...]"

    def parse(self, words: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return a dictionary from names to the shapes given for each, in order."""
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for word in words:
            name, colon, text = word.rpartition(":")
            if not colon or not name:
                raise BadValue(
                    f"{word!r} does not say which input has which shape, as in input:[1,3,224,224]"
                )
            shapes.setdefault(name, []).append(tuple(map(_dim, bracketed(text))))
        return {name: tuple(listed) for name, listed in shapes.items()}

    def unparse(self, value: Mapping[str, Sequence[Sequence[int]]]) -> list[str]:
        """Return one word per shape."""
        return [
            f"{name}:[{','.join(map(str, shape))}]"
            for name, shapes in value.items()
            for shape in shapes
        ]


class Script(Kind):
    """A symbol in a Python script: ``path/script.py:symbol``, or ``path/script.py`` for the usual
    one.
    """

    def __init__(self, symbol: str) -> None:
        """Say which symbol is usual."""
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

    def unparse(self, value: tuple[str, str]) -> list[str]:
        """Return path and symbol in one word."""
        return [":".join(value)]


def _dim(text: str) -> int:
    try:
        dim = int(text)
    except ValueError:
        raise BadValue(f"the dimension {text!r} is not a number") from None
    if dim < 0:
        raise BadValue(f"the dimension {dim} is negative")
    return dim


def bracketed(text: str) -> list[str]:
    """Split ``[a,b]``, or ``a,b``, at its commas."""
    stripped = text.strip()
    if stripped.startswith("[") != stripped.endswith("]"):
        raise BadValue(f"{text!r} has an unmatched bracket")
    inner = stripped[1:-1] if stripped.startswith("[") else stripped
    return [part.strip() for part in inner.split(",")] if inner.strip() else []


def integer(text: str) -> int:
    """Return a whole number; ``1e3`` is one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise BadValue(f"{text!r} is not a whole number")
    return int(value)


def number(text: str) -> float | int:
    """Return a number: whole when it is written so."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a number") from None
