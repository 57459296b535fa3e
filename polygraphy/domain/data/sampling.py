"""Draws arrays of every data type from one generator of random numbers.

Which numbers are drawn for a seed is a promise: saved results stay comparable from release to
release.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import MetadataTuple
from polygraphy.domain.tensors.shapes import format_shape, override_dynamic_shape

_BLOCK = 1 << 14


def sample(
    generator: np.random.RandomState,
    name: str,
    meta: MetadataTuple,
    low: float,
    high: float,
    *,
    whole: bool = False,
) -> Array:
    """Draw the data of one input, uniformly from `low` to `high`, both inclusive.

    Args:
        generator: where the numbers come from.
        name: the input, for messages.
        meta: its data type and its static shape.
        low: the smallest value.
        high: the largest value; strings are the numbers in words, flags say whether a number is not
            zero.
        whole: draw whole numbers, whatever the data type.

    Raises:
        InputError: the data type has no value in the range, or the shape is beyond all memory.
    """
    dtype: DataTypeEntry = meta.dtype
    shape = override_dynamic_shape(meta.shape or ())
    if math.prod(shape) * 8 > sys.maxsize:  # NumPy draws numbers of eight bytes.
        raise InputError(
            f"Input {name!r} has the shape {format_shape(shape)}, more than any memory holds.",
            hint="Give it another one: --input-shapes.",
        )
    if dtype == DataType.BOOL:
        smallest, largest = not low <= 0 <= high, not low == high == 0
        return np.asarray(generator.randint(smallest, largest + 1, size=shape, dtype=np.bool_))
    if dtype.is_integral:
        return _integers(generator, name, dtype, shape, low, high)
    is_text = dtype == DataType.STRING
    native = np.dtype(np.float64) if is_text else dtype.numpy()
    with np.errstate(over="ignore"):  # What a narrow type cannot hold becomes infinite.
        if whole:
            drawn = generator.randint(math.ceil(low), math.floor(high) + 1, size=shape)
            numbers = drawn if is_text else np.asarray(drawn).astype(native)
        else:
            numbers = _floats(generator, shape, low, high, native)
    return np.asarray(numbers).astype(np.str_) if is_text else numbers


def _integers(
    generator: np.random.RandomState,
    name: str,
    dtype: DataTypeEntry,
    shape: tuple[int, ...],
    low: float,
    high: float,
) -> Array:
    if math.isinf(low) or math.isinf(high):
        raise InputError(f"Input {name!r} holds integers, which have no infinite value range.")
    smallest, largest = math.ceil(low), math.floor(high)
    if smallest > largest:
        raise InputError(
            f"There is no integer between {low} and {high} for input {name!r}.",
            hint="Widen its value range.",
        )
    native = dtype.numpy()
    least, most = integer_limits(dtype)
    if smallest < least or largest > most:
        raise InputError(
            f"The value range [{low}, {high}] of input {name!r} does not fit into {dtype},"
            f" which goes from {least} to {most}."
        )
    drawn_as = native if native.kind in "iu" else np.dtype(np.int64)
    drawn = generator.randint(smallest, largest + 1, size=shape, dtype=drawn_as)
    return np.asarray(drawn).astype(native)


def integer_limits(dtype: DataTypeEntry) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer data type."""
    native = dtype.numpy()
    if native.kind in "iu":
        limits = np.iinfo(native)
        return int(limits.min), int(limits.max)
    bits = int(dtype.itemsize * 8)
    unsigned = dtype.name.startswith("u")
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _floats(
    generator: np.random.RandomState,
    shape: tuple[int, ...],
    low: float,
    high: float,
    dtype: np.dtype[Any],
) -> Array:
    """Draw numbers block by block, so that those of eight bytes, in which they are drawn, stay in
    the cache.
    """
    drawn = np.empty(math.prod(shape), dtype)
    for start in range(0, drawn.size, _BLOCK):
        block = drawn[start : start + _BLOCK]
        block[...] = _scaled(generator.random_sample(block.size), low, high)
    return drawn.reshape(shape)


def _scaled(unit: Array, low: float, high: float) -> Array:
    """Return numbers from 0 to 1 as numbers from `low` to `high`; the former may be overwritten."""
    if math.isinf(low) and math.isinf(high):
        return np.where(unit < 0.5, low, high)
    if math.isinf(low) or math.isinf(high):
        return np.full(unit.shape, low if math.isinf(low) else high)
    width = float(high) - float(low)
    if math.isinf(width):  # The range is wider than the largest number.
        return low * (1 - unit) + high * unit
    if width != 1:
        unit *= width
    if low != 0:
        unit += float(low)
    return unit
