"""Sums of many float64 numbers that keep their digits.

A plain running sum of n numbers is off by up to n units in the last place. Here a block is summed
pairwise, or in short rows, and blocks are summed without any rounding but the last; so that 10^8
numbers lose a few units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from polygraphy.domain.arithmetic.passes.widen import Floats

ROW = 1 << 12
"""Elements of an inner product that are left to BLAS at a time.

No BLAS starts threads of its own for so few, which would be more than were asked for, and the
rounding of a row does not depend on the number of processors.
"""


def block_mean(block: Floats, scratch: Floats) -> float:
    """The mean of a block, shape ``(n,)``, n > 0; `scratch` has the same shape, or is the block."""
    mean = float(np.add.reduce(block)) / block.size
    if math.isfinite(mean):
        return mean
    # The sum is beyond float64, although the mean cannot be.
    return float(np.add.reduce(np.multiply(block, 1 / block.size, out=scratch)))


def inner(a: Floats, b: Floats) -> float:
    """The inner product of two blocks, shape ``(n,)``."""
    whole = a.size - a.size % ROW
    if not whole:
        return float(np.dot(a, b))
    rows = np.matmul(a[:whole].reshape(-1, 1, ROW), b[:whole].reshape(-1, ROW, 1))
    return float(np.add.reduce(rows, axis=None)) + float(np.dot(a[whole:], b[whole:]))


def average(means: Sequence[tuple[float, int]]) -> float:
    """The mean of all values, from the mean and the number of values of each part; 0 of none."""
    count = sum(part for _, part in means)
    if not count:
        return 0.0
    mean = exact_sum(mean * part for mean, part in means) / count
    return mean if math.isfinite(mean) else exact_sum(mean * (part / count) for mean, part in means)


def exact_sum(values: Iterable[float]) -> float:
    """`math.fsum`, but IEEE where that raises: infinity on overflow, NaN for inf - inf."""
    listed = list(values)
    try:
        return math.fsum(listed)
    except (OverflowError, ValueError):
        return sum(listed)
