"""Integers in the order of the floats.

With them "up to v" is "below the key after that of v", and a range of floats can be halved however
its values are spread. Both zeros have the key 0.
"""

from __future__ import annotations

import math
import struct

_SIGN = 1 << 63


def key_of(value: float) -> int:
    """The key of a float that is not NaN."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits if bits < _SIGN else _SIGN - bits


def value_of(key: int) -> float:
    """The float that has a key."""
    value: float = struct.unpack("<d", struct.pack("<Q", abs(key)))[0]
    return value if key >= 0 else -value


def is_point(low: int, high: int) -> bool:
    """Whether only one value has a key of at least `low` and below `high`."""
    return high == low + 1


LEAST = key_of(-math.inf)
"""The least key."""

END = key_of(math.inf) + 1
"""The key after the greatest one."""
