"""Statistics of small arrays, several at a time.

For an array of a few elements each call of numpy takes longer than its arithmetic. So small arrays
are put below each other as the rows of a matrix, and each statistic of all of them is one call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.passes.interpolation import between, middle, split
from polygraphy.domain.arithmetic.passes.widen import Floats

LONGEST = 1 << 12
"""Most elements of a row: with more of them, arithmetic takes longer than calls."""


class RowStatistics(NamedTuple):
    """The statistics of one row, which mean what they mean in `Summary`; places are positions."""

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
    """Describe each row of a matrix, shape ``(k, n)``, n > 0.

    None if an element is not finite, or a sum or a square is beyond float64: that needs more care.
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
        RowStatistics(*found)
        for found in zip(
            # Adding 0 takes the sign from a zero, which is left to chance.
            [low + 0.0 for low in lows],
            [high + 0.0 for high in highs],
            rows.argmin(axis=1).tolist(),
            rows.argmax(axis=1).tolist(),
            mean,
            variance,
            magnitude,
            zeros,
            [middle(row[2], row[3]) for row in picked],
            [
                {
                    quantile: between(low, high, weight)
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
    """Return the ranks of the extremes, of the elements beside the median, and of those beside each
    quantile; and how far each quantile is from the first of its two.
    """
    places = [split(size, probability) for probability in quantiles]
    ranks = [0, size - 1, (size - 1) // 2, size // 2]
    for rank, _ in places:
        ranks += [rank, min(rank + 1, size - 1)]
    return np.array(ranks, np.intp), tuple(weight for _, weight in places)
