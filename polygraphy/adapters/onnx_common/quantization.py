"""DequantizeLinear and QuantizeLinear of the opsets below 19."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.arrays import Array, positive, wide

__all__ = ["dequantize", "quantize"]


def _aligned(values: Array, x: Array, axis: int) -> Array:
    """Return one value for all elements, or one for each place along an axis."""
    if values.size == 1:
        return values.reshape(())
    along = positive(axis, x.ndim)
    return values.reshape([-1 if place == along else 1 for place in range(x.ndim)])


def dequantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1, **_: Any
) -> Array:
    """Return (x - zero point) times scale."""
    shifted = wide(x)
    if zero_point is not None:
        shifted = shifted - wide(_aligned(zero_point, x, axis))
    made: Array = (shifted * wide(_aligned(scale, x, axis))).astype(scale.dtype)
    return made


def quantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1, **_: Any
) -> Array:
    """Return x over scale, rounded half to even, plus zero point, within the limits of its type."""
    kind = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    # The quotient is a float32 in every backend, and decides which integer is nearest.
    quotient = np.rint((x / _aligned(scale, x, axis)).astype(np.float32))
    shift = 0 if zero_point is None else wide(_aligned(zero_point, x, axis))
    limits = np.iinfo(kind)
    made: Array = np.clip(wide(quotient) + shift, limits.min, limits.max).astype(kind)
    return made
