"""The pass that a verdict needs: mismatches, and the largest and the mean differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.moments import average, block_mean
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import Floats, Mask, Scratch
from polygraphy.domain.arithmetic.passes.streams import Channel, DifferenceReader, Kernel, Pair
from polygraphy.domain.arithmetic.summary import Summary, Watch

Formula: TypeAlias = Literal["either", "sum"]


@frozen
class Limit:
    """The largest allowed difference of each element.

    ``either``: an element mismatches if its absolute difference exceeds `atol` and its relative
    difference exceeds `rtol`; so one satisfied tolerance is enough. ``sum``: it mismatches if
    ``|a - b| > atol + rtol * |b|``, as in `numpy.isclose`. A NaN difference always mismatches, an
    infinite one unless a tolerance is infinite too.

    Raises:
        ValueError: for a tolerance that is negative or NaN, or another formula.
    """

    atol: float
    rtol: float
    formula: Formula = "either"

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for a negative tolerance or NaN."""
        for name, tolerance in (("atol", self.atol), ("rtol", self.rtol)):
            if not tolerance >= 0:
                raise ValueError(f"{name} must be a number of at least 0, not {tolerance!r}")
        if self.formula not in ("either", "sum"):
            raise ValueError(f"formula must be 'either' or 'sum', not {self.formula!r}")

    def covers(self, absolute: float) -> bool:
        """Return whether elements with at most this difference are close for any reference.

        `absolute` may be an exact difference rounded to float64. Rounding keeps the order, but may
        make a difference equal to a tolerance that it exceeds; that case is left open. False for
        NaN.
        """
        return absolute < float(self.atol) or absolute == 0


class MismatchRow(NamedTuple):
    """The mismatches of one block: their number, and the positions of the first and the worst.

    `first` and `worst` are C-order positions; the worst one exceeds its tolerance by `excess`.
    They are -1 and minus infinity if there is none, or if no such element can be the worst of all.
    """

    far: int
    first: int
    excess: float
    worst: int


_NONE = MismatchRow(0, -1, -math.inf, -1)


class MismatchFinder:
    """Finds the mismatches of the blocks that a kernel has loaded; used by one thread."""

    def __init__(self, limit: Limit, scratch: Scratch) -> None:
        """Create a finder for a limit, which works in `scratch`."""
        self._limit = limit
        self._atol, self._rtol = float(limit.atol), float(limit.rtol)
        self._scratch = scratch
        self._close = scratch.mask()
        self._mask = scratch.mask()
        self._allowed: Floats | None = None
        self._worst = -math.inf

    def __call__(self, kernel: Kernel) -> MismatchRow:
        """Return the mismatches of one block. Blocks must come in ascending order."""
        if self._limit.covers(kernel.peak):
            return _NONE
        size = kernel.absolute.size
        close = self._close[:size]
        if self._limit.formula == "sum":
            np.less_equal(kernel.absolute, self._tolerances(kernel), out=close)
        else:
            relative = kernel.relative()
            if kernel.relative_peak <= self._rtol:
                return _NONE
            kernel.mask_within(self._limit.atol, close)
            np.logical_or(
                close,
                np.less_equal(relative, self._rtol, out=self._mask[:size]),
                out=close,
            )
        count = size - int(np.count_nonzero(close))
        if not count:
            return _NONE
        return self._find_worst(kernel, close, count)

    def _find_worst(self, kernel: Kernel, close: Mask, count: int) -> MismatchRow:
        """Return the mismatches of a block, with the first and the worst."""
        first = kernel.start + int(close.argmin())
        # No tolerance is below `atol`, so few blocks can hold a new worst element.
        if self._worst == math.inf or kernel.peak - self._atol <= self._worst:
            return MismatchRow(count, first, -math.inf, -1)
        far = np.logical_not(close, out=self._mask[: close.size])
        excess = kernel.absolute.compress(far) - self._tolerances(kernel).compress(far)
        if not math.isfinite(kernel.peak):
            np.copyto(excess, np.inf, where=np.isnan(excess))
        k = int(excess.argmax())
        self._worst = max(self._worst, float(excess[k]))
        return MismatchRow(
            count, first, float(excess[k]), kernel.start + int(np.flatnonzero(far)[k])
        )

    def _tolerances(self, kernel: Kernel) -> Floats:
        """Return the largest difference that each element may have."""
        if self._allowed is None:
            self._allowed = self._scratch.floats()
        allowed = np.multiply(kernel.scale, self._rtol, out=self._allowed[: kernel.scale.size])
        if self._limit.formula == "sum":
            np.add(allowed, self._atol, out=allowed)
        else:
            np.maximum(allowed, self._atol, out=allowed)
        if not math.isfinite(self._rtol) or not math.isfinite(np.maximum.reduce(kernel.scale)):
            undefined = np.isnan(allowed)
            if self._rtol < math.inf:
                # A relative tolerance of an infinite reference would accept any difference.
                undefined |= np.isinf(kernel.scale)
            np.copyto(allowed, self._atol, where=undefined)
        return allowed


