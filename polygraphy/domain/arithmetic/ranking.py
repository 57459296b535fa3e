"""Whether two lists of scores rank the same entries highest."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Index, Kind, unravel


@frozen
class Ranking:
    """How many lists agree on their highest entries.

    Attributes:
        lists: how many lists were compared.
        agreeing: how many of them agree.
        margin: the margin with which all of them would; NaN if a score is.
        first: the position of the first list that does not agree, without the last dimension.
    """

    lists: int
    agreeing: int
    margin: float
    first: Index | None

    @property
    def agreement(self) -> float:
        """The share of the lists that agree; 1 where there is none."""
        return self.agreeing / self.lists if self.lists else 1.0


def compare_top_k(value: Array, reference: Array, k: int, margin: float = 0.0) -> Ranking:
    """Compare which `k` entries score highest along the last dimension.

    Lists agree when each of the `k` entries that are highest in `value` has a score in `reference`
    that is at most `margin` below the k-th highest there. So entries that tie may change places,
    and with a margin those that nearly do. A list with a NaN agrees with none.

    A few rows are looked at at a time, or a single one where that is longer than a block.

    Args:
        value: scores, shape ``(..., n)``.
        reference: scores, of the same shape.
        k: how many entries, at least 1 and less than n.
        margin: by how much a score may be too low, in the outputs' own unit.

    Raises:
        TypeError: the arrays hold no real numbers.
    """
    flats = Flat(value), Flat(reference)
    if {Kind.OTHER, Kind.COMPLEX} & {flat.kind for flat in flats}:
        raise TypeError(f"real numbers have ranks, unlike {value.dtype}, {reference.dtype}")
    length = value.shape[-1]
    lists = math.prod(value.shape[:-1])
    rows = max(blocks.BLOCK // length, 1)
    lacking = np.zeros(lists)
    with np.errstate(all="ignore"):
        for start in range(0, lists, rows):
            stop = min(start + rows, lists)
            a, b = (_rows(flat, start, stop, length) for flat in flats)
            lacking[start:stop] = _lacking(a, b, k)
    agrees = lacking <= margin
    first = None if agrees.all() else unravel(int(agrees.argmin()), value.shape[:-1])
    needed = float(np.maximum.reduce(lacking, initial=0.0))
    return Ranking(lists, int(np.count_nonzero(agrees)), needed, first)


def _rows(flat: Flat, start: int, stop: int, length: int) -> Array:
    """Return lists of scores in float64, or in 64-bit integers, which that does not hold."""
    first, last = start * length, stop * length
    if flat.kind is Kind.WIDE:
        rows = flat.block(first, last)
    else:
        rows = flat.floats(first, last, np.empty(last - first))
    return rows.reshape(stop - start, length)


def _lacking(a: Array, b: Array, k: int) -> npt.NDArray[np.float64]:
    """Return for each row by how much the lowest score in `b` of the `k` highest entries of `a` is
    below the k-th highest of `b`.
    """
    last = a.shape[1] - k
    border = np.partition(a, last, axis=1)[:, last, None]
    above = a > border
    ties = a == border
    room = k - np.count_nonzero(above, axis=1)  # The first of those that tie are taken.
    chosen = above | (ties & (np.cumsum(ties, axis=1) <= room[:, None]))
    highest = np.inf if b.dtype.kind == "f" else np.iinfo(b.dtype).max
    lowest = np.min(b, axis=1, where=chosen, initial=highest)
    kth = np.partition(b, last, axis=1)[:, last]
    if b.dtype.kind == "i":  # The distance may not fit, but its 64 bits do.
        lowest, kth = (each.astype(np.int64).view(np.uint64) for each in (lowest, kth))
    lacking = np.where(kth == lowest, 0.0, kth - lowest)
    unknown = np.isnan(a).any(axis=1) | np.isnan(b).any(axis=1)
    return np.where(unknown, np.nan, lacking)
