"""Operators with a window over any number of spatial axes, in float64: one tap of it at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.adapters.onnx_common.elementwise import (
    Array,
    Results,
    axis_values,
    index_of_slices,
    round_like,
    to_float64,
)

_MOST = 1 << 24
"""Most elements of all windows that are multiplied at once."""


def taps(
    kernel: Sequence[int], dilations: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[Any, tuple[slice, ...]]]:
    """Yield the index of each kernel element in the weights, and the input slices it multiplies.

    The input is padded, [N, C, ...].

    Args:
        kernel: its spatial shape.
        dilations: see the standard.
        strides: see the standard.
        counts: number of windows along each axis.
    """
    for offset in itertools.product(*(range(size) for size in kernel)):
        met = (
            slice(at * dilation, at * dilation + (count - 1) * stride + 1, stride)
            for at, dilation, stride, count in zip(offset, dilations, strides, counts)
        )
        yield (..., *offset), (slice(None), slice(None), *met)


def same_pads(auto_pad: str, total: int) -> tuple[int, int]:
    """Return the padding at the start and the end: for SAME_UPPER, the odd one is at the end."""
    smaller, larger = total // 2, total - total // 2
    return (smaller, larger) if auto_pad == "SAME_UPPER" else (larger, smaller)


def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    **_: Any,
) -> Array:
    """Return the convolution: `x` is [N, C, ...], `w` [M, C / group, ...]."""
    rank = x.ndim - 2
    _check_channels(x.shape[1], w.shape[1] * group, group, w.shape[0])
    kernel = w.shape[2:]
    dilations, strides = axis_values(dilations, rank, 1), axis_values(strides, rank, 1)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    values = axis_values(pads, 2 * rank, 0)
    widths = []
    for axis, size in enumerate(x.shape[2:]):
        pair = (values[axis], values[rank + axis])
        if auto_pad.startswith("SAME"):
            windows = -(-size // strides[axis])
            pair = same_pads(auto_pad, max(0, (windows - 1) * strides[axis] + reach[axis] - size))
        elif auto_pad == "VALID":
            pair = (0, 0)
        widths.append(pair)
    padded = np.pad(to_float64(x), [(0, 0), (0, 0), *widths])
    counts = [
        (size - far) // stride + 1 for size, far, stride in zip(padded.shape[2:], reach, strides)
    ]
    if min(counts) < 1:
        raise ValueError(f"the kernel covers {reach}, the padded input {padded.shape[2:]}")
    samples, inner, outer = x.shape[0], w.shape[1], w.shape[0] // group
    weights = to_float64(w).reshape(group, outer, inner, *kernel)
    positions = int(np.prod(counts))
    if inner == 1 and outer > 1 and 1 < samples * group * positions * np.prod(kernel) < _MOST:
        # A single matrix product is faster for large kernels, such as 400 elements for a spectrum.
        windows = [padded[met] for _, met in taps(kernel, dilations, strides, counts)]
        columns = np.stack(windows, axis=2).reshape(samples, group, -1, positions)
        array = weights.reshape(group, outer, -1) @ columns
    else:
        array = np.zeros((samples, group, outer, positions))
        for offset, met in taps(kernel, dilations, strides, counts):
            part = padded[met].reshape(samples, group, inner, -1)
            array += _product(weights[offset], part)
    array = array.reshape(samples, w.shape[0], *counts)
    if b is not None:
        array += to_float64(b).reshape(-1, *(1,) * rank)
    return round_like(array, x)


def _check_channels(channels: int, wanted: int, group: int, outer: int) -> None:
    """Raise ModelError if the numbers of channels and groups do not match the weight."""
    if channels != wanted or outer % group:
        raise ValueError(
            f"the input has {channels} channels, but the weight expects {wanted} in"
            f" {'1 group' if group == 1 else f'{group} groups'}"
        )


def _product(weights: Array, part: Array) -> Array:
    """Return [G, O, I] times [N, G, I, P]; a matrix product is slow for one channel."""
    product: Array = weights * part if weights.shape[-1] == 1 else weights @ part
    return product


def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    **_: Any,
) -> Array:
    """Return the transposed convolution: `x` is [N, C, ...], `w` [C, M / group, ...]."""
    rank = x.ndim - 2
    _check_channels(x.shape[1], w.shape[0], group, w.shape[1] * group)
    kernel = w.shape[2:]
    dilations, strides = axis_values(dilations, rank, 1), axis_values(strides, rank, 1)
    added, padding = axis_values(output_padding, rank, 0), axis_values(pads, 2 * rank, 0)
    full = [
        (count - 1) * stride + (size - 1) * dilation + 1 + extra_padding
        for count, stride, size, dilation, extra_padding in zip(
            x.shape[2:], strides, kernel, dilations, added
        )
    ]
    slices = {}
    for axis, size in enumerate(full):
        begin, end = padding[axis], size - padding[rank + axis]
        if output_shape or auto_pad.startswith("SAME"):
            if output_shape:
                wanted = output_shape[axis - rank]
            else:  # If the output is shorter without padding, nothing is added.
                wanted = min(size, x.shape[axis + 2] * strides[axis])
            begin = same_pads(auto_pad, max(0, size - wanted))[0]
            end = begin + wanted
        elif auto_pad == "VALID":
            begin, end = 0, size
        slices[axis + 2] = slice(begin, end)
    samples, inner, outer = x.shape[0], x.shape[1] // group, w.shape[1]
    values = to_float64(x).reshape(samples, group, inner, -1)
    weights = np.swapaxes(to_float64(w).reshape(group, inner, outer, *kernel), 1, 2)
    room = [max(size, slices[axis + 2].stop) for axis, size in enumerate(full)]
    array = np.zeros((samples, group * outer, *room))
    for offset, met in taps(kernel, dilations, strides, x.shape[2:]):
        product = _product(weights[offset], values)
        array[met] += product.reshape(samples, group * outer, *x.shape[2:])
    array = array[index_of_slices(array.ndim, slices)]
    if b is not None:
        array = array + to_float64(b).reshape(-1, *(1,) * rank)
    return round_like(array, x)


@frozen
class _Windows:
    """The positions of the windows of a pooling operator."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]
    counts: list[int]

    def taps(self, x: Array, fill: Any) -> Any:
        """Yield, for each element of a window, the elements of `x` there, or `fill` outside `x`."""
        room = [
            (count - 1) * stride + (size - 1) * dilation + 1
            for count, stride, size, dilation in zip(
                self.counts, self.strides, self.kernel, self.dilations
            )
        ]
        widths = [(0, 0), (0, 0)] + [
            (begin, max(end, want - size - begin))
            for (begin, end), want, size in zip(self.pads, room, x.shape[2:])
        ]
        padded = np.pad(x, widths, constant_values=fill)
        for _, met in taps(self.kernel, self.dilations, self.strides, self.counts):
            yield padded[met]


