"""Forms of values that only options about TensorRT take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polygraphy.cli.backends.trt.names import DATA_TYPES, NAMES
from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Kind, Text, Texts, split_list
from polygraphy.cli.declare.kinds.base import ByteSize

_DEFAULT_MODES = ("none", "prefer", "obey")


def _match_word(word: str, known_words: Sequence[str], what: str) -> str:
    """Return the spelling of a word in a list of known ones; raise BadValue for an unknown word."""
    lowered = word.lower()
    if lowered in known_words:
        return lowered
    from difflib import get_close_matches

    matches = get_close_matches(lowered, known_words, n=2)
    advice = (
        f"did you mean {' or '.join(matches)}"
        if matches
        else f"available: {', '.join(known_words)}"
    )
    raise BadValue(f"{word!r} is not a known {what}; {advice}")


class Member(Kind):
    """The name of a member of one of TensorRT's enumerations, in any case."""

    def __init__(self, enumeration: str, metavar: str, nargs: str | None = None) -> None:
        """Set the enumeration, and the noun for its members in the help."""
        super().__init__(metavar, nargs)
        self.enumeration = enumeration
        self.choices = NAMES[enumeration]

    def parse(self, words: Sequence[str]) -> str:
        """Return the name in lower case."""
        return _match_word(words[0], NAMES[self.enumeration], self.enumeration)


class Members(Member, Texts):
    """Several members of an enumeration, each once; without a word, none of them, unless `nargs` is
    ``+``."""

    nargs = "*"

    def parse(self, words: Sequence[str]) -> Any:
        """Return the full names, without duplicates."""
        name = NAMES[self.enumeration]
        return tuple(dict.fromkeys(_match_word(word, name, self.enumeration) for word in words))


class DataType(Kind):
    """The name of a data type, in any of its usual spellings."""

    metavar = "DTYPE"
    choices = tuple(DATA_TYPES)

    def parse(self, words: Sequence[str]) -> str:
        """Return the canonical name, such as ``float16``."""
        return DATA_TYPES[_match_word(words[0], tuple(DATA_TYPES), "data type")]


class PerNameOnly(Kind):
    """A value for each of several names, such as ``workspace:1G dla_local_dram:512M``; the value
    follows the last colon."""

    nargs = "+"

    def __init__(self, value: Kind, what: str, names: Kind | None = None) -> None:
        """Set the kind of the values, the noun for the names, and the allowed names."""
        self.value = value
        self.names = names
        self.what = what.lower()
        self.metavar = f"{what}:{'[FORMAT,...]' if value.nargs else value.metavar}"

    def parse(self, words: Sequence[str]) -> Any:
        """Return a dictionary from names to values."""
        values: dict[str, Any] = {}
        for word in words:
            name, colon, text = word.rpartition(":")
            if not colon or not name:
                raise BadValue(f"{word!r} is not {self.metavar}: it does not select a {self.what}")
            if self.names is not None:
                name = self.names.parse([name])
            if name in values:
                raise BadValue(f"{name!r} has two values")
            values[name] = self._value(text)
        return values

    def _value(self, text: str) -> Any:
        """Return the parsed value for one name."""
        return self.value.parse(split_list(text) if self.value.nargs else [text])

    def argument(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dictionary of values as written in a program."""
        return {name: self.value.argument(value) for name, value in value.items()}

    def unparse(self, value: Mapping[str, Any]) -> list[str]:
        """Return a word per name, ``NAME:VALUE``."""
        words = []
        for name, array in value.items():
            texts = self.value.unparse(array)
            text = f"[{','.join(texts)}]" if self.value.nargs else texts[0]
            words.append(f"{name}:{text}")
        return words


class Constraints(Kind):
    """How strictly layers keep their precisions: one of a few words, or data types of layers, which
    are then kept strictly."""

    nargs = "+"
    metavar = "{none,prefer,obey}|LAYER:DTYPE"
    choices = _DEFAULT_MODES

    def __init__(self) -> None:
        """Set the allowed words and data types."""
        self._per_layer = PerNameOnly(DataType(), "LAYER")

    def ends_before(self, word: str, taken_words: Sequence[str]) -> bool:
        """Return whether a word follows one of the modes, which must be the only word."""
        return bool(taken_words) and taken_words[0].lower() in _DEFAULT_MODES

    def parse(self, words: Sequence[str]) -> Any:
        """Return the word, or a dictionary from layers to data types."""
        if len(words) == 1 and words[0].lower() in _DEFAULT_MODES:
            return words[0].lower()
        for word in words:
            if ":" not in word:
                listed = ", ".join(_DEFAULT_MODES)
                raise BadValue(f"{word!r} is neither one of {listed} nor of the form LAYER:DTYPE")
        return self._per_layer.parse(words)

    def unparse(self, value: Any) -> list[str]:
        """Return the word, or one word per layer."""
        return [value] if isinstance(value, str) else self._per_layer.unparse(value)


class Budget(Kind):
    """The memory for weights: a number of bytes, a percentage such as ``50%``, -1 for TensorRT's
    choice, or -2 for all."""

    metavar = "BYTES|PERCENT%"

    def parse(self, words: Sequence[str]) -> Any:
        """Return a whole number of bytes (or -1 or -2), or a percentage as a fractional number."""
        text = words[0].strip()
        if text in ("-1", "-2"):
            return int(text)
        if not text.endswith("%"):
            return ByteSize().parse([text])
        try:
            percent = float(text[:-1])
        except ValueError:
            percent = -1.0
        if not 0 <= percent <= 100:
            raise BadValue(f"{text!r} is not a percentage from 0% to 100%")
        return percent

    def unparse(self, value: Any) -> list[str]:
        """Return the number with its unit."""
        return [f"{value!r}%" if isinstance(value, float) else str(value)]


class RuntimeLibrary(Text):
    """The path of a library that loads engines."""

    def argument(self, value: str) -> Any:
        """Return the call that loads the library."""
        from polygraphy.codegen.source import Call

        return Call("LoadRuntime", (value,))


class ComputeCapabilities(Texts):
    """Compute capabilities of GPUs: ``8.9 12.0``, or ``89 120``."""

    metavar = "CC"

    def parse(self, words: Sequence[str]) -> Any:
        """Return pairs of major and minor version."""
        return tuple(dict.fromkeys(map(self._pair, words)))

    def _pair(self, word: str) -> tuple[int, int]:
        """Return the major and minor number of a compute capability, such as 8.9."""
        major, dot, minor = word.partition(".")
        if not dot:
            major, minor = word[:-1], word[-1:]
        if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
            raise BadValue(f"{word!r} is not a compute capability, such as 8.9")
        return int(major), int(minor)

    def unparse(self, value: Any) -> list[str]:
        """Return the versions with dots, such as ``8.9``."""
        return [f"{major}.{minor}" for major, minor in value]
