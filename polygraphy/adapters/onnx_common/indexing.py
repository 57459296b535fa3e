"""Operators that move elements, as each opset defines them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import (
    Array,
    Results,
    index_of_slices,
    positive_axis,
    to_float64,
)


def _integers(values: Any) -> list[int]:
    """Return values as a flat list of integers."""
    return [int(value) for value in np.ravel(values)]


def optional_content(x: Any = None, **_: Any) -> Any:
    """Return the content of an optional value, which the onnx package wraps in a list."""
    return [None] if x is None else x


def has_element(x: Any = None, **_: Any) -> Array:
    """Return whether an optional value has content."""
    return np.array(x is not None and not (isinstance(x, list) and x == [None]))


def one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1, **_: Any) -> Array:
    """Return the second of two values at each index,
    which may count from the end, and the first elsewhere; the depth may be a list of one number.
    """
    (length,) = _integers(depth)
    classes = np.asarray(indices)
    classes = np.expand_dims(np.where(classes < 0, classes + length, classes), axis)
    shape = [1] * classes.ndim
    shape[axis] = length
    array: Array = np.where(classes == np.arange(length).reshape(shape), values[1], values[0])
    return array


def slices(
    x: Array,
    starts_input: Array | None = None,
    ends_input: Array | None = None,
    axes_input: Array | None = None,
    steps: Array | None = None,
    *,
    starts: Sequence[int] | None = None,
    ends: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    **_: Any,
) -> Array:
    """Return a slice; starts, ends and axes are attributes in opset 1, and inputs later.
    Both are clamped to the array, so that a negative step from before the first element returns
    that element.
    """
    first = _integers(starts if starts_input is None else starts_input)
    last = _integers(ends if ends_input is None else ends_input)
    chosen = axes if axes_input is None else axes_input
    along = list(range(len(first))) if chosen is None else _integers(chosen)
    strides = [1] * len(first) if steps is None else _integers(steps)
    parts = {}
    for number, step, *ends_given in zip(along, strides, first, last):
        axis = positive_axis(number, x.ndim)
        size = x.shape[axis]
        start, end = (bound + size if bound < 0 else bound for bound in ends_given)
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, end = min(max(start, 0), high), min(max(end, low), high)
        parts[axis] = slice(start, None if end < 0 else end, step)
    array: Array = x[index_of_slices(x.ndim, parts)]
    return array


def reshape(x: Array, *, shape: Sequence[int] = (), **_: Any) -> Array:
    """Return x reshaped by an attribute, as in opset 1; 0 keeps the size of an axis."""
    return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])


def squeeze(x: Array, *, axes: Sequence[int] | None = None, **_: Any) -> Array:
    """Return x without the axes of size 1 in an attribute, or without all of them."""
    return np.squeeze(x, None if not axes else tuple(positive_axis(axis, x.ndim) for axis in axes))


def unsqueeze(x: Array, *, axes: Sequence[int], **_: Any) -> Array:
    """Return x with axes of size 1 inserted; the attribute counts them in the result."""
    return np.expand_dims(x, tuple(positive_axis(axis, x.ndim + len(axes)) for axis in axes))


def split(
    x: Array,
    sizes: Array | None = None,
    *,
    outputs: int,
    axis: int | None = None,
    split: Sequence[int] | None = None,
    **_: Any,
) -> Results:
    """Return the parts of x, as in opset 1: by an attribute, an input, or equal."""
    along = positive_axis(axis or 0, x.ndim)
    given_split = split if sizes is None else _integers(sizes)
    lengths = given_split or [x.shape[along] // outputs] * outputs
    return tuple(np.split(x, np.cumsum(lengths)[:-1], axis=along))


def pad(
    x: Array,
    pads_input: Array | None = None,
    value_input: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
    pads: Sequence[int] | None = None,
    paddings: Sequence[int] | None = None,
    value: float = 0.0,
    **_: Any,
) -> Array:
    """Return x padded, or cut if a width is negative; widths are attributes below opset 11."""
    widths = _integers(pads_input if pads_input is not None else pads or paddings or ())
    filling = value if value_input is None else np.asarray(value_input).reshape(())
    along = list(range(x.ndim)) if axes is None else _integers(axes)
    if len(widths) != 2 * len(along):
        raise ValueError(f"expected two widths for each of {len(along)} axes, got {len(widths)}")
    both_pairs = [(0, 0)] * x.ndim
    for number, axis in enumerate(along):
        both_pairs[positive_axis(axis, x.ndim)] = (widths[number], widths[len(along) + number])
    array = x[
        tuple(
            slice(max(0, -begin), max(0, size + min(0, end)))
            for (begin, end), size in zip(both_pairs, x.shape)
        )
    ]
    added = [(max(0, begin), max(0, end)) for begin, end in both_pairs]
    if mode == "constant":
        return np.pad(array, added, constant_values=np.asarray(filling).astype(x.dtype))
    return np.pad(array, added, mode=mode)  # type: ignore[call-overload, no-any-return]


def _index_along(indices: Array, axis: int, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return an index of the elements at `indices` along an axis."""
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = np.where(indices < 0, indices + shape[axis], indices)
    return tuple(grid)


