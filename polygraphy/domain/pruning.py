"""Makes weights 2:4 sparse: the two smallest of every four become zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.domain.sparsity import GROUP

__all__ = ["pruned"]

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 18
"""How many groups are looked at together."""


def pruned(array: Array, axis: int) -> Array:
    """Return an array in which every four consecutive elements along an axis have at least two
    zeros: those of the smallest magnitude, the earlier one where magnitudes are equal.

    Args:
        array: floating-point numbers of any shape; NaN counts as the largest.
        axis: the axis; its length is a multiple of four.

    Returns:
        Another array of the same shape and type; what is not set to zero has the same bits.
    """
    moved = np.moveaxis(array, axis, -1)
    made = np.ascontiguousarray(moved)
    if made is moved or made.base is not None or made is array:
        made = made.copy()
    groups = made.reshape(-1, GROUP)
    for start in range(0, len(groups), _BLOCK):
        block = groups[start : start + _BLOCK]
        block[_smaller_half(block)] = 0
    return np.ascontiguousarray(np.moveaxis(made, -1, axis))


def _smaller_half(groups: Array) -> Array:
    """Return which elements of each group are among its two smallest."""
    width = np.float32 if groups.dtype.itemsize < 4 else groups.dtype
    size = np.abs(groups.astype(width, copy=False))
    size[np.isnan(size)] = np.inf
    columns = [np.ascontiguousarray(size[:, index]) for index in range(GROUP)]
    ranks = np.zeros(groups.shape, np.int8)
    for low in range(GROUP):
        for high in range(low + 1, GROUP):
            is_larger = columns[low] > columns[high]
            ranks[:, low] += is_larger
            ranks[:, high] += ~is_larger
    return ranks < GROUP // 2