class Extent(NamedTuple):
    """The largest and the mean difference, of one block or of all."""

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
        """Return the largest difference; NaN if any is."""
        return math.nan if self.nan else self.peak

    def mean(self) -> float:
        """Return the mean difference; NaN if any is, 0 if there are none."""
        if self.nan:
            return math.nan
        return math.inf if self.infinite else self.average

    @staticmethod
    def of(summary: Summary) -> Extent:
        """Return the extent of a summarized channel."""
        finite = summary.size - summary.nan - summary.posinf
        if not finite:
            return Extent(summary.nan, summary.posinf, math.inf if summary.posinf else 0.0, 0, 0.0)
        return Extent(summary.nan, summary.posinf, summary.max, finite, summary.mean)


class Survey(NamedTuple):
    """The result of a pass: an extent for each requested channel, and rows of mismatches."""

    extents: dict[Channel, Extent]
    rows: list[MismatchRow]


def survey(
    pair: Pair, channels: Collection[Channel], limit: Limit | None = None, threads: int = 1
) -> Survey:
    """Return the extents of the differences of a pair, and its mismatches, from one pass.

    Without a limit no mismatches are looked for, and `rows` is empty.
    """
    whole_survey = pair.whole_kernel()
    if (
        whole_survey is not None and limit is None
    ):  # Preparing a pass would take longer than the pass.
        with np.errstate(all="ignore"):
            spare = np.empty(pair.size)
            return Survey(
                {channel: _measure_channel(whole_survey, channel, spare) for channel in channels},
                [],
            )

    def make_worker(
        scratch: Scratch,
    ) -> Callable[[int, int], tuple[list[Extent], MismatchRow | None]]:
        """Return a function that measures a block."""
        load = pair.loader(scratch)
        spare = scratch.floats()
        finder = MismatchFinder(limit, scratch) if limit else None

        def visit(start: int, stop: int) -> tuple[list[Extent], MismatchRow | None]:
            """Return the extents of each channel and the mismatches of a block."""
            kernel = load(start, stop)
            extents = [_measure_channel(kernel, channel, spare) for channel in channels]
            return extents, finder(kernel) if finder else None

        return visit

    visited = blocks.scan(pair.size, make_worker, threads) if pair.size else []
    return Survey(
        {
            channel: _merge_extents(extents[i] for extents, _ in visited)
            for i, channel in enumerate(channels)
        },
        [row for _, row in visited if row is not None],
    )


def watch_mismatches(limit: Limit, rows: dict[int, MismatchRow]) -> Watch[DifferenceReader]:
    """Return a watch that finds mismatches in another pass; it fills `rows` by block start."""

    def watch(reader: DifferenceReader, scratch: Scratch) -> Callable[[int], None]:
        """Return a function that finds the mismatches of the block that a reader loaded."""
        find = MismatchFinder(limit, scratch)

        def find_in_block(start: int) -> None:
            """Find the mismatches of the loaded block."""
            rows[start] = find(reader.kernel)

        return find_in_block

    return watch


def _measure_channel(kernel: Kernel, channel: Channel, spare: Floats) -> Extent:
    """Return the extent of a channel in a block."""
    spare = spare[: kernel.absolute.size]
    if channel == "absolute":
        return _extent(kernel.absolute, kernel.peak, spare)
    relative = kernel.relative()
    return _extent(relative, kernel.relative_peak, spare)


def extent_of(vector: Floats) -> Extent:
    """Return the extent of the differences in a vector that is not empty."""
    return _extent(vector, float(np.maximum.reduce(vector)), np.empty(vector.size))


def _extent(block: Floats, peak: float, spare: Floats) -> Extent:
    """Return the extent of differences: the number of NaN and infinite ones, the largest and the
    mean.
    """
    if math.isfinite(peak):
        return Extent(0, 0, peak, block.size, block_mean(block, spare))
    nan = int(np.count_nonzero(np.isnan(block))) if math.isnan(peak) else 0
    finite = block.compress(np.isfinite(block))
    infinite = block.size - nan - finite.size
    largest = math.inf if infinite else float(np.maximum.reduce(finite, initial=0.0))
    mean = block_mean(finite, finite) if finite.size else 0.0
    return Extent(nan, infinite, largest, finite.size, mean)


def _merge_extents(extents: Iterable[Extent]) -> Extent:
    """Return the extent of several blocks together."""
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
