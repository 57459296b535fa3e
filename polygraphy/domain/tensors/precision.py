"""How finely a data type resolves numbers, and how far rounding in it takes a result.

The formula is explained in ``docs/tolerances.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.tensors.pickling import pickled_as

GROWTH = 16.0
"""How many epsilons a network may be off: what 1024 roundings in a row, of half an epsilon each and
independent of each other, add up to, which is the square root of 1024 times half an epsilon.
"""


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
    # Quantised: steps of the same size, of which so many make up the range.
    ("int8", 7, 0),
    ("int4", 3, 0),
    ("int2", 1, 0),
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


def _brief(number: float) -> float:
    return float(f"{number:.3g}")


@pickled_as("polygraphy.comparator.compare")
@frozen
class Rounding:
    """What rounding explains of the difference between two outputs.

    Attributes:
        dtype: the data type that it follows from, such as ``float16``.
        rtol: how large relative differences may become.
        atol: how large absolute differences may become, in the output's own unit.
        origin: how the data type is known, in words.
    """

    dtype: str
    rtol: float
    atol: float
    origin: str

    @staticmethod
    def of(precision: Precision, magnitude: float, origin: str) -> Rounding:
        """Apply the formula: ``rtol = 16 epsilon`` and ``atol = rtol * magnitude``.

        Args:
            precision: the data type of the computation.
            magnitude: the root of the mean square of the reference. Where that is less than the
                data type resolves in full, the smallest number that it does stands for it.
            origin: how the data type is known, in words.
        """
        rtol = GROWTH * precision.epsilon
        scale = max(magnitude, precision.smallest)
        # More digits of a tolerance are neither read nor typed.
        return Rounding(precision.name, _brief(rtol), _brief(rtol * scale), origin)

    @staticmethod
    def none(dtype: str) -> Rounding:
        """Return what rounding explains of integers, flags and text: nothing."""
        return Rounding(dtype, 0.0, 0.0, "whose values are exact")

    def __str__(self) -> str:
        return f"{self.dtype}, {self.origin}"
