"""Convolutions over any number of spatial axes, in float64: one tap of the kernel at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.arrays import Array, cut, narrowed, of_length, wide


def taps(
    kernel: Sequence[int], dilations: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> Iterator[tuple[Any, tuple[slice, ...]]]:
    """Return, for each element of a kernel, its index in weights and that of what it meets in a
    padded input [N, C, ...].

    Args:
        kernel: its spatial shape.
        dilations: see the standard.
        strides: see the standard.
        counts: how many windows there are along each axis.
    """
    for place in itertools.product(*(range(size) for size in kernel)):
        met = (
            slice(at * dilation, at * dilation + (count - 1) * stride + 1, stride)
            for at, dilation, stride, count in zip(place, dilations, strides, counts)
        )
        yield (..., *place), (slice(None), slice(None), *met)


def same_pads(auto_pad: str, total: int) -> tuple[int, int]:
    """Return how padding is shared between begin and end: the odd one goes to the end for
    SAME_UPPER.
    """
    less, more = total // 2, total - total // 2
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


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
    """Convolve: `x` is [N, C, ...], `w` [M, C / group, ...]."""
    rank = x.ndim - 2
    _check_channels(x.shape[1], w.shape[1] * group, group, w.shape[0])
    kernel = w.shape[2:]
    dilations, strides = of_length(dilations, rank, 1), of_length(strides, rank, 1)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    given = of_length(pads, 2 * rank, 0)
    widths = []
    for axis, size in enumerate(x.shape[2:]):
        pair = (given[axis], given[rank + axis])
        if auto_pad.startswith("SAME"):
            windows = -(-size // strides[axis])
            pair = same_pads(auto_pad, max(0, (windows - 1) * strides[axis] + reach[axis] - size))
        elif auto_pad == "VALID":
            pair = (0, 0)
        widths.append(pair)
    padded = np.pad(wide(x), [(0, 0), (0, 0), *widths])
    counts = [
        (size - far) // stride + 1 for size, far, stride in zip(padded.shape[2:], reach, strides)
    ]
    if min(counts) < 1:
        raise ValueError(f"the kernel reaches over {reach}, the padded input {padded.shape[2:]}")
    samples, inner, outer = x.shape[0], w.shape[1], w.shape[0] // group
    weights = wide(w).reshape(group, outer, inner, *kernel)
    made = np.zeros((samples, group, outer, int(np.prod(counts))))
    for place, met in taps(kernel, dilations, strides, counts):
        part = padded[met].reshape(samples, group, inner, -1)
        made += _product(weights[place], part)
    made = made.reshape(samples, w.shape[0], *counts)
    if b is not None:
        made += wide(b).reshape(-1, *(1,) * rank)
    return narrowed(made, x)


def _check_channels(found: int, wanted: int, group: int, outer: int) -> None:
    if found != wanted or outer % group:
        raise ValueError(
            f"the input has {found} channels, the weight takes {wanted} in {group} group(s)"
        )


def _product(weights: Array, part: Array) -> Array:
    """Multiply [G, O, I] by [N, G, I, P]; a product of matrices is slow for one channel."""
    made: Array = weights * part if weights.shape[-1] == 1 else weights @ part
    return made


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
    """Convolve backwards: `x` is [N, C, ...], `w` [C, M / group, ...]."""
    rank = x.ndim - 2
    _check_channels(x.shape[1], w.shape[0], group, w.shape[1] * group)
    kernel = w.shape[2:]
    dilations, strides = of_length(dilations, rank, 1), of_length(strides, rank, 1)
    added, given = of_length(output_padding, rank, 0), of_length(pads, 2 * rank, 0)
    full = [
        (count - 1) * stride + (size - 1) * dilation + 1 + more
        for count, stride, size, dilation, more in zip(
            x.shape[2:], strides, kernel, dilations, added
        )
    ]
    kept = {}
    for axis, size in enumerate(full):
        begin, end = given[axis], size - given[rank + axis]
        if output_shape or auto_pad.startswith("SAME"):
            if output_shape:
                wanted = output_shape[axis - rank]
            else:  # Nothing is added to a result that is shorter without padding.
                wanted = min(size, x.shape[axis + 2] * strides[axis])
            begin = same_pads(auto_pad, max(0, size - wanted))[0]
            end = begin + wanted
        elif auto_pad == "VALID":
            begin, end = 0, size
        kept[axis + 2] = slice(begin, end)
    samples, inner, outer = x.shape[0], x.shape[1] // group, w.shape[1]
    values = wide(x).reshape(samples, group, inner, -1)
    weights = np.swapaxes(wide(w).reshape(group, inner, outer, *kernel), 1, 2)
    room = [max(size, kept[axis + 2].stop) for axis, size in enumerate(full)]
    made = np.zeros((samples, group * outer, *room))
    for place, met in taps(kernel, dilations, strides, x.shape[2:]):
        product = _product(weights[place], values)
        made[met] += product.reshape(samples, group * outer, *x.shape[2:])
    made = made[cut(made.ndim, kept)]
    if b is not None:
        made = made + wide(b).reshape(-1, *(1,) * rank)
    return narrowed(made, x)