def gather_elements(x: Array, indices: Array, *, axis: int = 0, **_: Any) -> Array:
    """Return one element for each index."""
    elements: Array = x[_index_along(indices, positive_axis(axis, x.ndim), x.shape)]
    return elements


_REDUCED: Mapping[str, np.ufunc] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}


def _scatter(x: Array, index: tuple[Array, ...], updates: Array, reduction: str | None) -> Array:
    """Return `x` with elements replaced, or combined with the old ones, one after the other."""
    replaced_elements: Array = x.copy()
    if reduction in (None, "none"):
        replaced_elements[index] = updates
    else:
        _REDUCED[reduction].at(replaced_elements, index, updates)
    return replaced_elements


def scatter(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    axis: int = 0,
    reduction: str | None = None,
    **_: Any,
) -> Array:
    """Return x with one element replaced for each index; for ScatterElements, and its old name
    Scatter.
    """
    return _scatter(
        x, _index_along(indices, positive_axis(axis, x.ndim), x.shape), updates, reduction
    )


def scatter_nd(
    x: Array, indices: Array, updates: Array, *, reduction: str | None = None, **_: Any
) -> Array:
    """Return x with one slice replaced for each index in the last axis of `indices`."""
    return _scatter(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


def top_k(
    x: Array,
    count: Array | None = None,
    *,
    axis: int = -1,
    k: int = 0,
    largest: int = 1,
    **_: Any,
) -> Results:
    """Return the largest or smallest elements, and their indices; the first one of equal
    elements."""
    along, most = positive_axis(axis, x.ndim), k if count is None else int(np.ravel(count)[0])
    if largest:  # Sort in reverse order, twice, so that equal elements keep their order.
        order = np.flip(x.shape[along] - 1 - np.argsort(np.flip(x, along), along, "stable"), along)
    else:
        order = np.argsort(x, along, "stable")
    positions = order[index_of_slices(x.ndim, {along: slice(0, most)})].astype(np.int64)
    return np.take_along_axis(x, positions, along), positions


def unique(
    # The ONNX specification names this attribute `sorted`.
    x: Array,
    *,
    outputs: int,
    axis: int | None = None,
    sorted: int = 1,
    **_: Any,
) -> Results:
    """Return the distinct elements, their first positions, the index of the distinct element for
    each element, and their counts.
    """
    array, first, inverse, counts = np.unique(
        x if axis is not None else x.ravel(),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
    )
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        array = np.take(array, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return (array, *(part.astype(np.int64) for part in (first, inverse, counts)))[:outputs]


def dropout(x: Array, *, outputs: int, **_: Any) -> Results:
    """Return the input: dropout below opset 7 in inference."""
    return (x, np.ones_like(x))[:outputs]


def non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
    **_: Any,
) -> Array:
    """Return [batch, class, box] of the selected boxes, the best of each class first."""
    limit = 0 if most is None else int(np.ravel(most)[0])
    overlap = 0.0 if iou_threshold is None else float(np.ravel(iou_threshold)[0])
    lowest = -math.inf if score_threshold is None else float(np.ravel(score_threshold)[0])
    corners = to_float64(boxes)
    if center_point_box:
        middle, half = corners[..., :2], corners[..., 2:] / 2
        low, high = middle - half, middle + half
    else:
        low = np.minimum(corners[..., :2], corners[..., 2:])
        high = np.maximum(corners[..., :2], corners[..., 2:])
    areas = (high - low).prod(-1)
    max_suppression = []
    for sample, kind in np.ndindex(*scores.shape[:2]):
        row = scores[sample, kind]
        chosen: list[int] = []
        for box in np.argsort(-to_float64(row), kind="stable"):
            if len(chosen) >= limit or not row[box] > lowest:
                break
            shared = np.minimum(high[sample, box], high[sample, chosen]) - np.maximum(
                low[sample, box], low[sample, chosen]
            )
            common = np.clip(shared, 0, None).prod(-1)
            union = areas[sample, box] + areas[sample, chosen] - common
            if not (
                np.divide(common, union, where=union > 0, out=np.zeros_like(union)) > overlap
            ).any():
                chosen.append(int(box))
        max_suppression += [(sample, kind, box) for box in chosen]
    return np.array(max_suppression, dtype=np.int64).reshape(-1, 3)
