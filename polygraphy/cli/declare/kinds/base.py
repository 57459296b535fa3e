"""The base of all kinds of values, and kinds of flags, of texts (any text, choices, paths and
scripts), and of numbers (integers, ranges, sizes in bytes, and numbers of largest elements).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.cli.declare.errors import BadValue

if TYPE_CHECKING:
    from polygraphy.codegen.source import ByteCount


class Kind:
    """Converts the words of an option to its value, and back.

    Attributes:
        nargs: the number of words, in the notation of argparse: None for one, ``?``, ``+``, ``*``,
            or 0 for a flag.
        metavar: the name of the words in the help.
        choices: the allowed words, if there are only a few.
        adds_up: whether a second use of the flag adds words instead of replacing the first ones.
    """

    nargs: Any = None
    adds_up = False
    metavar: str = "VALUE"
    choices: tuple[str, ...] | None = None

    def __init__(self, metavar: str = "", nargs: Any = None) -> None:
        """Set the metavar and the number of words, if they differ from those of the class."""
        self.metavar = metavar or self.metavar
        self.nargs = self.nargs if nargs is None else nargs

    def ends_before(self, word: str, taken_words: Sequence[str]) -> bool:
        """Return whether a word after `taken_words` cannot be a value of the option,
        so that it is an argument of the command."""
        return False

    def parse(self, words: Sequence[str]) -> Any:
        """Return the value of some words; raise BadValue if they are invalid."""
        raise NotImplementedError

    def unparse(self, value: Any) -> list[str]:
        """Return words with this value: by default the value as one word."""
        return [str(value)]

    def files(self, value: Any) -> list[tuple[str, str | None]]:
        """Return each file that a value names, with its required symbol or None.

        Only options whose values are paths name files.
        """
        return [split_symbol(path) for path in ([value] if isinstance(value, str) else value)]

    def flags_of(self, value: Any) -> list[str]:
        """Return the flags that name these files, for an option with several flags."""
        return []

    def argument(self, value: Any) -> Any:
        """Return the value as the argument of a call in a program, such as a list for a tuple."""
        return value

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the flag and its words.
        Words that start with a dash come last, after ``=``, because argparse would read them as
        flags."""
        dashed = [word for word in words if word.startswith("-") and word != "-"]
        if not flags or not dashed:
            return [*flags[:1], *words]
        long = next((flag for flag in flags if flag.startswith("--")), flags[0])
        plain = [word for word in words if word not in dashed]
        return [*([flags[0], *plain] if plain else []), *(f"{long}={word}" for word in dashed)]


def split_symbol(path: str) -> tuple[str, str | None]:
    """Return the path of a script, and the symbol in ``path.py:symbol``; None for other paths."""
    script, colon, symbol = path.rpartition(":")
    if colon and symbol.isidentifier() and script.lower().endswith(".py"):
        return script, symbol
    return path, None


class Repeated(Kind):
    """One value for each use of the flag on the command line, in order."""

    def __init__(self, single: Kind) -> None:
        """Set the kind of a single value."""
        super().__init__(single.metavar, single.nargs)
        self.single = single
        self.choices = single.choices

    def parse(self, words: Sequence[Any]) -> Any:
        """Return a tuple of the values; `words` contains one list of words for each use."""
        return tuple(self.single.parse(word) for word in words)

    def argument(self, value: Any) -> Any:
        """Return the values as a list, each as the argument of a call."""
        return [self.single.argument(item) for item in value]

    def unparse(self, value: Any) -> list[Any]:
        """Return one list of words for each value."""
        return [self.single.unparse(item) for item in value]

    def command_line(self, flags: tuple[str, ...], words: list[Any]) -> list[str]:
        """Return the flag before the words of each value."""
        return [
            word for value in words for word in super(Repeated, self).command_line(flags, value)
        ]


class Flag(Kind):
    """True if the flag is used; accepts no words."""

    nargs = 0

    def parse(self, words: Sequence[str]) -> bool:
        """Return True."""
        return True

    def unparse(self, value: bool) -> list[str]:
        """Return no words."""
        return []


