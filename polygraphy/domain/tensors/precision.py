"""How finely a data type resolves numbers, and what is lost where arrays are narrowed to the
nearest values of a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from attrs import frozen

from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.tensors import lazy_numpy as np
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataTypeEntry


@frozen
class Precision:
    """A data type in which values are computed.

    Attributes:
        name: the data type, such as ``float16``.
        epsilon: the distance from 1 to the next number above.
        smallest: the smallest positive number that has all digits; below it, the distance between
            neighbors stays ``smallest * epsilon``.
    """

    name: str
    epsilon: float
    smallest: float


def _table(*rows: tuple[str, int, int]) -> Mapping[str, Precision]:
    """Return the known data types, by name."""
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
    # Quantized types have equal steps: 2**digits on each side of 0, with a float32 scale.
    ("int8", 7, -126),
    ("int4", 3, -126),
    ("int2", 1, -126),
)
"""The data types that networks compute in, from fine to coarse within each kind."""

_ALIASES = {"uint8": "int8", "uint4": "int4", "uint2": "int2", "float4e2m1fn": "float4"}
_EXACT = ("bool", "int", "uint", "str", "object")


@lru_cache(maxsize=256)
def precision_of(dtype: str) -> Precision | None:
    """Return the precision of a data type, by our name or NumPy's; None if unknown."""
    name = dtype.lower().replace("_", "")
    return PRECISIONS.get(_ALIASES.get(name, name))


_NARROW = 2.0**-6
"""The epsilon from which a type has fewer than 16 bits."""


@lru_cache(maxsize=256)
def epsilon_of(dtype: Any) -> float:
    """Return the epsilon of a data type; zero for integers, booleans and text."""
    numpy_type = np.dtype(dtype)
    precision = precision_of(numpy_type.name)
    return precision.epsilon if precision is not None and not is_exact(numpy_type.name) else 0.0


def is_float(array: Any) -> bool:
    """Return whether an array contains rounded numbers, bfloat16 and 8-bit floats included."""
    return isinstance(array, np.ndarray) and epsilon_of(array.dtype) > 0


def is_float_code(array: Any) -> bool:
    """Return whether an array contains floating-point numbers of fewer than 16 bits:
    codes of a quantized model, which are exact.
    """
    return is_float(array) and epsilon_of(array.dtype) >= _NARROW


def has_text(array: Any) -> bool:
    """Return whether an array contains strings, or other objects that are no numbers."""
    return isinstance(array, np.ndarray) and array.dtype.kind in "OSU"


def is_exact(dtype: str) -> bool:
    """Return whether values of a data type are not rounded: integers, booleans and text."""
    return dtype.lower().startswith(_EXACT)


def coarsest_type(names: Iterable[str]) -> Precision | None:
    """Return the data type with the largest epsilon; None if none is known."""
    precisions = [entry for name in names if (entry := precision_of(name)) is not None]
    return max(precisions, key=lambda precision: precision.epsilon, default=None)


_BLOCK = 1 << 20
"""Elements that are looked at together, so that what is held beside the result stays small."""


@frozen
class NarrowingLoss:
    """The loss from narrowing an array, apart from rounding.

    Attributes:
        elements: number of elements.
        clamped: the number of finite elements that were too large and became the largest finite
            value.
        flushed: the number of elements that became zero.
        subnormal: the number of elements that became subnormal, which have fewer digits.
        largest: the largest finite magnitude before.
        error: the largest absolute difference between an element before and after.
    """

    elements: int = 0
    clamped: int = 0
    flushed: int = 0
    subnormal: int = 0
    largest: float = 0.0
    error: float = 0.0

    @property
    def is_harmless(self) -> bool:
        """Return whether every element kept its order of magnitude."""
        return not (self.clamped or self.flushed)

    def __add__(self, other: NarrowingLoss) -> NarrowingLoss:
        """Return the loss of two arrays together."""
        return NarrowingLoss(
            self.elements + other.elements,
            self.clamped + other.clamped,
            self.flushed + other.flushed,
            self.subnormal + other.subnormal,
            max(self.largest, other.largest),
            max(self.error, other.error),
        )


def widen_array(array: Any) -> Any:
    """Return an array in half precision as float32; other arrays unchanged."""
    narrow = isinstance(array, np.ndarray) and array.dtype.name in HALF
    return array.astype(np.float32) if narrow else array


def narrow_array(array: Array, dtype: DataTypeEntry) -> tuple[Array, NarrowingLoss]:
    """Return an array rounded to a narrower floating-point type, and the loss.

    NaN and infinities are unchanged. A finite element beyond the range of the type becomes its
    largest finite value of the same sign, because an infinity would spread through a model.

    Args:
        array: floating-point numbers, of any shape.
        dtype: the type, such as `DataType.FLOAT16`.

    Returns:
        An array of the same shape, and what was lost.
    """
    target = dtype.numpy()
    limits = limits_of(target)[:2]
    computed_array = np.empty(array.shape, target)
    given_array, flat = array.reshape(-1), computed_array.reshape(-1)
    loss = NarrowingLoss()
    for start in range(0, given_array.size, _BLOCK):
        block = given_array[start : start + _BLOCK]
        loss += _narrow_block(block, flat[start : start + _BLOCK], *limits)
    return computed_array, loss


def limits_of(target: np.dtype[Any]) -> tuple[float, float, float]:
    """Return the largest finite number, the smallest normal one, and the spacing at 1 of a type."""
    if target.kind == "f":
        limits: Any = np.finfo(target)
    else:
        import ml_dtypes

        make: Any = ml_dtypes.finfo
        limits = make(target)
    return float(limits.max), float(limits.smallest_normal), float(limits.eps)


def with_digits(array: Array, spacing: float, *, drops: bool = False) -> Array:
    """Return an array rounded to a given spacing at 1.
    The range of numbers is kept, and other types are unchanged.

    Args:
        array: the numbers.
        spacing: the distance between two numbers next to 1, a power of two.
        drops: the digits that are too many are dropped instead of rounded.
    """
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(array)
        steps = np.asarray(2 / spacing, mantissa.dtype)
        computed_array = np.asarray(
            np.ldexp((np.trunc if drops else np.rint)(mantissa * steps) / steps, exponent),
            array.dtype,
        )
        # The largest float32 (common in masks) would round up to infinity, so clip it.
        return (
            computed_array
            if np.isfinite(computed_array).all()
            else np.where(np.isfinite(array), np.nan_to_num(computed_array, nan=np.nan), array)
        )


def _narrow_block(
    block: Array, computed_array: Array, largest: float, smallest: float
) -> NarrowingLoss:
    """Return the loss of narrowing a block."""
    array, magnitude = block, np.abs(block)
    finite = np.isfinite(block)
    if not finite.all():
        magnitude = np.where(finite, magnitude, 0)
    peak = float(magnitude.max(initial=0))
    clamped = 0
    if peak > largest:
        too_large = magnitude > largest
        clamped = int(np.count_nonzero(too_large))
        block = np.where(too_large, np.copysign(largest, block), block)
    with np.errstate(all="ignore"):
        computed_array[...] = block.astype(computed_array.dtype)
        error = float(np.fmax.reduce(np.abs(array - computed_array.astype(array.dtype)), initial=0))
    small = magnitude < smallest
    flushed = subnormal = 0
    if small.any():
        survives = computed_array[small].astype(np.float32) != 0
        nonzero = magnitude[small] != 0
        flushed = int(np.count_nonzero(nonzero & ~survives))
        subnormal = int(np.count_nonzero(nonzero & survives))
    return NarrowingLoss(block.size, clamped, flushed, subnormal, peak, error)
