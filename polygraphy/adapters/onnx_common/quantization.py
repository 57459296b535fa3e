"""Quantized values: operators of the opsets below 19, products; and conversions of data types."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.convolution import conv
from polygraphy.adapters.onnx_common.elementwise import Array, positive_axis, to_float64


def _align_to_axis(values: Array, x: Array, axis: int) -> Array:
    """Return one value for all elements, or one for each position along an axis."""
    if values.size == 1:
        return values.reshape(())
    along = positive_axis(axis, x.ndim)
    return values.reshape([-1 if axis_number == along else 1 for axis_number in range(x.ndim)])


def dequantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1, **_: Any
) -> Array:
    """Return (x - zero point) times scale."""
    shifted = to_float64(x)
    if zero_point is not None:
        shifted = shifted - to_float64(_align_to_axis(zero_point, x, axis))
    array: Array = (shifted * to_float64(_align_to_axis(scale, x, axis))).astype(scale.dtype)
    return array


def quantize(
    x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1, **_: Any
) -> Array:
    """Return x over scale, rounded half to even, plus zero point, within the limits of its type."""
    kind = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    # Round the quotient to float32, as every backend does, because it determines the nearest
    # integer.
    quotient = np.rint((x / _align_to_axis(scale, x, axis)).astype(np.float32))
    if kind.kind not in "iu":
        return _to_small_floats(x / _align_to_axis(scale, x, axis), kind)
    shift = 0 if zero_point is None else to_float64(_align_to_axis(zero_point, x, axis))
    limits = np.iinfo(kind)
    array: Array = np.clip(to_float64(quotient) + shift, limits.min, limits.max).astype(kind)
    return array


def _to_small_floats(quotient: Array, kind: np.dtype[Any]) -> Array:
    """Return numbers in a floating-point type of 8 or 4 bits, within the limits of its range."""
    import ml_dtypes

    most = float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
    rounded: Array = np.clip(quotient.astype(np.float32), -most, most).astype(kind)
    return rounded


def _subtract_zero_point(x: Array, zero_point: Array | None, axis: int) -> Array:
    """Return x minus the zero point, in float64."""
    return (
        to_float64(x)
        if zero_point is None
        else to_float64(x) - to_float64(_align_to_axis(zero_point, x, axis))
    )


def _requantize_product(product: Array, scale: Array, zero_point: Array) -> Array:
    """Return a product of integers in units of `scale`, quantized to the type of its zero point."""
    quotient = to_float64(np.rint(product.astype(np.float32) * scale.astype(np.float32)))
    limits = np.iinfo(zero_point.dtype)
    clip: Array = np.clip(quotient + to_float64(zero_point.reshape(())), limits.min, limits.max)
    return clip.astype(zero_point.dtype)


def conv_integer(
    x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, **attributes: Any
) -> Array:
    """Return the convolution of integers as int32."""
    return conv(
        _subtract_zero_point(x, x_zero, 1), _subtract_zero_point(w, w_zero, 0), **attributes
    ).astype(np.int32)


def qlinear_conv(
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    b: Array | None = None,
    **attributes: Any,
) -> Array:
    """Return the convolution of quantized values.
    Scale and zero point of the weights may be one for each output.
    """
    product = conv(
        _subtract_zero_point(x, x_zero, 1), _subtract_zero_point(w, w_zero, 0), b, **attributes
    )
    scale = _align_to_axis(x_scale.reshape(()) * w_scale / y_scale.reshape(()), product, 1)
    return _requantize_product(product, scale, y_zero)


def qlinear_matmul(
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
    **_: Any,
) -> Array:
    """Return the product of quantized matrices; `a` may be quantized by row, `b` by column."""
    rows, columns = (
        values if values.ndim > 1 else _align_to_axis(values, matrix, axis)
        for values, matrix, axis in ((a_scale, a, -2), (b_scale, b, -1))
    )
    left = to_float64(a) - to_float64(a_zero if a_zero.ndim > 1 else _align_to_axis(a_zero, a, -2))
    right = to_float64(b) - to_float64(b_zero if b_zero.ndim > 1 else _align_to_axis(b_zero, b, -1))
    return _requantize_product(left @ right, rows * columns / y_scale.reshape(()), y_zero)


TRUNCATES = any(
    find_spec(f"onnx.{name}")
    for name in ("_custom_element_types", "reference.custom_element_types")
)
"""Whether the evaluator truncates to bfloat16 instead of rounding, as in onnx 1.18 and earlier."""
_BFLOAT16 = 16


def cast(
    x: Array, *, to: int, opset: int, outputs: int, saturate: int = 1, **options: Any
) -> Array:
    """Return x in another data type; bfloat16 is rounded to the nearest."""
    from onnx.reference.ops.op_cast import cast_to

    if to == _BFLOAT16 and x.dtype.kind == "f":
        import ml_dtypes

        with np.errstate(over="ignore"):
            x = x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    array: Array = cast_to(x, to, saturate)  # type: ignore[arg-type] # It is of other releases.
    return array
