"""Numbers of bytes on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Kind
from polygraphy.codegen.source import ByteCount

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ByteSize(Kind):
    """A number of bytes: ``1024``, ``16e6``, ``1.5K``, ``512M`` or ``2G``, where K is 1024."""

    metavar = "BYTES"

    def parse(self, words: Sequence[str]) -> ByteCount:
        """Return the number; a fraction of a byte is left out."""
        from fractions import Fraction

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

    def unparse(self, value: int) -> list[str]:
        """Return the number of bytes."""
        return [str(value)]
