"""The statistics of an array that people look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.moments import Row, combine
from polygraphy.domain.arithmetic.ordering import (
    MEDIAN,
    Ordered,
    collect,
    finish,
    fits,
    sort_channel,
    start_searches,
)
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.scratch import Scratch, borrowed
from polygraphy.domain.arithmetic.passes.selection import Search, Tally
from polygraphy.domain.arithmetic.passes.streams import ArrayStream, Reader, Stream
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Floats, Index, Kind, unravel
from polygraphy.domain.arithmetic.rows import LONGEST, describe_rows

QUANTILES = (0.9, 0.95, 0.99)
"""The quantiles of a summary, unless others are asked for."""


@frozen
class Summary:
    """Statistics of the elements of an array.

    `mean`, `std`, `var` (of the population) and `avg_magnitude`, the mean of the absolute values,
    are those of the finite elements. `min`, `max`, `median` and `quantiles` are those of all
    elements but NaN, so they may be infinite; they are exact. `argmin` and `argmax` index the
    first occurrence in C order. What does not exist, as in an array that is empty or all NaN, is
    NaN, or None for an index.

    `min` and `max` of integers are integers. Complex numbers are summarised by their modulus. Of
    dtypes that are no numbers, such as strings, only the size is known.
    """

    size: int
    nan: int
    posinf: int
    neginf: int
    zeros: int
    mean: float
    std: float
    var: float
    median: float
    min: float
    argmin: Index | None
    max: float
    argmax: Index | None
    avg_magnitude: float
    quantiles: Mapping[float, float]
    """Probability to quantile, interpolated linearly between the two nearest elements."""


def summarize(
    values: Array, *, quantiles: Iterable[float] = QUANTILES, threads: int = 1
) -> Summary:
    """Summarise an array of any dtype, shape and layout.

    The scratch memory does not grow with the size of the array.

    Parameters:
        quantiles: probabilities, each from 0 to 1.
        threads: most threads to use; the result does not depend on it.

    Raises:
        ValueError: for a probability outside 0 to 1.
    """
    flat = Flat(values)
    probabilities = checked(quantiles)
    if flat.kind is Kind.OTHER:
        return _describe_nothing(flat.size, probabilities)
    return summarize_stream(ArrayStream(flat), probabilities, threads)[0]


def checked(quantiles: Iterable[float]) -> tuple[float, ...]:
    """The probabilities as a tuple; ValueError if one is not from 0 to 1."""
    probabilities = tuple(quantiles)
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise ValueError(f"a quantile needs a probability from 0 to 1, not {probability!r}")
    return probabilities


AnyReader = TypeVar("AnyReader", bound=Reader)
Watch = Callable[[AnyReader, Scratch], Callable[[int], None]]


def summarize_stream(
    stream: Stream[AnyReader],
    quantiles: Sequence[float],
    threads: int = 1,
    watch: Watch[AnyReader] | None = None,
) -> list[Summary]:
    """A summary of each channel of a stream, in one pass (but for bad luck, see `selection`).

    Parameters:
        watch: what else to do in that pass: for each thread, given its reader, it makes a function
            that is called with the first position of each block that the reader has loaded.
    """
    if not stream.size:
        return [_describe_nothing(0, quantiles) for _ in range(stream.channels)]
    if fits(stream.size):
        return _summarize_block(stream, quantiles, watch)
    searches = start_searches(stream, (MEDIAN, *quantiles))
    passed = blocks.scan(stream.size, _surveyor(stream, searches, watch), threads)
    rows = [[block[i][0] for block in passed] for i in range(stream.channels)]
    pending = []
    for i, search in enumerate(searches):
        valid = stream.size - sum(row.nan for row in rows[i])
        if not search.settle([block[i][1] for block in passed], valid):
            pending.append(i)
    finish(stream, searches, pending, threads)
    with np.errstate(all="ignore"), borrowed(blocks.BLOCK) as scratch:
        reader = stream.reader(scratch)
        return [
            _assemble(stream, reader, i, rows[i], collect(search, quantiles))
            for i, search in enumerate(searches)
        ]


def _summarize_block(
    stream: Stream[AnyReader], quantiles: Sequence[float], watch: Watch[AnyReader] | None
) -> list[Summary]:
    with np.errstate(all="ignore"), borrowed(blocks.BLOCK) as scratch:
        reader = stream.reader(scratch)
        channels = reader.load(0, stream.size)
        summaries = None
        if stream.size <= LONGEST and stream.exact:
            rows = np.array(channels, np.float64)
            summaries = summarize_rows(rows, quantiles, stream.shape, stream.integral)
        if summaries is None:
            ordered = scratch.floats()[: stream.size]
            summaries = []
            for i, channel in enumerate(channels):
                statistics = sort_channel(channel, quantiles, ordered)
                row = reader.describe(i, (ordered.item(0), ordered.item(-1)))
                summaries.append(_assemble(stream, reader, i, [row], statistics, reload=False))
        if watch is not None:
            watch(reader, scratch)(0)
        return summaries


def summarize_rows(
    rows: Floats, quantiles: Sequence[float], shape: tuple[int, ...], integral: Sequence[bool]
) -> list[Summary] | None:
    """Summarise small arrays of one shape at once; None if one of them is not for that.

    Parameters:
        rows: the elements of each, shape ``(k, n)``, n > 0.
        integral: for each, whether the extremes are reported as whole numbers.
    """
    described = describe_rows(rows, quantiles)
    if described is None:
        return None
    return [
        Summary(
            size=rows.shape[1],
            nan=0,
            posinf=0,
            neginf=0,
            zeros=row.zeros,
            mean=row.mean,
            std=math.sqrt(row.variance),
            var=row.variance,
            median=row.median,
            min=int(row.low) if integral else row.low,
            argmin=unravel(row.first_low, shape),
            max=int(row.high) if integral else row.high,
            argmax=unravel(row.first_high, shape),
            avg_magnitude=row.magnitude,
            quantiles=row.quantiles,
        )
        for row, integral in zip(described, integral, strict=True)
    ]


def _surveyor(
    stream: Stream[AnyReader], searches: Sequence[Search], watch: Watch[AnyReader] | None
) -> Callable[[Scratch], Callable[[int, int], list[tuple[Row, tuple[int, ...]]]]]:
    """Workers that describe each channel of a block and count it for its search."""

    def make(scratch: Scratch) -> Callable[[int, int], list[tuple[Row, tuple[int, ...]]]]:
        reader = stream.reader(scratch)
        tallies = [Tally(search, scratch) for search in searches]
        look = None if watch is None else watch(reader, scratch)

        def survey(start: int, stop: int) -> list[tuple[Row, tuple[int, ...]]]:
            channels = reader.load(start, stop)
            if look is not None:
                look(start)
            return [
                (reader.describe(i), tally(channel))
                for i, (channel, tally) in enumerate(zip(channels, tallies, strict=True))
            ]

        return survey

    return make


def _assemble(
    stream: Stream[Reader],
    reader: Reader,
    channel: int,
    rows: Sequence[Row],
    ordered: Ordered,
    *,
    reload: bool = True,
) -> Summary:
    """Put a summary together; without `reload` the reader holds the only block."""
    whole = combine(rows)
    mean = var = avg_magnitude = math.nan
    if whole.finite:
        mean = stream.origins[channel] + whole.mean
        var = whole.squares / whole.finite
        avg_magnitude = whole.magnitude
    argmin = argmax = None
    if whole.finite or whole.posinf or whole.neginf:
        argmin = _locate(stream, reader, channel, whole.low, [row.low for row in rows], reload)
        argmax = _locate(stream, reader, channel, whole.high, [row.high for row in rows], reload)
    return Summary(
        size=stream.size,
        nan=whole.nan,
        posinf=whole.posinf,
        neginf=whole.neginf,
        zeros=whole.zeros,
        mean=mean,
        std=math.sqrt(var),
        var=var,
        median=ordered.median,
        min=int(whole.low) if stream.integral[channel] else whole.low,
        argmin=argmin,
        max=int(whole.high) if stream.integral[channel] else whole.high,
        argmax=argmax,
        avg_magnitude=avg_magnitude,
        quantiles=ordered.quantiles,
    )


def _locate(
    stream: Stream[Reader],
    reader: Reader,
    channel: int,
    extreme: float,
    extremes: Sequence[float],
    reload: bool,
) -> Index:
    """The index of the first occurrence of an extreme, from the extreme of each block."""
    start = extremes.index(extreme) * blocks.BLOCK
    if reload:
        reader.load(start, min(start + blocks.BLOCK, stream.size))
    return unravel(start + reader.find(channel, extreme), stream.shape)


def _describe_nothing(size: int, quantiles: Sequence[float]) -> Summary:
    nan = math.nan
    return Summary(
        size=size,
        nan=0,
        posinf=0,
        neginf=0,
        zeros=0,
        mean=nan,
        std=nan,
        var=nan,
        median=nan,
        min=nan,
        argmin=None,
        max=nan,
        argmax=None,
        avg_magnitude=nan,
        quantiles=dict.fromkeys(quantiles, nan),
    )