class Count(Flag):
    """The number of times that the flag is used."""

    def parse(self, words: Sequence[str]) -> Any:
        """Return the number of times that the flag was used."""
        return len(words)

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the flag once for each word."""
        return [flags[0]] * len(words)

    def unparse(self, value: int) -> list[str]:
        """Return one word for each use."""
        return [""] * value


class OrderedFlags(Kind):
    """Several flags that each append a name, in the order of the command line, with repetitions.
    Some accept a text, which follows the name and a colon: ``trt_engine:model.engine``."""

    nargs = 0

    def __init__(
        self,
        names: Mapping[str, str],
        helps: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Set the name that each flag appends, its help, and the metavar of flags with a text."""
        self.names = dict(names)
        self.helps = dict(helps)
        self.texts = dict(texts or {})

    def extend(self, names: Mapping[str, str], helps: Mapping[str, str]) -> OrderedFlags:
        """Return the same kind with additional flags."""
        return type(self)({**self.names, **names}, {**self.helps, **helps}, self.texts)

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the used flags; the text of a flag follows ``=``."""
        return tuple(map(self._resolve_name, words))

    def _resolve_name(self, word: str) -> str:
        """Return the value for a word: the name of a flag,
        with its text after a colon if it has one.
        """
        flag, _, text = word.partition("=")
        if flag not in self.texts:
            return self.names[flag]
        if not text:
            raise BadValue(f"it requires a {self.texts[flag]}", flag)
        return f"{self.names[flag]}:{text}"

    def unparse(self, value: Sequence[str]) -> list[str]:
        """Return the flags, each followed by its text."""
        flags = {name: flag for flag, name in self.names.items()}
        words = []
        for entry in value:
            name, colon, text = entry.partition(":")
            words += [flags[name], text] if colon else [flags[name]]
        return words

    def files(self, value: Sequence[str]) -> list[tuple[str, str | None]]:
        """Return the files in the texts, each with its symbol if it has one."""
        texts = (entry.partition(":")[2] for entry in value)
        return [split_symbol(text) for text in texts if text]

    def flags_of(self, value: Sequence[str]) -> list[str]:
        """Return the flags of the names that are files."""
        flags = {name: flag for flag, name in self.names.items()}
        named = (entry.partition(":") for entry in value)
        return [flags[name] for name, _, text in named if text]

    def command_line(self, flags: tuple[str, ...], words: list[str]) -> list[str]:
        """Return the words unchanged, because they are the flags."""
        return words


class Text(Kind):
    """Any text."""

    metavar = "TEXT"

    def __init__(
        self, metavar: str = "", nargs: Any = None, without_word: str | None = None
    ) -> None:
        """Set the metavar.
        With `nargs` ``?`` the text is optional and defaults to `without_word`."""
        super().__init__(metavar, nargs)
        self.without_word = without_word

    def parse(self, words: Sequence[str]) -> str | None:
        """Return the word; without one, the text for an option without a word."""
        return words[0] if words else self.without_word

    def unparse(self, value: str) -> list[str]:
        """Return the text as one word, if one is needed."""
        return [] if value == self.without_word else [value]


class Texts(Kind):
    """One or more texts; subclasses convert each word."""

    nargs = "+"
    metavar = "TEXT"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the words unchanged."""
        return tuple(words)

    def unparse(self, value: Iterable[Any]) -> list[str]:
        """Return the texts."""
        return list(map(str, value))

    def argument(self, value: Sequence[Any]) -> Any:
        """Return the texts as a list."""
        return list(value)


