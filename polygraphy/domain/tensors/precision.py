"""How finely a data type resolves numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen


@frozen
class Precision:
    """A data type in which values are computed.

    Attributes:
        name: the data type, such as ``float16``.
        epsilon: the distance from 1 to the next number above.
        smallest: the smallest positive number that has all digits; below it, the distance between
            neighbours stays ``smallest * epsilon``.
    """

    name: str
    epsilon: float
    smallest: float


def _table(*rows: tuple[str, int, int]) -> Mapping[str, Precision]:
    return MappingProxyType(
        {name: Precision(name, 2.0**-digits, 2.0**exponent) for name, digits, exponent in rows}
    )


PRECISIONS = _table(
    # Digits after the point, and the exponent of the smallest normal number.
    ("float64", 52, -1022),
    ("float32", 23, -126),
    ("tf32", 10, -126),
    ("float16", 10, -14),
    ("bfloat16", 7, -126),
    ("float8e4m3fn", 3, -6),
    ("float8e4m3fnuz", 3, -7),
    ("float8e5m2", 2, -14),
    ("float8e5m2fnuz", 2, -15),
    ("float4", 1, 0),
    # Quantised: steps of the same size, of which so many make up the range; how large they are, a
    # scale says that is float32.
    ("int8", 7, -126),
    ("int4", 3, -126),
    ("int2", 1, -126),
)
"""The data types that networks compute in, from fine to coarse within each kind."""

_ALIASES = {"uint8": "int8", "uint4": "int4", "uint2": "int2", "float4e2m1fn": "float4"}
_EXACT = ("bool", "int", "uint", "str", "object")


def precision_of(dtype: str) -> Precision | None:
    """Return what is known of a data type, spelt as here or as NumPy does; None for others."""
    name = dtype.lower().replace("_", "")
    return PRECISIONS.get(_ALIASES.get(name, name))


def epsilon_of(dtype: Any) -> float:
    """Return the epsilon of a data type; zero for integers, flags and text."""
    numpy_type = np.dtype(dtype)
    known = precision_of(numpy_type.name)
    return known.epsilon if known is not None and not is_exact(numpy_type.name) else 0.0


def is_float(array: Any) -> bool:
    """Return whether an array holds rounded numbers. NumPy has no kind for those of bfloat16 and of
    the 8-bit types.
    """
    return isinstance(array, np.ndarray) and epsilon_of(array.dtype) > 0


def is_exact(dtype: str) -> bool:
    """Return whether an array of a data type holds no rounded numbers: integers, flags, text."""
    return dtype.lower().startswith(_EXACT)


def coarsest(names: Iterable[str]) -> Precision | None:
    """Return the data type with the largest epsilon; None when none is known."""
    known = [found for name in names if (found := precision_of(name)) is not None]
    return max(known, key=lambda precision: precision.epsilon, default=None)
