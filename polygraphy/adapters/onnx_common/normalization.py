"""Operators that normalize, by the formulas of the ONNX standard, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import (
    Array,
    Results,
    positive_axis,
    round_like,
    to_float64,
)


def batch_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    opset: int,
    outputs: int,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    **_: Any,
) -> Results:
    """Return x normalized by given statistics, or in training by those of the batch:
    from opset 14 on an attribute selects training, before that the number of outputs does.
    """
    wides = [to_float64(value) for value in (scale, bias, mean, var)]
    values = to_float64(x)
    if spatial or opset >= 9:
        shape = (-1, *(1,) * (x.ndim - 2))
        over = tuple(axis for axis in range(x.ndim) if axis != 1)
    else:  # The means have the shape of a sample.
        shape = x.shape[1:]
        over = (0,)
    is_training = bool(training_mode) if opset >= 14 else outputs > 1
    of_batch = [values.mean(over), values.var(over)] if is_training else wides[2:]
    factor, offset, center, spread = (value.reshape(shape) for value in (*wides[:2], *of_batch))
    normalized = factor * (values - center) / np.sqrt(spread + epsilon) + offset
    if not is_training:
        return (round_like(normalized, x),)
    running = [
        old * momentum + new.reshape(old.shape) * (1 - momentum)
        for old, new in zip(wides[2:], of_batch)
    ]
    every = [round_like(normalized, x), round_like(running[0], mean), round_like(running[1], var)]
    if opset < 14:
        every += [round_like(value, mean) for value in of_batch]
    return tuple(every[:outputs])


def _rows_to_normalize(x: Array, axis: int | None, opset: int) -> tuple[Array, int]:
    """Return x as softmax and its relatives normalize it, and the axis.

    Before opset 13, the axes from `axis` on are merged into one.
    """
    if opset >= 13:
        return to_float64(x), -1 if axis is None else axis
    first = (1 if axis is None else axis) % (x.ndim + 1) if (axis or 1) >= 0 else axis + x.ndim  # type: ignore[operator]
    columns = int(np.prod(x.shape[first:]))
    return to_float64(x).reshape(x.size // columns if columns else 0, columns), 1


def softmax(x: Array, *, opset: int, axis: int | None = None, **_: Any) -> Array:
    """Return exp(x) over its sum."""
    if not x.size:
        return x
    rows, along = _rows_to_normalize(x, axis, opset)
    powers = np.exp(rows - rows.max(axis=along, keepdims=True))
    result = powers / powers.sum(axis=along, keepdims=True)
    return round_like(result.reshape(x.shape), x)


def log_softmax(x: Array, *, opset: int, axis: int | None = None, **_: Any) -> Array:
    """Return the logarithm of `softmax`, finite where softmax itself is too small to differ from
    zero.
    """
    if not x.size:
        return x
    rows, along = _rows_to_normalize(x, axis, opset)
    below = rows - rows.max(axis=along, keepdims=True)
    result = below - np.log(np.exp(below).sum(axis=along, keepdims=True))
    return round_like(result.reshape(x.shape), x)


def hardmax(x: Array, *, opset: int, axis: int | None = None, **_: Any) -> Array:
    """Return 1 at the first of the largest elements, 0 elsewhere."""
    if not x.size:
        return x
    rows, along = _rows_to_normalize(x, axis, opset)
    array = np.zeros_like(rows)
    first = np.expand_dims(rows.argmax(axis=along), along)
    np.put_along_axis(array, first, 1, axis=along)
    return round_like(array.reshape(x.shape), x)


def lrn(
    x: Array,
    *,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    **_: Any,
) -> Array:
    """Return x, each element divided by a power of the sum of squares of its neighbor channels."""
    values = to_float64(x)
    squares = np.zeros_like(values)
    channels = x.shape[1]
    before, after = (size - 1) // 2, size // 2
    for channel in range(channels):
        around = slice(max(0, channel - before), min(channels, channel + after + 1))
        squares[:, channel] = (values[:, around] ** 2).sum(axis=1)
    return round_like(values / (bias + alpha / size * squares) ** beta, x)


def instance_normalization(
    x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, **_: Any
) -> Array:
    """Return each channel of each sample normalized by its own statistics."""
    values = to_float64(x)
    over = tuple(range(2, x.ndim))
    shape = (-1, *(1,) * (x.ndim - 2))
    center, spread = values.mean(over, keepdims=True), values.var(over, keepdims=True)
    normalized = (values - center) / np.sqrt(spread + epsilon)
    return round_like(
        to_float64(scale).reshape(shape) * normalized + to_float64(bias).reshape(shape), x
    )


def lp_normalization(x: Array, *, axis: int = -1, p: int = 2, **_: Any) -> Array:
    """Return x over its norm along an axis; zeros remain zeros."""
    values = to_float64(x)
    norm = (np.abs(values) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return round_like(values / np.where(norm == 0, 1, norm), x)


def layer_normalization(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    outputs: int,
    axis: int = -1,
    epsilon: float = 1e-5,
    **_: Any,
) -> Results:
    """Return x normalized over the last axes; the statistics, if requested, are float32."""
    values = to_float64(x)
    over = tuple(range(positive_axis(axis, x.ndim), x.ndim))
    center = values.mean(over, keepdims=True)
    inverse = 1 / np.sqrt(values.var(over, keepdims=True) + epsilon)
    result = (values - center) * inverse * to_float64(scale)
    if bias is not None:
        result = result + to_float64(bias)
    statistics = (part.astype(np.float32) for part in (center, inverse))
    return (round_like(result, x), *statistics)[:outputs]


def group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    opset: int,
    epsilon: float = 1e-5,
    **_: Any,
) -> Array:
    """Return each group of channels normalized; below opset 21 a group has one scale for all its
    channels.
    """
    groups = to_float64(x).reshape(x.shape[0], num_groups, -1)
    center, spread = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    normalized = ((groups - center) / np.sqrt(spread + epsilon)).reshape(x.shape)
    repeated = 1 if opset >= 21 else x.shape[1] // num_groups
    factor, offset = (
        np.repeat(to_float64(part), repeated).reshape(-1, *(1,) * (x.ndim - 2))
        for part in (scale, bias)
    )
    return round_like(factor * normalized + offset, x)


def mean_variance_normalization(x: Array, *, axes: Sequence[int] = (0, 2, 3), **_: Any) -> Array:
    """Return x minus the mean, over the standard deviation."""
    values, over = to_float64(x), tuple(positive_axis(axis, x.ndim) for axis in axes)
    centered = values - values.mean(over, keepdims=True)
    return round_like(centered / (values.std(over, keepdims=True) + 1e-9), x)