class Assignments(Repeated):
    """Values by name, ``NAME=VALUE``: several words per use, and several uses."""

    def __init__(self, metavar: str, example: str) -> None:
        """Set the metavar, and an example for messages."""
        super().__init__(Texts(metavar))
        self._example = example

    def parse(self, words: Sequence[Any]) -> Mapping[str, str]:
        """Return the values by name; `words` contains one list of words for each use."""
        new_names: dict[str, str] = {}
        for word in (word for value in words for word in value):
            name, equals, value = word.partition("=")
            if not name or not equals:
                raise BadValue(f"{word!r} is not {self.metavar}, as in {self._example}")
            if name in new_names:
                raise BadValue(f"{name!r} has two values")
            new_names[name] = value
        return new_names

    def unparse(self, value: Mapping[str, str]) -> list[Any]:
        """Return a list with one word per name."""
        return [[f"{name}={text}" for name, text in value.items()]]

    def argument(self, value: Mapping[str, str]) -> Any:
        """Return the mapping unchanged."""
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
        """Set the allowed words, their aliases, whether case matters, and the noun for messages."""
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
        """Return the choice that the word stands for."""
        return self.choice_for(words[0])

    def choice_for(self, word: str) -> str:
        """Return the choice that a word stands for.
        Raise BadValue if it is not a choice or alias."""
        choices = self.choices or ()
        alias = self.aliases.get(word.lower() if self.in_any_case else word, word)
        if alias in choices:
            return alias
        listed = ", ".join(choices)
        raise BadValue(
            f"{word!r} is not a {self.what}; available: {listed}"
            if self.what
            else f"{word!r} is not one of {listed}"
        )


class Choices(Choice, Texts):
    """Several of a few words, each at most once."""

    nargs = "+"

    def ends_before(self, word: str, taken_words: Sequence[str]) -> bool:
        """Return whether a word after the first one is not a choice."""
        return bool(taken_words) and word not in (self.choices or ())

    def parse(self, words: Sequence[str]) -> Any:
        """Return the choices, without repetitions."""
        return tuple(dict.fromkeys(map(self.choice_for, words)))


class Script(Kind):
    """A symbol in a Python script: ``path/script.py:symbol``, or ``path/script.py`` for the default
    symbol."""

    def __init__(self, symbol: str) -> None:
        """Set the default symbol."""
        self.symbol = symbol
        self.metavar = "SCRIPT[:SYMBOL]"

    def parse(self, words: Sequence[str]) -> tuple[str, str]:
        """Return the path and the symbol."""
        path, colon, symbol = words[0].rpartition(":")
        # A drive letter is not a path.
        if not colon or not symbol.isidentifier() or len(path) == 1:
            path, symbol = words[0], self.symbol
        if not path.endswith(".py"):
            raise BadValue(f"{words[0]!r} is not a Python script. Example: script.py:{self.symbol}")
        return path, symbol

    def files(self, value: tuple[str, str]) -> list[tuple[str, str | None]]:
        """Return the script with its symbol."""
        return [value]

    def argument(self, value: tuple[str, str]) -> Any:
        """Return the call that invokes the symbol."""
        from polygraphy.codegen.source import Call

        return Call("InvokeFromScript", value[:1], {"name": value[1]})

    def unparse(self, value: tuple[str, str] | str) -> list[str]:
        """Return path and symbol as one word; a string is returned unchanged."""
        return [value if isinstance(value, str) else ":".join(value)]


class Number(Kind):
    """A number within limits."""

    metavar = "NUMBER"

    def __init__(self, minimum: float = -math.inf, maximum: float = math.inf) -> None:
        """Set the smallest and the largest allowed number."""
        self.minimum = minimum
        self.maximum = maximum

    def parse(self, words: Sequence[str]) -> float:
        """Return the number in the word; raise BadValue if it is outside the limits."""
        try:
            value = float(words[0])
        except ValueError:
            raise BadValue(f"{words[0]!r} is not a number") from None
        if math.isnan(value):
            raise BadValue(f"{words[0]!r} is not a number")
        if not self.minimum <= value <= self.maximum:
            limit = f"from {self.minimum:g}" + (
                f" to {self.maximum:g}" if self.maximum < math.inf else ""
            )
            raise BadValue(f"{words[0]} is not allowed: use numbers {limit}")
        return value


class Integer(Number):
    """An integer."""

    metavar = "N"

    def parse(self, words: Sequence[str]) -> int:
        """Return the integer in the word; raise BadValue if it is below the minimum."""
        value = integer(words[0])
        if value < self.minimum:
            raise BadValue(f"{value} is less than {self.minimum}")
        return value