def _windows(
    x: Array,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    **_: Any,
) -> _Windows:
    """Return the windows of a pooling operator."""
    rank = x.ndim - 2
    strides, dilations = axis_values(strides, rank, 1), axis_values(dilations, rank, 1)
    values = axis_values(pads, 2 * rank, 0)
    widths, counts = [], []
    for axis, size in enumerate(x.shape[2:]):
        reach, stride = (kernel_shape[axis] - 1) * dilations[axis] + 1, strides[axis]
        begin, end = (values[axis], values[rank + axis]) if auto_pad != "VALID" else (0, 0)
        if auto_pad.startswith("SAME"):
            count = -(-size // stride)
            begin, end = same_pads(auto_pad, max(0, (count - 1) * stride + reach - size))
        else:
            rounded = math.ceil if ceil_mode else math.floor
            count = rounded((size + begin + end - reach) / stride) + 1
            if ceil_mode and (count - 1) * stride >= size + begin:
                count -= 1  # A window never starts in the padding at the end.
        if count < 1:
            raise ValueError(
                f"the window covers {reach} elements, more than the {size} of the input"
            )
        widths.append((begin, end))
        counts.append(count)
    return _Windows([int(size) for size in kernel_shape], strides, dilations, widths, counts)


def max_pool(x: Array, *, outputs: int, storage_order: int = 0, **attributes: Any) -> Results:
    """Return the largest element of each window and, if requested, its index in `x`."""
    windows = _windows(x, **attributes)
    low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    axes = tuple(range(2, x.ndim))
    positions = np.arange(math.prod(x.shape[2:])).reshape(
        x.shape[2:] if not storage_order else x.shape[:1:-1]
    )
    if storage_order:
        positions = positions.transpose()
    positions = np.broadcast_to(positions, (1, 1, *x.shape[2:]))
    shape = (*x.shape[:2], *windows.counts)
    best, array = np.full(shape, low, dtype=x.dtype), np.full(shape, -1, dtype=np.int64)
    is_float = x.dtype.kind not in "iu"
    for values, at in zip(windows.taps(x, low), windows.taps(positions, -1)):
        is_more = values > best
        if is_float:
            is_more |= np.isnan(values) & ~np.isnan(best)
        is_better = (at >= 0) & ((array < 0) | is_more)
        best, array = np.where(is_better, values, best), np.where(is_better, at, array)
    if outputs < 2:
        return (best.astype(x.dtype),)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1 for _ in axes))
    return best.astype(x.dtype), array + planes * math.prod(x.shape[2:])


