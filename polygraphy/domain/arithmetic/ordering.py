"""Medians and quantiles of the channels of a stream: sorted if it is small, else searched for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.interpolation import median_of, quantile_of
from polygraphy.domain.arithmetic.passes.scratch import Scratch, borrowed
from polygraphy.domain.arithmetic.passes.selection import Search, Tally, positions
from polygraphy.domain.arithmetic.passes.streams import Reader, Stream
from polygraphy.domain.arithmetic.passes.widen import Floats, Reals

MEDIAN = 0.5
"""The probability that a search needs for a median."""

SORTED = 1 << 15
"""Most elements that are rather sorted than searched."""


@frozen
class Ordered:
    """Order statistics of a channel: of the elements that are not NaN, which `valid` counts."""

    valid: int
    median: float
    """NaN also if it was not asked for."""
    quantiles: Mapping[float, float]


def fits(size: int) -> bool:
    """Whether a stream of that size is best sorted, as a single block."""
    return size <= min(SORTED, blocks.BLOCK)


def order(
    stream: Stream[Reader], quantiles: Sequence[float], threads: int = 1, *, median: bool = True
) -> list[Ordered]:
    """The order statistics of each channel of a stream, exact for every probability.

    The stream must not be empty.
    """
    if fits(stream.size):
        with np.errstate(all="ignore"), borrowed(blocks.BLOCK) as scratch:
            channels = stream.reader(scratch).load(0, stream.size)
            ordered = scratch.floats()[: stream.size]
            return [sort_channel(channel, quantiles, ordered) for channel in channels]
    searches = start_searches(stream, (MEDIAN, *quantiles) if median else quantiles)
    finish(stream, searches, range(stream.channels), threads)
    return [collect(search, quantiles, median=median) for search in searches]


def sort_channel(channel: Reals, quantiles: Sequence[float], ordered: Floats) -> Ordered:
    """All order statistics of a channel of one block, shape ``(n,)`` with n > 0.

    Fills `ordered`, of the same shape, with the sorted elements, NaN last.
    """
    ordered[:] = channel
    ordered.sort()
    valid = ordered.size
    if math.isnan(ordered.item(-1)):
        valid = int(ordered.searchsorted(np.nan))
    return _interpolate(ordered.item, valid, quantiles, median=True)


def start_searches(stream: Stream[Reader], probabilities: Sequence[float]) -> list[Search]:
    """A search for each channel, which knows a sample of it."""
    with np.errstate(all="ignore"):
        return [Search(probabilities, sample) for sample in stream.sample(positions(stream.size))]


def finish(
    stream: Stream[Reader], searches: Sequence[Search], pending: Iterable[int], threads: int = 1
) -> None:
    """Repeat passes over a stream until the searches of the pending channels are settled."""
    pending = list(pending)
    while pending:
        passed = blocks.scan(stream.size, _counter(stream, searches, pending), threads)
        unsettled = []
        for k, channel in enumerate(pending):
            counts = [block[k][1] for block in passed]
            if not searches[channel].settle(counts, sum(block[k][0] for block in passed)):
                unsettled.append(channel)
        pending = unsettled


def collect(search: Search, quantiles: Sequence[float], *, median: bool = True) -> Ordered:
    """The order statistics of a settled search."""
    return _interpolate(search.element, search.valid, quantiles, median=median)


def _counter(
    stream: Stream[Reader], searches: Sequence[Search], pending: Sequence[int]
) -> Callable[[Scratch], Callable[[int, int], list[tuple[int, tuple[int, ...]]]]]:
    """Workers that count the pending channels of a block: what is not NaN, and for the search."""

    def make(scratch: Scratch) -> Callable[[int, int], list[tuple[int, tuple[int, ...]]]]:
        reader = stream.reader(scratch)
        tallies = [(channel, Tally(searches[channel], scratch)) for channel in pending]
        mask = scratch.mask()

        def count(start: int, stop: int) -> list[tuple[int, tuple[int, ...]]]:
            channels = reader.load(start, stop)
            valid = mask[: stop - start]
            return [
                (
                    int(np.count_nonzero(np.equal(channels[i], channels[i], out=valid))),
                    tally(channels[i]),
                )
                for i, tally in tallies
            ]

        return count

    return make


def _interpolate(
    element: Callable[[int], float], valid: int, quantiles: Sequence[float], *, median: bool
) -> Ordered:
    return Ordered(
        valid,
        median_of(element, valid) if median else math.nan,
        {probability: quantile_of(element, valid, probability) for probability in quantiles},
    )
