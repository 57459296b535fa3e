"""Order statistics of a stream of blocks: exact, usually in one pass, in bounded memory.

A random sample of the stream tells, for each probability that is asked for, between which two
values the quantile almost certainly lies. One pass counts the elements below each of these values
and keeps the few elements between them. The counts then say which of the kept elements has the
wanted rank, or that the sample misled; in that case the interval that does hold the rank, whose
size is known by then, is searched in the same way. So the answer never depends on luck; only the
number of passes does. (The idea is that of Floyd and Rivest, "Expected time bounds for selection",
1975.)

Values that occur many times cannot flood the memory: an end of an interval that the sample shows
often is counted by itself instead of kept.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.passes.blocks import Floats, Reals, Scratch


def median_of(element: Callable[[int], float], valid: int) -> float:
    """Return the median of `valid` sorted elements: of an even number, the mean of the middle two.

    `element` gives the element of a rank, from 0. NaN if there is none.
    """
    if not valid:
        return math.nan
    return midpoint(element((valid - 1) // 2), element(valid // 2))


def midpoint(low: float, high: float) -> float:
    """Return the mean of two elements."""
    # Adding 0 removes the sign of a zero, because the order of equal zeros is arbitrary.
    low, high = low + 0.0, high + 0.0
    if low == high:
        return low
    mean = (low + high) / 2
    # The sum of two huge values may overflow; the sum of their halves cannot.
    return mean if math.isfinite(mean) else low / 2 + high / 2


def row_medians(rows: Floats) -> list[float]:
    """Return the median of each row of a matrix; undefined for rows with a NaN."""
    size = rows.shape[1]
    high = size // 2
    # One pivot and a maximum take a third of the time of two pivots.
    parted = np.partition(rows, high, axis=1)
    middle = parted[:, high]
    below = middle if size % 2 else np.maximum.reduce(parted[:, :high], axis=1)
    return [midpoint(low, top) for low, top in zip(below.tolist(), middle.tolist())]


def quantile_of(element: Callable[[int], float], valid: int, probability: float) -> float:
    """Return the quantile of `valid` sorted elements, interpolated as numpy's method "linear" does.

    The result equals ``np.quantile`` to the last bit as long as the elements on both sides are
    finite, and so is their distance. If not, numpy answers NaN; here a quantile that falls on an
    element is that element, and one between a finite and an infinite element is infinite.
    """
    if not valid:
        return math.nan
    rank, weight = split_rank(valid, probability)
    low = element(rank)
    return interpolate(low, element(rank + 1) if weight else low, weight)


def interpolate(low: float, high: float, weight: float) -> float:
    """Return the value between two elements, `weight` of the way from the first to the second."""
    low += 0.0
    if not weight or low == high:
        return low
    step = high - low
    if math.isinf(step):
        return low * (1 - weight) + high * weight
    return low + step * weight if weight < 0.5 else high - step * (1 - weight)


def quantile(array: Floats, probability: float) -> float:
    """Return the quantile of a whole array; NaN if it is empty.
    `numpy.quantile` would import `numpy.ma`, which takes as long as starting NumPy.
    """
    flat = array.reshape(-1)
    ranks = ranks_beside(flat.size, (probability,))
    parted = np.partition(flat, ranks) if ranks else flat
    return quantile_of(lambda rank: float(parted[rank]), flat.size, probability)


def ranks_beside(valid: int, probabilities: Iterable[float]) -> list[int]:
    """Return the ranks, ascending, whose elements the quantiles need (and for 0.5, the median)."""
    if not valid:
        return []
    ranks = [split_rank(valid, probability)[0] for probability in probabilities]
    return sorted({*ranks, *(min(rank + 1, valid - 1) for rank in ranks)})


@functools.lru_cache(maxsize=1024)
def split_rank(valid: int, probability: float) -> tuple[int, float]:
    """Return the rank below a quantile of `valid` elements, and the fraction of a rank above it."""
    virtual = (valid - 1) * probability
    rank = min(math.floor(virtual), valid - 1)
    return rank, virtual - rank


SAMPLE = 1 << 18
"""Most elements of a sample."""

SAMPLE_LEAST = 1 << 12
"""Fewest elements of a sample (unless the stream has fewer)."""

KEPT = 1 << 22
"""Most elements that one search keeps: 32 MiB."""

DEVIATIONS = 4.0
"""Half the width of an interval, in standard deviations of the rank of a sampled quantile."""

FREQUENT = 1000
"""A value that makes up more than this part of a sample is counted instead of kept."""

PARTS = 8
"""Parts into which an interval with too many elements is divided."""


def sample_positions(size: int) -> npt.NDArray[np.intp]:
    """Return the C-order positions of a random sample, ascending and always the same for a size.

    The stream is divided into equal strata, and one position is drawn in each, so that neither
    sorted nor periodic data distort the sample.
    """
    count = min(size, SAMPLE, max(SAMPLE_LEAST, size // 32))
    drawn = np.random.default_rng(size).random(count)
    drawn += np.arange(count)
    drawn *= size / count
    chosen: npt.NDArray[np.intp] = drawn.astype(np.intp)
    return np.minimum(chosen, size - 1, out=chosen)


class Search:
    """A search for the quantiles of one stream.

    Count every block of the stream with a `Tally` (one for each thread), then call `settle`; if it
    returns False, do that again. After that `element` answers for the ranks on both sides of each
    probability.
    """

    def __init__(self, probabilities: Iterable[float], sample: Floats) -> None:
        """Choose the first intervals from a sorted sample.

        Parameters:
            probabilities: each from 0 to 1.
            sample: elements of the stream at `sample_positions`, shape ``(m,)``; NaN are left out.
                It is sorted in place.
        """
        self._probabilities = tuple(probabilities)
        self._ranks: list[int] | None = None
        self._values: dict[int, float] = {}
        self.valid = 0
        """Elements that are not NaN, known when `settle` was called."""
        sample.sort()
        self._divide_by_sample(sample[: int(sample.searchsorted(np.nan))])

    def element(self, rank: int) -> float:
        """Return the element of that rank (from 0) among those that are not NaN."""
        return self._values[rank]

    def settle(self, counts: Sequence[Sequence[int]], valid: int) -> bool:
        """Use the counts of a pass, and return whether the search is finished;
        the other number counts the elements that are not NaN.

        Returns whether every rank is known now; if not, the intervals have become narrower.
        """
        if self._ranks is None:
            self.valid = valid
            self._ranks = ranks_beside(valid, self._probabilities)
        below = [0, *(sum(column) for column in zip(*counts, strict=True)), valid]
        array = self._elements_in_intervals()
        offsets: dict[int, int] = {}
        pending: set[int] = set()
        for rank in self._ranks:
            i = bisect_right(below, rank) - 1
            if rank in self._values:
                continue
            if is_point(*self._intervals[i]):
                self._values[rank] = value_of(self._intervals[i][0])
            elif self._wanted[i] and array is not None:
                skipped = sum(below[j + 1] - below[j] for j in range(i) if self._wanted[j])
                offsets[rank] = skipped + rank - below[i]
            else:
                pending.add(i)
        if array is not None:
            self._values |= _elements_at_ranks(array, offsets)
        if pending:
            self._narrow_intervals(sorted(pending), below)
        return not pending

    def _divide_by_sample(self, sample: Floats) -> None:
        """Divide the range of values by the quantiles of a sample."""
        brackets = [_bracket(probability, sample) for probability in self._probabilities]
        edges = {edge for bracket in brackets for edge in bracket}
        ranges = [(min(bracket), max(bracket)) for bracket in brackets]
        self._divide(edges, lambda low, high: any(a <= low and high <= b for a, b in ranges))

    def _narrow_intervals(self, pending: Sequence[int], below: Sequence[int]) -> None:
        """Divide the intervals that contain quantiles and have too many elements."""
        edges: set[int] = set()
        whole_intervals = []
        room = KEPT
        for i in pending:
            low, high = self._intervals[i]
            edges |= {low, high}
            if below[i + 1] - below[i] <= room:
                room -= below[i + 1] - below[i]
                whole_intervals.append((low, high))
            else:
                edges |= {low + (high - low) * part // PARTS for part in range(1, PARTS)}
        self._divide(edges, lambda low, high: (low, high) in whole_intervals)

    def _divide(self, edges: set[int], wanted: Callable[[int, int], bool]) -> None:
        """Set the intervals between `edges`.
        Passes keep the elements of intervals for which `wanted` is true.

        Interval i holds the elements x with ``low <= key_of(x) < high``.
        """
        ordered = sorted(edges | {LEAST, END})
        self._intervals = list(itertools.pairwise(ordered))
        self._wanted = [
            wanted(low, high) and not is_point(low, high) for low, high in self._intervals
        ]
        self._pieces: list[Reals] = []
        self._room = KEPT
        self._lock = threading.Lock()

    @property
    def bounds(self) -> list[tuple[float, bool]]:
        """Return the values to count below, ascending.
        Each with whether an interval of kept elements starts or ends there."""
        return [
            (value_of(low), self._wanted[i] != self._wanted[i + 1])
            for i, (low, _) in enumerate(self._intervals[1:])
        ]

    @property
    def keeps_rest(self) -> bool:
        """Whether the elements above the last bound are kept."""
        return self._wanted[-1]

    def keep(self, elements: Reals) -> None:
        """Keep elements of the wanted intervals, unless there are too many already."""
        with self._lock:
            self._room -= elements.size
            if self._room >= 0:
                self._pieces.append(elements)

    def _elements_in_intervals(self) -> Reals | None:
        """Return all elements of the wanted intervals; None if there were too many."""
        pieces, self._pieces = self._pieces, []
        if self._room < 0:
            return None
        return np.concatenate(pieces) if pieces else np.empty(0)


class Tally:
    """Counts blocks for a `Search`; used by one thread."""

    def __init__(self, search: Search, scratch: Scratch) -> None:
        """Create a counter for a search, which works in `scratch`."""
        self._search = search
        self._bounds: list[tuple[Reals, bool]] = []
        self._keeps = search.keeps_rest or any(ends for _, ends in search.bounds)
        self._below = scratch.mask()
        self._inside = scratch.mask()

    def __call__(self, block: Reals) -> tuple[int, ...]:
        """Return the number of elements below each bound of the search, and keep the elements it
        needs."""
        if not self._bounds or self._bounds[0][0].dtype != block.dtype:
            self._bounds = [
                (_round_up(bound, block.dtype), ends) for bound, ends in self._search.bounds
            ]
        below, inside = self._below[: block.size], self._inside[: block.size]
        inside.fill(False)
        counts = []
        for bound, ends in self._bounds:
            np.less(block, bound, out=below)
            counts.append(int(np.count_nonzero(below)))
            if ends:
                # The sets below ascending bounds are nested, so an exclusive or of those below
                # both ends of each interval leaves what is in an interval.
                np.logical_xor(inside, below, out=inside)
        if self._search.keeps_rest:
            np.logical_xor(inside, np.equal(block, block, out=below), out=inside)
        if self._keeps:
            self._search.keep(block.compress(inside))
        return tuple(counts)


def _bracket(probability: float, sample: Floats) -> set[int]:
    """Return the keys between which the quantile of the stream almost certainly lies, from a sorted
    sample.
    """
    size = sample.size
    center = probability * (size - 1)
    # The rank of a sampled quantile is binomial; the constant covers its skewness at the tails.
    reach = DEVIATIONS * math.sqrt(size * probability * (1 - probability)) + DEVIATIONS
    first, last = math.floor(center - reach), math.ceil(center + reach)
    bracket = set()
    for i, outside in ((first, LEAST), (last, END)):
        if not 0 <= i < size:
            bracket.add(outside)
            continue
        key = key_of(float(sample[i]))
        bracket.add(key if i == first else key + 1)
        if _occurrences(sample, sample[i]) > max(1, size // FREQUENT):
            bracket |= {key, key + 1}
    return bracket


def _occurrences(ordered: Floats, value: float) -> int:
    """Return how often a value occurs in sorted values."""
    return int(ordered.searchsorted(value, "right") - ordered.searchsorted(value, "left"))


def _round_up(bound: float, dtype: np.dtype[Any]) -> Reals:
    """Return the least number of that dtype that is not below `bound`, which has the same below
    it."""
    rounded = np.array(bound, dtype)
    # Compared as Python floats: numpy would round the bound to float32 there too.
    return np.nextafter(rounded, np.array(np.inf, dtype)) if rounded.item() < bound else rounded


def _elements_at_ranks(elements: Reals, ranks: dict[int, int]) -> dict[int, float]:
    """Return the element of each rank, by key; `elements` are reordered."""
    at_ranks = {}
    start = 0
    # One partition of the remainder per rank, ascending: faster than one for several ranks.
    for key, rank in sorted(ranks.items(), key=lambda item: item[1]):
        elements[start:].partition(rank - start)
        at_ranks[key] = float(elements[rank])
        start = rank
    return at_ranks


_SIGN = 1 << 63


def key_of(value: float) -> int:
    """Return the key of a float that is not NaN."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits if bits < _SIGN else _SIGN - bits


def value_of(key: int) -> float:
    """Return the float that has a key."""
    value: float = struct.unpack("<d", struct.pack("<Q", abs(key)))[0]
    return value if key >= 0 else -value


def is_point(low: int, high: int) -> bool:
    """Return whether only one value has a key of at least `low` and below `high`."""
    return high == low + 1


LEAST = key_of(-math.inf)
"""The least key."""

END = key_of(math.inf) + 1
"""The key after the greatest one."""
