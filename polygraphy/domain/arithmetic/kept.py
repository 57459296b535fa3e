"""The differences of small arrays, kept without the arrays: most of their statistics are never
read, and those of many iterations are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from polygraphy.domain.arithmetic.ordering import sort_channel
from polygraphy.domain.arithmetic.passes.interpolation import middle
from polygraphy.domain.arithmetic.passes.survey import extent_of
from polygraphy.domain.arithmetic.passes.widen import Floats

MOST_KEPT = 256
"""Most elements whose differences are kept: two vectors of 2 KiB."""


class KeptDifferences:
    """The absolute and the relative differences of two arrays that are gone.

    The metrics are those of `Difference`, to the last bit.
    """

    __slots__ = ("_medians", "absolute", "relative")

    def __init__(self, absolute: Floats, relative: Floats) -> None:
        """Keep two vectors of one length, n > 0, which do not change."""
        self.absolute = absolute
        self.relative = relative
        self._medians: tuple[float, float] | None = None

    def mean_abs(self) -> float:
        """The mean absolute difference."""
        return _mean(self.absolute)

    def mean_rel(self) -> float:
        """The mean relative difference."""
        return _mean(self.relative)

    def median_abs(self) -> float:
        """The median absolute difference."""
        return _median(self.absolute) if self._medians is None else self._medians[0]

    def median_rel(self) -> float:
        """The median relative difference."""
        return _median(self.relative) if self._medians is None else self._medians[1]

    @staticmethod
    def find_medians(many: Iterable[KeptDifferences]) -> None:
        """Find the medians of many at once, so that each is there when it is asked for."""
        by_size: dict[int, list[KeptDifferences]] = {}
        for each in many:
            by_size.setdefault(each.absolute.size, []).append(each)
        for size, alike in by_size.items():
            rows = np.array([vector for each in alike for vector in (each.absolute, each.relative)])
            rows.sort(axis=1)  # NaN last.
            medians = [
                middle(low, high) if not math.isnan(last) else math.nan
                for low, high, last in rows[:, [(size - 1) // 2, size // 2, -1]].tolist()
            ]
            for each, *found in zip(alike, medians[::2], medians[1::2]):
                each._medians = found[0], found[1]


def _mean(vector: Floats) -> float:
    with np.errstate(all="ignore"):
        return extent_of(vector).mean()


def _median(vector: Floats) -> float:
    found = sort_channel(vector, (), np.empty(vector.size))
    return found.median if found.valid == vector.size else math.nan
