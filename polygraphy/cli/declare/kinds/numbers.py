"""Numbers: whole or not, ranges of them, of bytes, and of the largest elements."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds.base import Kind
from polygraphy.cli.declare.kinds.texts import Texts

if TYPE_CHECKING:
    from polygraphy.codegen.source import ByteCount


class Number(Kind):
    """A number within limits."""

    metavar = "NUMBER"

    def __init__(self, minimum: float = -math.inf, maximum: float = math.inf) -> None:
        """Set which are the smallest and the largest allowed."""
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


class Integer(Number):
    """A whole number."""

    metavar = "N"

    def parse(self, words: Sequence[str]) -> int:
        """Return the number."""
        value = integer(words[0])
        if value < self.minimum:
            raise BadValue(f"{value} is less than {self.minimum}")
        return value


class Integers(Texts):
    """Some whole numbers."""

    metavar = "N"

    def parse(self, words: Sequence[str]) -> tuple[int, ...]:
        return tuple(map(integer, words))


class NumberOrAuto(Number):
    """A number within limits, or the word ``auto``."""

    metavar = "NUMBER|auto"

    def parse(self, words: Sequence[str]) -> Any:
        return "auto" if words[0].lower() == "auto" else super().parse(words)


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


_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ByteSize(Kind):
    """A number of bytes: ``1024``, ``16e6``, ``1.5K``, ``512M`` or ``2G``, where K is 1024."""

    metavar = "BYTES"

    def parse(self, words: Sequence[str]) -> ByteCount:
        """Return the number; a fraction of a byte is left out."""
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
            raise BadValue(f"{words[0]!r} is no number of bytes, such as 1024, 16e6, 512M or 2G")
        return ByteCount(value * unit)


_FORM = re.compile(r"top-(\d+)(?:,axis=(-?\d+))?", re.ASCII)


class TopK(Kind):
    """How many of the largest elements: ``top-5``, or along another axis than the last
    ``top-5,axis=1``.
    """

    metavar = "top-K[,axis=A]"

    def parse(self, words: Sequence[str]) -> int | tuple[int, int]:
        """Return the number, or the number and the axis."""
        match = _FORM.fullmatch(words[0])
        if match is None or int(match[1]) == 0:
            raise BadValue(f"{words[0]!r} is no post-processing such as top-5 or top-5,axis=1")
        return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))

    def unparse(self, value: int | tuple[int, int]) -> list[str]:
        """Return number and axis in one word."""
        return [f"top-{value}" if isinstance(value, int) else f"top-{value[0]},axis={value[1]}"]
