"""Elements of less than a byte, such as four bits: several share one, the first in its lowest bits.

NumPy keeps each of them in a byte of its own.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array


def packed(array: Array, bits: int) -> Array:
    """Return the bytes (uint8) of elements of so many bits (1, 2 or 4), in C order."""
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    per_byte = 8 // bits
    made = np.zeros(ceil(codes.size / per_byte), np.uint8)
    for place in range(per_byte):
        part = codes[place::per_byte]
        made[: part.size] |= (part & (2**bits - 1)) << (bits * place)
    return made


def unpacked(raw: Array, bits: int, dtype: np.dtype[Any], count: int) -> Array:
    """Return the first `count` elements in bytes (uint8); signed integers get their sign."""
    per_byte = 8 // bits
    codes = np.empty(raw.size * per_byte, np.uint8)
    for place in range(per_byte):
        codes[place::per_byte] = (raw >> (bits * place)) & (2**bits - 1)
    if dtype.name.startswith("int"):  # The sign is the highest of the bits.
        sign = np.int8(1 << (bits - 1))
        signed: Array = ((codes[:count].view(np.int8) ^ sign) - sign).astype(dtype)
        return signed
    return codes[:count].view(dtype)
