"""The statistics of an array that people look at.

Statistics of small arrays, several at a time.

For an array of a few elements each call of numpy takes longer than its arithmetic. So small arrays
are put below each other as the rows of a matrix, and each statistic of all of them is one call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import frozen

from polygraphy.domain.arithmetic.moments import Row, combine_rows
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import (
    Array,
    Flat,
    Floats,
    Index,
    Kind,
    Reals,
    Scratch,
    borrowed_scratch,
    unravel,
)
from polygraphy.domain.arithmetic.passes.selection import (
    Search,
    Tally,
    interpolate,
    median_of,
    midpoint,
    quantile_of,
    sample_positions,
    split_rank,
)
from polygraphy.domain.arithmetic.passes.streams import ArrayStream, Reader, Stream

LONGEST = 1 << 12
"""Most elements of a row: with more of them, arithmetic takes longer than calls."""


class RowStatistics(NamedTuple):
    """The statistics of one row, as in `Summary`; `first_low` and `first_high` are positions in the
    row."""

    low: float
    high: float
    first_low: int
    first_high: int
    mean: float
    variance: float
    magnitude: float
    zeros: int
    median: float
    quantiles: dict[float, float]


def describe_rows(rows: Floats, quantiles: Sequence[float]) -> list[RowStatistics] | None:
    """Return statistics of each row of a matrix, shape ``(k, n)``, n > 0, or None.
    The result is None if an element is not finite, or a sum or a square is beyond float64, which
    needs more care.
    """
    size = rows.shape[1]
    ordered = rows.copy()
    ordered.sort(axis=1)
    ranks, weights = _ranks(size, tuple(quantiles))
    picked = ordered.take(ranks, axis=1).tolist()
    lows, highs = [row[0] for row in picked], [row[1] for row in picked]
    if not math.isfinite(sum(lows) + sum(highs)):
        return None
    means = np.add.reduce(rows, axis=1, keepdims=True)
    means /= size
    deviations = rows - means
    squares = np.add.reduce(np.square(deviations, out=deviations), axis=1)
    mean = means[:, 0].tolist()
    magnitude, zeros = mean, [0] * len(mean)
    if min(lows) < 0:
        magnitude = (np.add.reduce(np.abs(rows, out=deviations), axis=1) / size).tolist()
    if min(lows) <= 0 <= max(highs):
        zeros = np.add.reduce(rows == 0, axis=1, dtype=np.intp).tolist()
    variance = (squares / size).tolist()
    if not math.isfinite(sum(variance) + sum(magnitude)):
        return None
    return [
        RowStatistics(*bounds)
        for bounds in zip(
            # Adding 0 removes the sign of a zero, which is arbitrary.
            [low + 0.0 for low in lows],
            [high + 0.0 for high in highs],
            rows.argmin(axis=1).tolist(),
            rows.argmax(axis=1).tolist(),
            mean,
            variance,
            magnitude,
            zeros,
            [midpoint(row[2], row[3]) for row in picked],
            [
                {
                    quantile: interpolate(low, high, weight)
                    for quantile, low, high, weight in zip(quantiles, row[4::2], row[5::2], weights)
                }
                for row in picked
            ],
        )
    ]


@functools.lru_cache(maxsize=256)
def _ranks(
    size: int, quantiles: tuple[float, ...]
) -> tuple[npt.NDArray[np.intp], tuple[float, ...]]:
    """Return the ranks of elements that quantiles need, and the weight of each second one.

    The ranks are those of the extremes, of the elements next to the median, and of those next to
    each quantile. The weights are those of the second element in each quantile.
    """
    split_ranks = [split_rank(size, probability) for probability in quantiles]
    ranks = [0, size - 1, (size - 1) // 2, size // 2]
    for rank, _ in split_ranks:
        ranks += [rank, min(rank + 1, size - 1)]
    return np.array(ranks, np.intp), tuple(weight for _, weight in split_ranks)


MEDIAN = 0.5
"""The probability that a search needs for a median."""

SORTED = 1 << 15
"""Most elements that are rather sorted than searched."""


@frozen
class OrderStatistics:
    """Order statistics of a channel: of the elements that are not NaN, which `valid` counts."""

    valid: int
    median: float
    """NaN also if it was not asked for."""
    quantiles: Mapping[float, float]


def fits(size: int) -> bool:
    """Return whether a stream of that size is small enough to be sorted as a single block."""
    return size <= min(SORTED, blocks.BLOCK)


def order_statistics(
    stream: Stream[Reader], quantiles: Sequence[float], threads: int = 1, *, median: bool = True
) -> list[OrderStatistics]:
    """Return the order statistics of each channel of a stream, exact for every probability.

    The stream must not be empty.
    """
    if fits(stream.size):
        with np.errstate(all="ignore"), borrowed_scratch(blocks.BLOCK) as scratch:
            channels = stream.reader(scratch).load(0, stream.size)
            ordered = scratch.floats()[: stream.size]
            return [sort_channel(channel, quantiles, ordered) for channel in channels]
    searches = start_searches(stream, (MEDIAN, *quantiles) if median else quantiles)
    finish_searches(stream, searches, range(stream.channels), threads)
    return [collect_order_statistics(search, quantiles, median=median) for search in searches]


def sort_channel(channel: Reals, quantiles: Sequence[float], ordered: Floats) -> OrderStatistics:
    """Return all order statistics of a channel of one block, shape ``(n,)`` with n > 0.

    Fills `ordered`, of the same shape, with the sorted elements, NaN last.
    """
    ordered[:] = channel
    ordered.sort()
    valid = ordered.size
    if math.isnan(ordered.item(-1)):
        valid = int(ordered.searchsorted(np.nan))
    return _interpolate(ordered.item, valid, quantiles, median=True)


def start_searches(stream: Stream[Reader], probabilities: Sequence[float]) -> list[Search]:
    """Return a search for each channel, which starts from a sample."""
    with np.errstate(all="ignore"):
        return [
            Search(probabilities, sample) for sample in stream.sample(sample_positions(stream.size))
        ]


def finish_searches(
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


def collect_order_statistics(
    search: Search, quantiles: Sequence[float], *, median: bool = True
) -> OrderStatistics:
    """Return the order statistics of a finished search."""
    return _interpolate(search.element, search.valid, quantiles, median=median)


def _counter(
    stream: Stream[Reader], searches: Sequence[Search], pending: Sequence[int]
) -> Callable[[Scratch], Callable[[int, int], list[tuple[int, tuple[int, ...]]]]]:
    """Return the function that creates workers.
    Each counts, for the pending channels of a block, the elements that are not NaN, and those below
    each bound of its search.
    """

    def make(scratch: Scratch) -> Callable[[int, int], list[tuple[int, tuple[int, ...]]]]:
        """Return a worker that counts the pending channels of a block."""
        reader = stream.reader(scratch)
        tallies = [(channel, Tally(searches[channel], scratch)) for channel in pending]
        mask = scratch.mask()

        def count(start: int, stop: int) -> list[tuple[int, tuple[int, ...]]]:
            """Return the counts of the pending channels of a block."""
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
) -> OrderStatistics:
    """Return the median, NaN unless requested, and the quantiles, interpolated between elements."""
    return OrderStatistics(
        valid,
        median_of(element, valid) if median else math.nan,
        {probability: quantile_of(element, valid, probability) for probability in quantiles},
    )


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

    `min` and `max` of integers are integers. Complex numbers are summarized by their modulus. Of
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
    """Return a summary of an array of any data type, shape and layout.

    The scratch memory does not grow with the size of the array.

    Parameters:
        quantiles: probabilities, each from 0 to 1.
        threads: most threads to use; the result does not depend on it.

    Raises:
        ValueError: for a probability outside 0 to 1.
    """
    flat = Flat(values)
    probabilities = check_quantiles(quantiles)
    if flat.kind is Kind.OTHER:
        return _describe_nothing(flat.size, probabilities)
    return summarize_stream(ArrayStream(flat), probabilities, threads)[0]


def check_quantiles(quantiles: Iterable[float]) -> tuple[float, ...]:
    """Return the probabilities as a tuple; ValueError if one is not from 0 to 1."""
    probabilities = tuple(quantiles)
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise ValueError(f"a quantile requires a probability from 0 to 1, not {probability!r}")
    return probabilities


AnyReader = TypeVar("AnyReader", bound=Reader)
Watch = Callable[[AnyReader, Scratch], Callable[[int], None]]


def summarize_stream(
    stream: Stream[AnyReader],
    quantiles: Sequence[float],
    threads: int = 1,
    watch: Watch[AnyReader] | None = None,
) -> list[Summary]:
    """Return a summary of each channel of a stream, almost always computed in one pass (see
    `selection`).

    Parameters:
        watch: further work in that pass: for each thread, given its reader, it makes a function
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
    finish_searches(stream, searches, pending, threads)
    with np.errstate(all="ignore"), borrowed_scratch(blocks.BLOCK) as scratch:
        reader = stream.reader(scratch)
        return [
            _assemble(stream, reader, i, rows[i], collect_order_statistics(search, quantiles))
            for i, search in enumerate(searches)
        ]


