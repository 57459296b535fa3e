"""The pass that a verdict needs: mismatches, and the largest and the mean differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np

from polygraphy.domain.arithmetic.mismatches import Limit, MismatchFinder, MismatchRow
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.kernels import Kernel
from polygraphy.domain.arithmetic.passes.pair import Channel, DifferenceReader, Pair
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.sums import average, block_mean
from polygraphy.domain.arithmetic.passes.widen import Floats
from polygraphy.domain.arithmetic.summary import Summary, Watch


class Extent(NamedTuple):
    """How far differences go: of one block, or of all."""

    nan: int
    """Differences that are NaN."""
    infinite: int
    """Differences that are infinite."""
    peak: float
    """The largest that is not NaN; 0 if there is none."""
    finite: int
    """Differences that are finite."""
    average: float
    """The mean of the finite ones."""

    def max(self) -> float:
        """The largest difference; NaN if any is."""
        return math.nan if self.nan else self.peak

    def mean(self) -> float:
        """The mean difference; NaN if any is, 0 if there are none."""
        if self.nan:
            return math.nan
        return math.inf if self.infinite else self.average

    @staticmethod
    def of(summary: Summary) -> Extent:
        """The extent that a summary tells."""
        finite = summary.size - summary.nan - summary.posinf
        if not finite:
            return Extent(summary.nan, summary.posinf, math.inf if summary.posinf else 0.0, 0, 0.0)
        return Extent(summary.nan, summary.posinf, summary.max, finite, summary.mean)


class Survey(NamedTuple):
    """What a pass found: an extent for each channel asked for, and rows of mismatches."""

    extents: dict[Channel, Extent]
    rows: list[MismatchRow]


def survey(
    pair: Pair, channels: Collection[Channel], limit: Limit | None = None, threads: int = 1
) -> Survey:
    """Survey the differences of a pair in one pass.

    Without a limit no mismatches are looked for, and `rows` is empty.
    """
    whole = pair.whole()
    if whole is not None and limit is None:  # Preparing a pass would take longer than it does.
        with np.errstate(all="ignore"):
            spare = np.empty(pair.size)
            return Survey({channel: _measure(whole, channel, spare) for channel in channels}, [])

    def make(scratch: Scratch) -> Callable[[int, int], tuple[list[Extent], MismatchRow | None]]:
        load = pair.loader(scratch)
        spare = scratch.floats()
        finder = MismatchFinder(limit, scratch) if limit else None

        def visit(start: int, stop: int) -> tuple[list[Extent], MismatchRow | None]:
            kernel = load(start, stop)
            extents = [_measure(kernel, channel, spare) for channel in channels]
            return extents, finder(kernel) if finder else None

        return visit

    visited = blocks.scan(pair.size, make, threads) if pair.size else []
    return Survey(
        {
            channel: _merge(extents[i] for extents, _ in visited)
            for i, channel in enumerate(channels)
        },
        [row for _, row in visited if row is not None],
    )


def watch_mismatches(limit: Limit, rows: dict[int, MismatchRow]) -> Watch[DifferenceReader]:
    """Look for mismatches in another pass over differences; `rows` is filled by block start."""

    def watch(reader: DifferenceReader, scratch: Scratch) -> Callable[[int], None]:
        find = MismatchFinder(limit, scratch)

        def look(start: int) -> None:
            rows[start] = find(reader.kernel)

        return look

    return watch


def _measure(kernel: Kernel, channel: Channel, spare: Floats) -> Extent:
    spare = spare[: kernel.absolute.size]
    if channel == "absolute":
        return _extent(kernel.absolute, kernel.peak, spare)
    relative = kernel.relative()
    return _extent(relative, kernel.relative_peak, spare)


def extent_of(vector: Floats) -> Extent:
    """How far the differences of a vector go, shape ``(n,)``, n > 0."""
    return _extent(vector, float(np.maximum.reduce(vector)), np.empty(vector.size))


def _extent(block: Floats, peak: float, spare: Floats) -> Extent:
    if math.isfinite(peak):
        return Extent(0, 0, peak, block.size, block_mean(block, spare))
    nan = int(np.count_nonzero(np.isnan(block))) if math.isnan(peak) else 0
    finite = block.compress(np.isfinite(block))
    infinite = block.size - nan - finite.size
    largest = math.inf if infinite else float(np.maximum.reduce(finite, initial=0.0))
    mean = block_mean(finite, finite) if finite.size else 0.0
    return Extent(nan, infinite, largest, finite.size, mean)


def _merge(extents: Iterable[Extent]) -> Extent:
    listed = list(extents)
    if len(listed) == 1:
        return listed[0]
    return Extent(
        sum(extent.nan for extent in listed),
        sum(extent.infinite for extent in listed),
        max((extent.peak for extent in listed), default=0.0),
        sum(extent.finite for extent in listed),
        average([(extent.average, extent.finite) for extent in listed]),
    )