class OptionalInteger(Integer):
    """An optional integer."""

    nargs = "?"

    def __init__(self, without_word: int, minimum: int, maximum: int) -> None:
        """Set the number for an option without one, and the smallest and largest allowed number."""
        super().__init__(minimum, maximum)
        self.without_word = without_word

    def parse(self, words: Sequence[str]) -> int:
        """Return the integer, or the value for a flag without one."""
        value = super().parse(words) if words else self.without_word
        if value > self.maximum:
            raise BadValue(f"{value} is more than {self.maximum:g}")
        return value

    def unparse(self, value: int) -> list[str]:
        """Return the number, if it is needed."""
        return [] if value == self.without_word else [str(value)]


class Integers(Texts):
    """Several integers."""

    metavar = "N"

    def parse(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the integers in the words."""
        return tuple(map(integer, words))


class NumberOrAuto(Number):
    """A number within limits, or the word ``auto``."""

    metavar = "NUMBER|auto"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the number in the word, or ``auto``."""
        return "auto" if words[0].lower() == "auto" else super().parse(words)


class Range(Kind):
    """A range of numbers: ``[0,1]``."""

    metavar = "[MIN,MAX]"

    def parse(self, words: Sequence[str]) -> tuple[float | int, float | int]:
        """Return the smaller and the larger number."""
        parts = split_list(words[0])
        if len(parts) != 2:
            raise BadValue(f"{words[0]!r} is not a range such as [0,1]")
        low, high = map(number, parts)
        if not low <= high:
            raise BadValue(f"{words[0]!r} is not in ascending order")
        return low, high

    def unparse(self, value: tuple[float, float]) -> list[str]:
        """Return the range in brackets."""
        return [f"[{_digits(value[0])},{_digits(value[1])}]"]


def _digits(value: float) -> str:
    """Return a number as text, without loss and without a fraction of zero."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def split_list(text: str) -> list[str]:
    """Return the parts of ``[a,b]``, or ``a,b``, split at its commas."""
    stripped = text.strip()
    if stripped.startswith("[") != stripped.endswith("]"):
        raise BadValue(f"{text!r} has an unmatched bracket")
    inner = stripped[1:-1] if stripped.startswith("[") else stripped
    return [part.strip() for part in inner.split(",")] if inner.strip() else []


def integer(text: str) -> int:
    """Return the integer in a text; ``1e3`` is valid."""
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
    """Return the number in a text: an integer if it is written as one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a number") from None


_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ByteSize(Kind):
    """A number of bytes: ``1024``, ``16e6``, ``1.5K``, ``512M`` or ``2G``, where K is 1024."""

    metavar = "BYTES"

    def parse(self, words: Sequence[str]) -> ByteCount:
        """Return the number of bytes, without a fraction."""
        from fractions import Fraction

        from polygraphy.codegen.source import ByteCount

        text = words[0].strip()
        unit = _UNITS.get(text[-1:].upper(), 1)
        digits = text[:-1] if unit > 1 else text
        try:
            value = Fraction(digits)
        except (ValueError, ZeroDivisionError):
            value = Fraction(-1)
        if value < 0 or "/" in digits:
            raise BadValue(f"{words[0]!r} is not a size in bytes, such as 1024, 16e6, 512M or 2G")
        return ByteCount(value * unit)


_FORM = re.compile(r"top-(\d+)(?:,axis=(-?\d+))?", re.ASCII)


class TopK(Kind):
    """The number of largest elements: ``top-5``, or along a given axis ``top-5,axis=1``."""

    metavar = "top-K[,axis=A]"

    def parse(self, words: Sequence[str]) -> int | tuple[int, int]:
        """Return the number, or the number and the axis."""
        match = _FORM.fullmatch(words[0])
        if match is None or int(match[1]) == 0:
            raise BadValue(
                f"{words[0]!r} is not a post-processing step such as top-5 or top-5,axis=1"
            )
        return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))

    def unparse(self, value: int | tuple[int, int]) -> list[str]:
        """Return number and axis in one word."""
        return [f"top-{value}" if isinstance(value, int) else f"top-{value[0]},axis={value[1]}"]