def _summarize_block(
    stream: Stream[AnyReader], quantiles: Sequence[float], watch: Watch[AnyReader] | None
) -> list[Summary]:
    """Return a summary of each channel of a stream that fits in one block."""
    with np.errstate(all="ignore"), borrowed_scratch(blocks.BLOCK) as scratch:
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
    """Return summaries of small arrays of one shape, computed at once, or None.
    The result is None if `describe_rows` returns None.

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
    """Return the function that creates workers.
    Each describes the channels of a block and counts them for their searches.
    """

    def make(scratch: Scratch) -> Callable[[int, int], list[tuple[Row, tuple[int, ...]]]]:
        """Return a worker that describes and counts the channels of a block."""
        reader = stream.reader(scratch)
        tallies = [Tally(search, scratch) for search in searches]
        look = None if watch is None else watch(reader, scratch)

        def survey(start: int, stop: int) -> list[tuple[Row, tuple[int, ...]]]:
            """Return the description and the counts of each channel of a block."""
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
    ordered: OrderStatistics,
    *,
    reload: bool = True,
) -> Summary:
    """Return the summary of a channel from the rows of its blocks; without `reload` the reader
    already has the only block.
    """
    combined = combine_rows(rows)
    mean = var = avg_magnitude = math.nan
    if combined.finite:
        mean = stream.origins[channel] + combined.mean
        var = combined.squares / combined.finite
        avg_magnitude = combined.magnitude
    argmin = argmax = None
    if combined.finite or combined.posinf or combined.neginf:
        argmin = _locate(stream, reader, channel, combined.low, [row.low for row in rows], reload)
        argmax = _locate(stream, reader, channel, combined.high, [row.high for row in rows], reload)
    return Summary(
        size=stream.size,
        nan=combined.nan,
        posinf=combined.posinf,
        neginf=combined.neginf,
        zeros=combined.zeros,
        mean=mean,
        std=math.sqrt(var),
        var=var,
        median=ordered.median,
        min=int(combined.low) if stream.integral[channel] else combined.low,
        argmin=argmin,
        max=int(combined.high) if stream.integral[channel] else combined.high,
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
    """Return the index of the first occurrence of an extreme, from the extreme of each block."""
    start = extremes.index(extreme) * blocks.BLOCK
    if reload:
        reader.load(start, min(start + blocks.BLOCK, stream.size))
    return unravel(start + reader.find(channel, extreme), stream.shape)


def _describe_nothing(size: int, quantiles: Sequence[float]) -> Summary:
    """Return the summary of a channel without values: NaN for each statistic."""
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


def root_mean_square(values: Array, *, threads: int = 1) -> float:
    """Return the root of the mean square of the finite elements; 0 when there are none.

    Each block is first scaled by its largest element, so that neither 1e-200 nor 1e+200 is lost.
    Complex numbers count by their modulus.

    Raises:
        TypeError: the array holds no numbers.
    """
    flat = Flat(values)
    if flat.kind is Kind.OTHER:
        raise TypeError(f"only numbers have a magnitude, not {values.dtype}")
    rows = blocks.scan(flat.size, lambda scratch: _measurer(flat, scratch), threads)
    peak = max((peak for peak, _, _ in rows), default=0.0)
    count = sum(count for _, _, count in rows)
    if peak == 0 or not count:
        return 0.0
    total = math.fsum(squares * (row_norm / peak) ** 2 for row_norm, squares, _ in rows)
    return peak * math.sqrt(total / count)


def _measurer(flat: Flat, scratch: Scratch) -> Callable[[int, int], tuple[float, float, int]]:
    """Return a function from a block to its peak, relative squares, and number of these."""
    room = scratch.floats()

    def measure(start: int, stop: int) -> tuple[float, float, int]:
        """Return the peak of a block, its squares in units of the peak, and their count."""
        if flat.kind is Kind.COMPLEX:
            block = np.abs(flat.block(start, stop).astype(np.complex128))
        else:
            block = flat.floats(start, stop, room)
            block = np.abs(block, out=room[: block.size])
        peak = float(np.maximum.reduce(block, initial=0.0))
        if not math.isfinite(peak):
            block = block[np.isfinite(block)]
            peak = float(np.maximum.reduce(block, initial=0.0))
        if peak == 0:
            return 0.0, 0.0, block.size
        scaled = np.divide(block, peak, out=block)
        # Not `np.dot`, because a BLAS library shares each block among its threads, which takes much
        # more time.
        return peak, float(np.square(scaled, out=scaled).sum()), block.size

    return measure
