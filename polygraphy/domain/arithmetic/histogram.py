"""Histograms with bins of equal width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import (
    Array,
    Flat,
    Floats,
    Kind,
    Reals,
    Scratch,
    convert,
)
from polygraphy.domain.arithmetic.passes.streams import ArrayStream, Reader, Stream

SORTED_FROM = 24
"""With this number of bins or more, sorting a block is faster than counting it once for each edge.
"""


@frozen
class Histogram:
    """Counts of values in bins of equal width; the last bin includes its right edge."""

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    """Ascending, one more than there are bins."""
    nonfinite: int
    """Elements left out because they are NaN or infinite."""
    outside: int
    """Finite elements left out because they are outside the range."""


def histogram(
    values: Array,
    bins: int = 10,
    range: tuple[float, float] | None = None,
    *,
    threads: int = 1,
) -> Histogram:
    """Return the counts of the elements of an array in bins of equal width.

    Elements are compared with the edges as float64. Complex numbers count by their modulus; dtypes
    that are no numbers, such as strings, count as not finite.

    Parameters:
        range: the outer edges, lower first; by default the least and the greatest finite element
            (half a unit to both sides of it if these are equal; 0 to 1 if there are none).

    Raises:
        ValueError: for no bins, or a range that is not finite or not ascending.
    """
    flat = Flat(values)
    if flat.kind is Kind.OTHER:
        edges = _edges(range or (0.0, 1.0), bins)
        return Histogram((0,) * bins, tuple(edges.tolist()), flat.size, 0)
    return stream_histogram(ArrayStream(flat), bins, range, threads)


def joint_range(a: Array, b: Array, *, threads: int = 1) -> tuple[float, float] | None:
    """Return the least and the greatest finite element of two arrays; None if nothing is finite.

    The arrays may differ in shape and dtype.
    """
    ranges = [
        _finite_range(ArrayStream(flat), threads)
        for flat in (Flat(a), Flat(b))
        if flat.kind is not Kind.OTHER
    ]
    known_bounds = [bounds for bounds in ranges if bounds is not None]
    if not known_bounds:
        return None
    return min(low for low, _ in known_bounds), max(high for _, high in known_bounds)


def stream_histogram(
    stream: Stream[Reader], bins: int, bounds: tuple[float, float] | None, threads: int = 1
) -> Histogram:
    """Return the histogram of the first channel of a stream; see `histogram`."""
    if bounds is None:
        bounds = _finite_range(stream, threads) or (0.0, 1.0)
    edges = _edges(bounds, bins)
    count = _count_sorted if bins >= SORTED_FROM else _count_each

    def make(scratch: Scratch) -> Callable[[int, int], list[int]]:
        """Return the function that counts the elements of a block below each edge."""
        reader = stream.reader(scratch)
        room = scratch.floats()
        # In float32, edges would be rounded.
        return lambda start, stop: count(convert(reader.load(start, stop)[0], room), edges)

    below = [sum(column) for column in zip(*blocks.scan(stream.size, make, threads), strict=True)]
    # Counts of elements: below each edge, up to and including the last edge, and all finite ones.
    below = below or [0] * (edges.size + 2)
    *inner, last, finite = below
    steps = [*inner[:-1], last]
    counts = tuple(high - low for low, high in itertools.pairwise(steps))
    return Histogram(
        counts,
        tuple(edges.tolist()),
        nonfinite=stream.size - finite,
        outside=finite - sum(counts),
    )


def _edges(bounds: tuple[float, float], bins: int) -> Floats:
    """Return the edges of bins of equal width; the range may exceed the largest number."""
    if bins < 1:
        raise ValueError(f"a histogram requires at least one bin, not {bins}")
    low, high = (float(bound) for bound in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"a histogram requires a finite, ascending range, not {bounds}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    if math.isinf(high - low):
        # Each half of the range fits in float64, but the whole range does not.
        steps = np.linspace(0.0, 1.0, bins + 1)
        return low * (1 - steps) + high * steps
    return np.linspace(low, high, bins + 1)


def _finite_range(stream: Stream[Reader], threads: int) -> tuple[float, float] | None:
    """Return the least and the greatest finite element of the first channel, or None.
    The result is None if nothing is finite.
    """

    def make(scratch: Scratch) -> Callable[[int, int], tuple[float, float] | None]:
        """Return the function that returns the range of a block."""
        reader = stream.reader(scratch)
        return lambda start, stop: _block_range(reader.load(start, stop)[0])

    ranges = [
        block_range
        for block_range in blocks.scan(stream.size, make, threads)
        if block_range is not None
    ]
    if not ranges:
        return None
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _block_range(block: Reals) -> tuple[float, float] | None:
    """Return the least and the greatest finite element of a block; None if nothing is finite."""
    low, high = float(np.minimum.reduce(block)), float(np.maximum.reduce(block))
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    finite = block.compress(np.isfinite(block))
    if not finite.size:
        return None
    return float(np.minimum.reduce(finite)), float(np.maximum.reduce(finite))


def _count_each(block: Floats, edges: Floats) -> list[int]:
    """Return how many finite elements are below each edge, up to the last edge, and in the block.

    Minus infinity is not counted.
    """
    below = np.empty(block.size, np.bool_)
    least = -np.finfo(np.float64).max
    beneath = int(np.count_nonzero(np.less(block, least, out=below)))
    counts = [int(np.count_nonzero(np.less(block, edge, out=below))) for edge in edges.tolist()]
    counts.append(int(np.count_nonzero(np.less_equal(block, edges.item(-1), out=below))))
    counts.append(int(np.count_nonzero(np.less_equal(block, -least, out=below))))
    return [count - beneath for count in counts]


def _count_sorted(block: Floats, edges: Floats) -> list[int]:
    """Return the counts of `_count_each`, computed by sorting the block in place."""
    ordered = block
    ordered.sort()
    beneath = int(ordered.searchsorted(-np.inf, "right"))
    counts = ordered.searchsorted(edges, "left").tolist()
    counts.append(int(ordered.searchsorted(edges.item(-1), "right")))
    counts.append(int(ordered.searchsorted(np.inf, "left")))
    return [count - beneath for count in counts]
