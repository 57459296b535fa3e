"""The differences of many small arrays, formed together: the same to the last bit, in a fraction of
the time that one array after another takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from polygraphy.domain.arithmetic.passes.blocks import Floats
from polygraphy.domain.arithmetic.passes.selection import row_medians
from polygraphy.domain.arithmetic.passes.streams import KEPT, Channel, Kernel, kernel_for
from polygraphy.domain.arithmetic.passes.survey import Extent
from polygraphy.domain.tensors.aliases import Array

FEWEST = 4
"""Arrays of one shape and type from which on a group is faster than one after another."""
LONE = 256
"""Elements above which even a group of one is faster: 512 elements take half of the time, 200 take
more."""
MOST = 1 << 18
"""Elements of a group: its four matrices take 8 MiB."""

_ZEROS = (0.0,) * 6
"""The metrics of equal arrays."""


class FormedKernel(Kernel):
    """The differences of a small pair, whose vectors are rows of matrices."""

    def __init__(
        self, absolute: Floats, scale: Floats, relative: Floats, peaks: tuple[float, float]
    ) -> None:
        """Set the values that `load` and `relative` would compute for the whole pair."""
        self.start, self.stop = 0, absolute.size
        self.absolute, self.scale, self._relative = absolute, scale, relative
        self.peak, self.relative_peak = peaks


class FormedGroup:
    """The differences of several small pairs of one shape and type: a row of each matrix for one.

    Rows whose differences are not all finite are not among `formed_rows`.
    """

    def __init__(self, values: Array, references: Array) -> None:
        """Compute the differences of two matrices."""
        self.size = values.shape[1]
        self._rows: list[tuple[float, ...]] | None = None
        self._is_equal = bool(np.array_equal(values, references) and np.isfinite(values).all())
        self._references = references
        count = len(values)
        self._peaks = self._totals = self._relative_peaks = self._relative_totals = [0.0] * count
        if self._is_equal:
            return
        absolute = values.astype(np.float64, copy=False)
        scale = references.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            absolute = np.abs(np.subtract(absolute, scale))
            scale = np.abs(scale)
            relative = np.divide(absolute, scale)
            # Replaces NaN of 0 / 0 by 0. If values are NaN, the peaks show that.
            np.fmax(relative, 0.0, out=relative)
            self._peaks, self._totals, self._relative_peaks, self._relative_totals = (
                row.tolist()
                for matrix in (absolute, relative)
                for row in (np.maximum.reduce(matrix, axis=1), np.add.reduce(matrix, axis=1))
            )
        self._absolute, self._scale, self._relative = absolute, scale, relative

    def is_formed(self, row: int) -> bool:
        """Return whether all absolute differences of a row are finite."""
        return math.isfinite(self._peaks[row])

    def peak(self, row: int) -> float:
        """Return the largest absolute difference of a row."""
        return self._peaks[row]

    def kernel(self, row: int) -> FormedKernel:
        """Return the kernel of a row."""
        if self._is_equal:
            scale, zeros = np.abs(self._references[row].astype(np.float64)), np.zeros(self.size)
            return FormedKernel(zeros, scale, zeros, (0.0, 0.0))
        peaks = self._peaks[row], self._relative_peaks[row]
        relative = self._relative if peaks[0] != 0 else self._absolute
        return FormedKernel(self._absolute[row], self._scale[row], relative[row], peaks)

    def extents(self, row: int) -> dict[Channel, Extent]:
        """Return the extents of a row that are known."""
        size = self.size
        if self._peaks[row] == 0:
            zero = Extent(0, 0, 0.0, size, 0.0)
            return {"absolute": zero, "relative": zero}
        extents: dict[Channel, Extent] = {}
        total, relative_total = self._totals[row], self._relative_totals[row]
        if math.isfinite(total):
            extents["absolute"] = Extent(0, 0, self._peaks[row], size, total / size)
        if math.isfinite(relative_total):
            peak = self._relative_peaks[row]
            extents["relative"] = Extent(0, 0, peak, size, relative_total / size)
        return extents

    def metrics(self, row: int) -> tuple[float, ...] | None:
        """Return the largest, mean and median absolute and relative differences of a row, in this
        order; None if a sum is not finite. The medians of all rows are computed at the first call.
        """
        if self._peaks[row] == 0:
            return _ZEROS
        if not (math.isfinite(self._totals[row]) and math.isfinite(self._relative_totals[row])):
            return None
        if self._rows is None:
            size = float(self.size)
            self._rows = [
                (*peaks, *(total / size for total in totals), *medians)
                for peaks, totals, medians in zip(
                    zip(self._peaks, self._relative_peaks),
                    zip(self._totals, self._relative_totals),
                    zip(row_medians(self._absolute), row_medians(self._relative)),
                )
            ]
        return self._rows[row]


FormedRow: TypeAlias = tuple[FormedGroup, int]
"""The differences of several pairs, and the row of one."""


def form_together(pairs: Sequence[tuple[Array, Array]]) -> list[FormedRow | None]:
    """Return the differences of pairs of small arrays, formed in groups of one shape and type:
    by pair its group and its row there. None for pairs with NaN or infinite differences, and small
    groups.
    """
    rows: list[FormedRow | None] = [None] * len(pairs)
    groups: dict[object, list[int]] = {}
    for number, (value, reference) in enumerate(pairs):
        if 0 < value.size <= KEPT:
            groups.setdefault((value.shape, value.dtype, reference.dtype), []).append(number)
    for group in groups.values():
        value, reference = pairs[group[0]]
        fewest = 1 if value.size > LONE else FEWEST
        if len(group) < fewest or kernel_for(value.dtype, reference.dtype) is not Kernel:
            continue
        most = max(1, MOST // value.size)
        for start in range(0, len(group), most):
            part = group[start : start + most]
            if len(part) < fewest:
                continue
            sides = (_matrix([pairs[number][side] for number in part]) for side in (0, 1))
            formed = FormedGroup(*sides)
            for row, number in enumerate(part):
                if formed.is_formed(row):
                    rows[number] = formed, row
    return rows


def _matrix(arrays: Sequence[Array]) -> Array:
    """Return a matrix with a row for each of several arrays of one shape and type."""
    joined = np.concatenate(arrays) if arrays[0].ndim else np.array(arrays)
    return joined.reshape(len(arrays), -1)
