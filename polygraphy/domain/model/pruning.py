"""Makes weights 2:4 sparse: the two smallest of every four become zero."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np

from polygraphy.domain.model.sparsity import GROUP
from polygraphy.domain.tensors.aliases import Array

_BLOCK = 1 << 18
"""How many elements are looked at together: few enough for a cache, enough for a call of NumPy to
take so long that threads seldom wait for the interpreter lock between two calls.
"""
_PARALLEL = 1 << 20
"""An array of fewer elements is done before a second thread would have started."""
_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


def pruned(array: Array, axis: int, *, threads: int = 1) -> Array:
    """Return an array in which every four consecutive elements along an axis have at least two
    zeros: those of the smallest magnitude, the earlier one where magnitudes are equal.

    Args:
        array: floating-point numbers of any shape; NaN counts as the largest.
        axis: the axis; its length is a multiple of four.
        threads: how many work at it, at most; the result does not depend on it.

    Returns:
        Another array of the same shape and type; what is not set to zero has the same bits.
    """
    axis %= array.ndim
    rows, inner = prod(array.shape[: axis + 1]) // GROUP, prod(array.shape[axis + 1 :])
    made = np.empty(array.shape, array.dtype)
    if not array.size:
        return made
    bits = _BITS[array.dtype.itemsize]
    given, result = (
        np.ascontiguousarray(each).view(bits).reshape(rows, GROUP, inner) for each in (array, made)
    )
    columns = min(inner, _BLOCK // GROUP)
    step = max(1, _BLOCK // (GROUP * columns))

    def prune_rows(starts: range) -> None:
        for start in starts:
            for first in range(0, inner, columns):
                part = np.s_[start : start + step, :, first : first + columns]
                _prune(given[part], result[part])

    if threads < 2 or array.size < _PARALLEL or rows <= step:
        prune_rows(range(0, rows, step))
        return made
    share = -(-rows // (step * threads)) * step  # Neighbours, so that memory is read in long runs.
    with ThreadPoolExecutor(threads) as pool:
        runs = [range(begin, min(begin + share, rows), step) for begin in range(0, rows, share)]
        for _ in pool.map(prune_rows, runs):  # which raises what a thread raised
            pass
    return made


def _prune(given: Array, result: Array) -> None:
    """Prune a block of groups, of shape (rows, four, columns): the bits of floating-point numbers
    as signed integers, whose magnitudes are in the order of the bits without the sign.
    """
    size = np.empty((GROUP, given.shape[0], given.shape[2]), given.dtype)
    magnitude = np.array(np.iinfo(given.dtype).max, given.dtype)
    for index in range(GROUP):  # Four long ones take a third of the time of many short ones.
        np.bitwise_and(given[:, index], magnitude, out=size[index])
    # Of two pairs, the larger of the smaller ones and the smaller of the larger ones are those in
    # the middle of all four.
    low = np.maximum(np.minimum(size[0], size[1]), np.minimum(size[2], size[3]))
    high = np.minimum(np.maximum(size[0], size[1]), np.maximum(size[2], size[3]))
    is_tie = (low == high) & (low != 0)  # Zeros may be kept as well: they are zero.
    tied = size[:, is_tie] if is_tie.any() else None
    # What is kept is at least as large as the larger one in the middle: all bits are set there.
    kept = np.subtract(np.maximum(low, high, out=low) - 1, size, out=size)
    kept >>= np.iinfo(given.dtype).bits - 1
    if tied is not None:
        kept[:, is_tie] = -_larger_half(tied).astype(given.dtype)
    for index in range(GROUP):
        np.bitwise_and(given[:, index], kept[index], out=result[:, index])


def _larger_half(size: Array) -> Array:
    """Return which elements of each column of four are kept; of equal ones the later."""
    ranks = np.zeros(size.shape, np.int8)
    for low in range(GROUP):
        for high in range(low + 1, GROUP):
            is_larger = size[low] > size[high]
            ranks[low] += is_larger
            ranks[high] += ~is_larger
    return ranks >= GROUP // 2
