"""Quantization schemes: a table of types, scales and zero points."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

from polygraphy.domain.tensors.aliases import Array


@frozen
class StoredType:
    """A data type of quantized codes.

    Attributes:
        name: as ONNX calls it, in lower case.
        least: the smallest code.
        most: the largest code.
        minifloat: the NumPy type of one with an exponent; None for integers.
    """

    name: str
    least: float
    most: float
    minifloat: Any = None

    @property
    def middle(self) -> int:
        """Return the zero point of a symmetric range."""
        return 0 if self.least < 0 else int((self.most + 1) // 2)


def _integer(name: str, bits: int, *, signed: bool) -> StoredType:
    """Return the type of integers with a number of bits."""
    least = -(2 ** (bits - 1)) if signed else 0
    return StoredType(name, least, least + 2**bits - 1)


def _minifloat(name: str, kind: Any) -> StoredType:
    """Return the type of floating-point codes."""
    most = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    return StoredType(name, -most, most, kind)


STORED = {
    stored_type.name: stored_type
    for stored_type in (
        *(_integer(f"int{bits}", bits, signed=True) for bits in (2, 4, 8, 16, 32)),
        *(_integer(f"uint{bits}", bits, signed=False) for bits in (2, 4, 8, 16, 32)),
        _minifloat("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        _minifloat("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        _minifloat("float8_e5m2", ml_dtypes.float8_e5m2),
        _minifloat("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
        _minifloat("float4_e2m1fn", ml_dtypes.float4_e2m1fn),
    )
}
"""The types in which ONNX stores quantized numbers, by their NumPy names."""


@frozen(eq=False)
class Scheme:
    """The quantization of a tensor: type, scales, zero points and granularity.

    Attributes:
        dtype: the name of a `StoredType`.
        scale: one number, or one by channel or block.
        zero_point: as many codes, as float64.
        axis: the axis of channels or blocks.
        block: the number of elements along the axis that share a scale; 0 for channels.
    """

    dtype: str
    scale: Array
    zero_point: Array
    axis: int = 1
    block: int = 0

    @property
    def stored_type(self) -> StoredType:
        """Return the type of the codes."""
        return STORED[self.dtype]

    @property
    def is_per_tensor(self) -> bool:
        """Return whether all elements share one scale."""
        return bool(self.scale.size == 1)

    @property
    def replaces_relu(self) -> bool:
        """Return whether the range may start or end where a Relu or Clip does:
        zero is not in its middle."""
        is_integer = self.stored_type.minifloat is None
        return is_integer and bool(np.all(self.zero_point != self.stored_type.middle))

    @property
    def has_invalid_scale(self) -> bool:
        """Return whether a scale is not finite, or the only one is not positive.
        Of several, some may be 0, for zeros, or negative, as quantizers of blocks write them.
        """
        if not np.all(np.isfinite(self.scale)):
            return True
        return self.is_per_tensor and bool(np.all(self.scale <= 0))

    def codes(self, array: Any) -> Array:
        """Return the codes of an array, as float64."""
        array = np.asarray(array, np.float64)
        split, scale, zero = self._split_blocks(array)
        stored = self.stored_type
        with np.errstate(all="ignore"):
            quotient = np.asarray(split / scale)
            if stored.minifloat is None:
                rounded = np.rint(quotient.astype(np.float32)).astype(np.float64)
                codes: Array = np.asarray(rounded + zero)
                np.clip(codes, stored.least, stored.most, out=codes)
                return np.asarray(codes.reshape(array.shape))
            clipped = np.clip(quotient, stored.least, stored.most)
            stored_values = clipped.astype(np.float32).astype(stored.minifloat)
            return np.asarray(stored_values.astype(np.float64).reshape(array.shape))

    def values(self, codes: Array) -> Array:
        """Return the dequantized values of codes."""
        split, scale, zero = self._split_blocks(codes)
        return np.asarray(((split - zero) * scale).reshape(codes.shape))

    def limits(self) -> tuple[Array, Array]:
        """Return, by scale, the smallest and the largest number that can be represented."""
        low = (self.stored_type.least - self.zero_point) * self.scale
        return low, (self.stored_type.most - self.zero_point) * self.scale

    def _split_blocks(self, array: Array) -> tuple[Array, Array, Array]:
        """Return an array with scale and zero point in shapes that broadcast to it.
        Blocks that fill it become an axis, because repeated numbers would take twice the memory of
        the array.
        """
        axis, shape = self.axis % max(array.ndim, 1), np.shape(self.scale)
        is_alike = len(shape) == array.ndim and shape == np.shape(self.zero_point)
        if not (self.block and is_alike and array.shape[axis] == self.block * shape[axis]):
            scale, zero = (
                self._broadcast(parameter, array) for parameter in (self.scale, self.zero_point)
            )
            return array, scale, zero
        scale, zero = (
            np.expand_dims(np.asarray(parameter, np.float64), axis + 1)
            for parameter in (self.scale, self.zero_point)
        )
        split = (*array.shape[:axis], -1, self.block, *array.shape[axis + 1 :])
        return array.reshape(split), scale, zero

    def _broadcast(self, numbers: Array, array: Array) -> Array:
        """Return numbers in a shape that broadcasts to the array."""
        numbers = np.asarray(numbers, np.float64)
        if numbers.size == 1:
            return numbers.reshape(())
        if self.block:
            repeated = np.repeat(numbers, self.block, self.axis)
            return repeated.take(range(array.shape[self.axis]), self.axis)
        axis = self.axis % max(array.ndim, 1)
        return numbers.reshape([-1 if at == axis else 1 for at in range(array.ndim)])


def scheme_of_range(like: Scheme, low: Any, high: Any, *, symmetric: bool) -> Scheme:
    """Return a scheme of the same type and granularity for a range, as quantizers compute it:
    zero is exact.

    Args:
        like: whose type and granularity.
        low: the smallest number, by scale.
        high: the largest number, by scale.
        symmetric: whether zero is stored in the middle.
    """
    stored = like.stored_type
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    shape = np.shape(like.scale)
    if stored.minifloat is not None or symmetric:
        size = np.maximum(-low, high)
        steps = stored.most if stored.minifloat is not None else stored.most - stored.middle
        scale = size / steps
        zero = np.full(np.shape(scale), float(stored.middle if stored.minifloat is None else 0))
    else:
        scale = (high - low) / (stored.most - stored.least)
        with np.errstate(all="ignore"):
            zero = np.where(scale > 0, stored.least - np.rint(low / scale), stored.middle)
    scale = np.where(scale > np.finfo(np.float32).tiny, scale, 1.0)
    return Scheme(
        like.dtype,
        scale.reshape(shape).astype(np.float32).astype(np.float64),
        zero.reshape(shape),
        like.axis,
        like.block,
    )
