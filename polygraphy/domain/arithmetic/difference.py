"""The difference of two arrays of one shape, of which as much is computed as is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import attrs
import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.histogram import Histogram, stream_histogram
from polygraphy.domain.arithmetic.passes.blocks import Array, Floats, Index, Scratch, unravel
from polygraphy.domain.arithmetic.passes.selection import midpoint, row_medians
from polygraphy.domain.arithmetic.passes.streams import (
    KEPT,
    Channel,
    DifferenceReader,
    DifferenceStream,
    Kernel,
    Pair,
)
from polygraphy.domain.arithmetic.passes.survey import (
    Extent,
    Formula,
    Limit,
    MismatchFinder,
    MismatchRow,
    extent_of,
    survey,
    watch_mismatches,
)
from polygraphy.domain.arithmetic.passes.together import FormedRow
from polygraphy.domain.arithmetic.summary import (
    LONGEST,
    QUANTILES,
    OrderStatistics,
    Summary,
    Watch,
    check_quantiles,
    order_statistics,
    sort_channel,
    summarize,
    summarize_rows,
    summarize_stream,
)
from polygraphy.domain.tensors.pickling import pickle_as

CHANNELS: tuple[Channel, ...] = ("absolute", "relative")
MOST_KEPT = 256
"""Most elements whose differences are kept: two vectors of 2 KiB."""


class KeptDifferences:
    """The absolute and relative differences of two arrays that were released.

    The metrics equal those of `Difference` to the last bit.
    """

    __slots__ = ("_medians", "absolute", "relative")

    def __init__(self, absolute: Floats, relative: Floats) -> None:
        """Keep two vectors of equal length, n > 0, which must not change."""
        self.absolute = absolute
        self.relative = relative
        self._medians: tuple[float, float] | None = None

    def mean_abs(self) -> float:
        """Return the mean absolute difference."""
        return _mean(self.absolute)

    def mean_rel(self) -> float:
        """Return the mean relative difference."""
        return _mean(self.relative)

    def median_abs(self) -> float:
        """Return the median absolute difference."""
        return _median(self.absolute) if self._medians is None else self._medians[0]

    def median_rel(self) -> float:
        """Return the median relative difference."""
        return _median(self.relative) if self._medians is None else self._medians[1]

    @staticmethod
    def find_medians(many: Iterable[KeptDifferences]) -> None:
        """Compute the medians of many objects at once, so that each is known when it is needed."""
        by_size: dict[int, list[KeptDifferences]] = {}
        for differences in many:
            by_size.setdefault(differences.absolute.size, []).append(differences)
        for size, alike in by_size.items():
            rows = np.array(
                [
                    vector
                    for kept_differences in alike
                    for vector in (kept_differences.absolute, kept_differences.relative)
                ]
            )
            rows.sort(axis=1)  # Sorting puts NaN last.
            medians = [
                midpoint(low, high) if not math.isnan(last) else math.nan
                for low, high, last in rows[:, [(size - 1) // 2, size // 2, -1]].tolist()
            ]
            for differences, *pair_medians in zip(alike, medians[::2], medians[1::2]):
                differences._medians = pair_medians[0], pair_medians[1]


def _keep_medians(differences: Sequence[tuple[Difference, Channel]], rows: Floats) -> None:
    """Compute the median of each row, and keep it in the difference and channel of that row.

    Args:
        differences: whose medians they are.
        rows: a matrix without NaN.
    """
    for (difference, channel), median in zip(differences, row_medians(rows)):
        difference._ordered[channel] = OrderStatistics(rows.shape[1], median, {})


def _mean(vector: Floats) -> float:
    """Return the mean of a vector, which may have NaN or infinite elements."""
    with np.errstate(all="ignore"):
        return extent_of(vector).mean()


def _median(vector: Floats) -> float:
    """Return the median of a vector; NaN if it has a NaN."""
    channel = sort_channel(vector, (), np.empty(vector.size))
    return channel.median if channel.valid == vector.size else math.nan


@pickle_as("polygraphy.comparator.compare")
@frozen
class Element:
    """One element of a comparison: where it is, the two values, and their differences."""

    index: Index
    value: Any
    reference: Any
    absolute: float
    relative: float


@pickle_as("polygraphy.comparator.compare")
@frozen
class Mismatches:
    """The elements that differ by more than a `Limit` allows."""

    size: int
    """Elements compared."""
    count: int
    """Elements that mismatch."""
    nan: int
    """Elements whose difference is NaN."""
    first: Element | None
    """The first mismatch in C order."""
    worst: Element | None
    """The mismatch that exceeds its tolerance by the greatest amount, the first of equals.

    Differences that are NaN or infinite exceed everything else.
    """


class Difference:
    """The absolute and the relative difference of an array from a reference.

    Nothing is computed before it is requested, and results are kept. No array of the size of the
    operands is created, unless that is at most the size of a block. The module `kernels` documents
    the differences for each dtype, and for NaN, infinity and zero. The operands are never written
    to; they must not change while this object is used, unless it has its own copies (`own_arrays`).

    There are two views. The metrics (`max_abs` and so on) are for judging: they are NaN if any
    difference is NaN, and 0 for empty arrays. The summaries are for display: they exclude NaN and
    count it. The metrics include infinite differences.
    """

    def __init__(
        self,
        value: Array,
        reference: Array,
        *,
        infinities_equal: bool = False,
        threads: int = 1,
        formed: FormedRow | None = None,
    ) -> None:
        """Compare `value` with `reference`, the second operand of every formula.

        Parameters:
            infinities_equal: infinities of one sign differ by 0, not by NaN.
            threads: most threads to use, and only for large arrays; no result depends on it.
            formed: the differences, if they were formed together with others.

        Raises:
            ValueError: if the shapes differ.
        """
        self._pair = Pair(value, reference, infinities_equal)
        self._formed = formed
        if formed is not None:
            self._pair.form = partial(formed[0].kernel, formed[1])
        self.threads = threads
        self._extents: dict[Channel, Extent] = (
            {} if formed is None else formed[0].extents(formed[1])
        )
        self._mismatches: dict[tuple[float, float, Formula], Mismatches] = {}
        self._summaries: dict[Channel, Summary] = {}
        self._ordered: dict[Channel, OrderStatistics] = {}
        self._operands: tuple[Summary, Summary] | None = None

    @staticmethod
    def find_medians(many: Iterable[Difference]) -> None:
        """Compute the medians of many small arrays together,
        except medians that are known or follow from the extent."""
        by_size: dict[int, list[tuple[Difference, Channel, Floats]]] = {}
        for difference in many:
            if not MOST_KEPT < difference.size <= KEPT:
                continue
            for number, channel in enumerate(CHANNELS):
                if (
                    difference._lacks_median(channel)
                    and (kernel := difference._pair.whole_kernel()) is not None
                ):
                    vector = kernel.relative() if number else kernel.absolute
                    by_size.setdefault(difference.size, []).append((difference, channel, vector))
        for rows in by_size.values():
            _keep_medians(
                [(difference, channel) for difference, channel, _ in rows],
                np.array([f[2] for f in rows]),
            )

    def _lacks_median(self, channel: Channel) -> bool:
        """Return whether the median of a channel is neither known nor follows from its extent."""
        extent = self._extents.get(channel)
        if extent is None or extent.nan or extent.peak == 0:
            return False
        return channel not in self._ordered and channel not in self._summaries

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The operands."""
        return self._pair.arrays

    def own_arrays(self) -> None:
        """Replace the operands by copies, so that the originals may change."""
        self._pair.own_arrays()
        self._formed = None

    def without_operands(self) -> KeptDifferences | None:
        """Return the differences without the operands, or None.
        The result is None if they are many, or a statistic is known already.
        """
        if self.size > MOST_KEPT or self._summaries or self._ordered:
            return None
        kernel = self._pair.whole_kernel()
        return None if kernel is None else KeptDifferences(kernel.absolute, kernel.relative())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operands."""
        return self._pair.shape

    @property
    def size(self) -> int:
        """The number of differences."""
        return self._pair.size

    def mismatches(self, atol: float, rtol: float, formula: Formula = "either") -> Mismatches:
        """Return the mismatches: elements that differ by more than a tolerance.
        See `Limit` for the formulas.

        The first call runs the one pass that also computes the largest and the mean differences.

        Raises:
            ValueError: for a tolerance that is negative or NaN, or an unknown formula.
        """
        key = atol, rtol, formula
        if key not in self._mismatches:
            self._mismatches[key] = self._find_mismatches(_limit(*key))
        return self._mismatches[key]

    def measure(
        self,
        atol: float,
        rtol: float,
        formula: Formula = "either",
        quantiles: Iterable[float] = QUANTILES,
    ) -> Mismatches:
        """Return `mismatches`, and compute `summaries` in the same pass;
        for small arrays also the summaries of the operands.
        """
        limit = _limit(atol, rtol, formula)
        probabilities = check_quantiles(quantiles)
        key = atol, rtol, formula
        if self.size and not self._summaries and key not in self._mismatches:
            self._mismatches[key] = self._measure(limit, probabilities)
        return self.mismatches(*key)

    def _measure(self, limit: Limit, quantiles: tuple[float, ...]) -> Mismatches:
        """Return the mismatches, and keep the summaries of the differences."""
        kernel = self._pair.small_kernel() if self.size <= LONGEST else None
        if kernel is not None and self._measure_rows(kernel, quantiles):
            return self._merge_mismatches(_rows_of(kernel, limit))
        rows: dict[int, MismatchRow] = {}
        self._summarize_in_pass(("absolute", "relative"), quantiles, watch_mismatches(limit, rows))
        return self._merge_mismatches([rows[start] for start in sorted(rows)])

    def _measure_rows(self, kernel: Kernel, quantiles: tuple[float, ...]) -> bool:
        """Measure small arrays and their differences at once; return whether that was possible."""
        with np.errstate(all="ignore"):
            sides = self._pair.value, self._pair.reference
            rows = np.empty((4, self.size))
            rows[0], rows[1] = kernel.absolute, kernel.relative()
            rows[2], rows[3] = (side.block(0, self.size) for side in sides)
            integral = (False, False, *(side.kind.integral for side in sides))
            rows_found = summarize_rows(rows, quantiles, self.shape, integral)
        if rows_found is None:
            return False
        self._keep(("absolute", "relative"), rows_found[:2])
        self._operands = rows_found[2], rows_found[3]
        return True

    def element(self, position: int) -> Element:
        """Return the values and the differences at a position in C order."""
        absolute, relative = self._pair.differences_at(position)
        return Element(
            index=unravel(position, self.shape),
            value=self._pair.value.item(position),
            reference=self._pair.reference.item(position),
            absolute=absolute,
            relative=relative,
        )

    def max_abs(self) -> float:
        """Return the largest absolute difference."""
        kernel = self._pair.whole_kernel()
        return self._extent("absolute").max() if kernel is None else kernel.peak

    def max_rel(self) -> float:
        """Return the largest relative difference."""
        kernel = self._pair.whole_kernel()
        return self._extent("relative").max() if kernel is None else kernel.relative_peak

    def mean_abs(self) -> float:
        """Return the mean absolute difference."""
        return self._extent("absolute").mean()

    def mean_rel(self) -> float:
        """Return the mean relative difference."""
        return self._extent("relative").mean()

    def median_abs(self) -> float:
        """Return the median absolute difference."""
        return self._order_statistic("absolute", None)

    def median_rel(self) -> float:
        """Return the median relative difference."""
        return self._order_statistic("relative", None)

    def quantile_abs(self, probability: float) -> float:
        """Return a quantile of the absolute differences, for a probability from 0 to 1."""
        return self._order_statistic("absolute", probability)

    def quantile_rel(self, probability: float) -> float:
        """Return a quantile of the relative differences, for a probability from 0 to 1."""
        return self._order_statistic("relative", probability)

    def metrics_without_pass(self) -> tuple[float, ...] | None:
        """Return the largest, mean and median absolute and relative differences, in this order.
        The result is None if they are not known without a pass."""
        formed = self._formed
        if formed is not None and (known_metrics := formed[0].metrics(formed[1])) is not None:
            return known_metrics
        absolute, relative = self._extents.get("absolute"), self._extents.get("relative")
        if absolute is None or relative is None:
            return None
        is_finite = absolute.finite == relative.finite == self._pair.size
        if is_finite and absolute.peak == relative.peak == 0:
            return _ZEROS
        medians = []
        for channel, extent in zip(CHANNELS, (absolute, relative)):
            statistics = self._ordered.get(channel)
            if extent.nan or (extent.peak != 0 and statistics is None):
                return None
            medians.append(0.0 if extent.peak == 0 or statistics is None else statistics.median)
        return (absolute.max(), relative.max(), absolute.mean(), relative.mean(), *medians)

    def absolute(self, quantiles: Iterable[float] = QUANTILES) -> Summary:
        """Return a summary of the absolute differences."""
        return self._summarize(("absolute",), check_quantiles(quantiles))[0]

    def relative(self, quantiles: Iterable[float] = QUANTILES) -> Summary:
        """Return a summary of the relative differences."""
        return self._summarize(("relative",), check_quantiles(quantiles))[0]

    def summaries(self, quantiles: Iterable[float] = QUANTILES) -> tuple[Summary, Summary]:
        """Return `absolute` and `relative`, computed in one pass, which is faster than two."""
        absolute, relative = self._summarize(("absolute", "relative"), check_quantiles(quantiles))
        return absolute, relative

    def operands(self) -> tuple[Summary, Summary]:
        """Return summaries of the value and of the reference."""
        if self._operands is None:
            value, reference = self.arrays
            self._operands = (
                summarize(value, threads=self.threads),
                summarize(reference, threads=self.threads),
            )
        return self._operands

    def absolute_histogram(self, bins: int = 10) -> Histogram:
        """Return the histogram of the finite absolute differences over their own range."""
        stream = DifferenceStream(self._pair, "absolute")
        return stream_histogram(stream, bins, None, self.threads)

    def relative_histogram(self, bins: int = 10) -> Histogram:
        """Return the histogram of the finite relative differences over their own range."""
        stream = DifferenceStream(self._pair, "relative")
        return stream_histogram(stream, bins, None, self.threads)

    def _find_mismatches(self, limit: Limit) -> Mismatches:
        """Return the mismatches for a limit, computed in a pass."""
        kernel = self._pair.whole_kernel()
        if kernel is not None and limit.covers(kernel.peak):
            return _no_mismatches(self.size)
        return self._merge_mismatches(
            self._mismatch_rows(limit) if kernel is None else _rows_of(kernel, limit)
        )

    def _merge_mismatches(self, rows: Sequence[MismatchRow]) -> Mismatches:
        """Return the mismatches of the whole from those of its blocks."""
        rows_found = [row for row in rows if row.far]
        if not rows_found:  # NaN elements count as mismatches, so there are none either.
            return _no_mismatches(self.size)
        return Mismatches(
            size=self.size,
            count=sum(row.far for row in rows_found),
            nan=self._extent("absolute").nan,
            first=self.element(rows_found[0].first),
            worst=self.element(max(rows_found, key=lambda row: row.excess).worst),
        )

    def _mismatch_rows(self, limit: Limit) -> list[MismatchRow]:
        """Return the mismatches of each block; none without a pass if the largest differences
        are within the limit.
        """
        extent = self._extents.get("absolute")
        if extent is not None and not extent.nan and limit.covers(extent.peak):
            return []
        return self._survey(("absolute", "relative"), limit)

    def _survey(self, channels: Iterable[Channel], limit: Limit | None) -> list[MismatchRow]:
        """Return the mismatches of each block for a limit, and keep the extents of channels."""
        unknown = [channel for channel in channels if channel not in self._extents]
        summary = survey(self._pair, unknown, limit, self.threads)
        self._extents |= summary.extents
        return summary.rows

    def _extent(self, channel: Channel) -> Extent:
        """Return the extent of a channel; compute it at the first call."""
        if channel not in self._extents:
            self._survey((channel,), None)
        return self._extents[channel]

    def _order_statistic(self, channel: Channel, probability: float | None) -> float:
        """Return a quantile, exact enough for a verdict; the median if `probability` is None."""
        quantiles = () if probability is None else check_quantiles((probability,))
        if not self.size:
            return 0.0
        extent = self._extents.get(channel)
        if extent is not None and extent.nan:
            return math.nan
        if extent is not None and extent.peak == 0:  # If the largest element is 0, all are 0.
            return 0.0
        statistics = self._order_statistics(channel, quantiles, median=probability is None)
        if statistics.valid < self.size:
            return math.nan
        return statistics.median if probability is None else statistics.quantiles[probability]

    def _order_statistics(
        self, channel: Channel, quantiles: Iterable[float], *, median: bool
    ) -> OrderStatistics:
        """Return all known order statistics of a channel, at least the requested ones."""
        statistics = self._ordered.get(channel)
        lacking = tuple(q for q in quantiles if statistics is None or q not in statistics.quantiles)
        median = median and (statistics is None or math.isnan(statistics.median))
        if statistics is None or lacking or median:
            stream = DifferenceStream(self._pair, channel)
            ordered = order_statistics(stream, lacking, self.threads, median=median)[0]
            if statistics is not None:
                ordered = OrderStatistics(
                    ordered.valid,
                    ordered.median if median else statistics.median,
                    {**statistics.quantiles, **ordered.quantiles},
                )
            self._ordered[channel] = statistics = ordered
        return statistics

    def _summarize(
        self, channels: tuple[Channel, ...], quantiles: tuple[float, ...]
    ) -> list[Summary]:
        """Return summaries of channels; unknown ones are computed in one pass."""
        unknown = [channel for channel in channels if channel not in self._summaries]
        if unknown:
            self._summarize_in_pass(unknown, quantiles)
        return [self._with_quantiles(self._summaries[c], c, quantiles) for c in channels]

    def _summarize_in_pass(
        self,
        channels: Sequence[Channel],
        quantiles: tuple[float, ...],
        watch: Watch[DifferenceReader] | None = None,
    ) -> None:
        """Summarize channels in a pass, and keep the results."""
        stream = DifferenceStream(self._pair, *channels)
        self._keep(channels, summarize_stream(stream, quantiles, self.threads, watch))

    def _keep(self, channels: Sequence[Channel], summaries: Sequence[Summary]) -> None:
        """Keep the summaries of channels, with their extents and order statistics."""
        for channel, summary in zip(channels, summaries, strict=True):
            self._summaries[channel] = summary
            self._extents[channel] = Extent.of(summary)
            self._ordered[channel] = OrderStatistics(
                summary.size - summary.nan, summary.median, summary.quantiles
            )

    def _with_quantiles(
        self, summary: Summary, channel: Channel, quantiles: tuple[float, ...]
    ) -> Summary:
        """Return a summary with the requested quantiles."""
        if tuple(summary.quantiles) == quantiles:
            return summary
        known_quantiles = self._order_statistics(channel, quantiles, median=False).quantiles
        return attrs.evolve(summary, quantiles={q: known_quantiles[q] for q in quantiles})


_ZEROS = (0.0,) * 6
"""The metrics of equal arrays."""


def match_within(size: int, peak: float, atol: float, rtol: float) -> Mismatches | None:
    """Return an empty result if the largest of `size` absolute differences proves that no element
    exceeds the tolerance; else None."""
    return _no_mismatches(size) if _limit(atol, rtol, "either").covers(peak) else None


@lru_cache(maxsize=1024)
def _no_mismatches(size: int) -> Mismatches:
    """Return a result without mismatches; it is shared, which makes saved results small."""
    return Mismatches(size, 0, 0, None, None)


_limit = lru_cache(maxsize=256, typed=True)(Limit)
"""Many arrays are held to the same limit."""


def _rows_of(kernel: Kernel, limit: Limit) -> list[MismatchRow]:
    """Return the mismatches of small arrays, whose differences are in a kernel."""
    if limit.covers(kernel.peak):
        return []
    with np.errstate(all="ignore"):
        return [MismatchFinder(limit, Scratch(kernel.absolute.size))(kernel)]
