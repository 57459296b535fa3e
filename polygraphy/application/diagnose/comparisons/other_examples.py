"""Other examples than the data of a diagnosis, for which a program is exported again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Feed
from polygraphy.domain.tensors.precision import is_float

_LARGEST = 1 << 22
"""Elements of an example that is enlarged: exporters run it."""


def other_examples(feed: Feed, sizes: Mapping[str, Mapping[int, str]]) -> Iterator[Feed]:
    """Yield examples with different sizes of dynamic dimensions and different values."""
    if any(sizes.values()):
        larger = dict(feed)
        for name, axes in sizes.items():
            for axis in axes:
                if name in larger and np.size(larger[name]) < _LARGEST:
                    larger[name] = np.concatenate([larger[name]] * 2, axis)
        yield larger
    for changed in (_halve, _negate, np.zeros_like, _reorder):
        yield {name: np.asarray(changed(np.asarray(array))) for name, array in feed.items()}


def interpolate_examples(feed: Feed, other_values: Feed, share: float) -> Feed | None:
    """Return an example between two others, or beyond the second, in sizes and in values, or None.
    The result is None if a size is not possible.

    Args:
        feed: the example for a share of 0.
        other_values: the example for a share of 1.
        share: the distance of the result from the first, as a share.
    """
    result: dict[str, Any] = {}
    for name, array in feed.items():
        first, second = np.asarray(array), np.asarray(other_values[name])
        sizes = [round(a + share * (b - a)) for a, b in zip(np.shape(first), np.shape(second))]
        if min(sizes, default=1) < 1 or np.prod(sizes) > _LARGEST:
            return None
        point = first
        for axis, size in enumerate(sizes):
            point = np.take(point, np.arange(size) % first.shape[axis], axis)
        if first.shape == second.shape and first.dtype.kind in "iu":
            moved = first + share * (second.astype(np.float64) - first)
            point = np.maximum(np.rint(moved), 0).astype(first.dtype)
        result[name] = point
    return result


def scale_examples(feed: Feed) -> Iterator[Feed]:
    """Yield examples with much smaller and much larger floats."""
    for factor in (1 / 16, 16):
        yield {
            name: (
                (array * array.dtype.type(factor)).astype(array.dtype) if is_float(array) else array
            )
            for name, array in feed.items()
        }


def _halve(array: Any) -> Any:
    """Return a different array: integers halved, floats multiplied by 3."""
    if is_float(array):
        return (array * array.dtype.type(3)).astype(array.dtype)
    return array // 2 if array.dtype.kind in "iu" else array


def _negate(array: Any) -> Any:
    """Return a different array: floats and booleans negated, smaller integers reversed."""
    if array.dtype.kind == "b":
        return ~array
    return -array if is_float(array) else np.flip(array) // 3 if array.dtype.kind in "iu" else array


def _reorder(array: Any) -> Any:
    """Return a different array: integers in a different order, so that their sum is the same."""
    return np.roll(array, 1) if array.dtype.kind in "iu" else array