def average_pool(x: Array, *, count_include_pad: int = 0, **attributes: Any) -> Array:
    """Return the mean of each window; elements beyond the padding never count."""
    windows = _windows(x, **attributes)
    total = sum(windows.taps(to_float64(x), 0))
    counted = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:
        counted = np.pad(counted, [(0, 0), (0, 0), *windows.pads], constant_values=1)
        inside = _Windows(
            windows.kernel,
            windows.strides,
            windows.dilations,
            [(0, 0)] * len(windows.pads),
            windows.counts,
        )
        number = sum(inside.taps(counted, 0))
    else:
        number = sum(windows.taps(counted, 0))
    return round_like(total / number, x)


def lp_pool(x: Array, *, p: float = 2, **attributes: Any) -> Array:
    """Return the norm of each window."""
    total = sum(_windows(x, **attributes).taps(np.abs(to_float64(x)) ** p, 0))
    return round_like(total ** (1 / p), x)


def _spatial_axes(x: Array) -> tuple[int, ...]:
    """Return the spatial axes."""
    return tuple(range(2, x.ndim))


def global_average_pool(x: Array, **_: Any) -> Array:
    """Return the mean of each channel."""
    return round_like(to_float64(x).mean(axis=_spatial_axes(x), keepdims=True), x)


def global_max_pool(x: Array, **_: Any) -> Array:
    """Return the largest element of each channel."""
    array: Array = x.max(axis=_spatial_axes(x), keepdims=True)
    return array


def global_lp_pool(x: Array, *, p: float = 2, **_: Any) -> Array:
    """Return the norm of each channel."""
    return round_like(
        (np.abs(to_float64(x)) ** p).sum(axis=_spatial_axes(x), keepdims=True) ** (1 / p), x
    )


def max_roi_pool(
    x: Array, rois: Array, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0, **_: Any
) -> Array:
    """Return the largest elements of a grid of cells over each region [batch, x1, y1, x2, y2]."""
    array = np.zeros((len(rois), x.shape[1], *pooled_shape), dtype=x.dtype)
    for number, roi in enumerate(rois):
        corners = np.floor(to_float64(roi[1:]) * spatial_scale + 0.5).astype(
            int
        )  # Round half away from zero.
        (left, top), (right, bottom) = corners[:2], corners[2:]
        cells = []
        for first, last, count, limit in (
            (top, bottom, pooled_shape[0], x.shape[2]),
            (left, right, pooled_shape[1], x.shape[3]),
        ):
            size = max(last - first + 1, 1) / count
            cells.append(
                [
                    slice(
                        *np.clip(
                            [first + math.floor(i * size), first + math.ceil((i + 1) * size)],
                            0,
                            limit,
                        )
                    )
                    for i in range(count)
                ]
            )
        for (i, rows), (j, columns) in itertools.product(*map(enumerate, cells)):
            cell = x[int(roi[0]), :, rows, columns]
            if cell.size:
                array[number, :, i, j] = cell.max(axis=(1, 2))
    return array
