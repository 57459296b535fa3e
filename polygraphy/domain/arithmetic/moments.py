"""Statistics of blocks from one pass, and how blocks are combined.

Variances keep their digits however large the mean is: within a block the two-pass formula is used
where the fast one would lose more than 4 bits, and blocks are put together as Chan, Golub and
LeVeque do ("Algorithms for computing the sample variance", 1983).

Sums of many float64 numbers that keep their digits.

A plain running sum of n numbers is off by up to n units in the last place. Here a block is summed
pairwise, or in short rows, and blocks are summed without any rounding but the last; so that 10^8
numbers lose a few units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from polygraphy.domain.arithmetic.passes.blocks import Array, Floats, Reals, convert

ROW = 1 << 12
"""Elements of an inner product that are left to BLAS at a time.

No BLAS starts threads of its own for so few, which would be more than were asked for, and the
rounding of a row does not depend on the number of processors.
"""


def block_mean(block: Floats, scratch: Floats) -> float:
    """Return the mean of a block, shape ``(n,)``, n > 0.
    `scratch` has the same shape, or is the block.
    """
    mean = float(np.add.reduce(block)) / block.size
    if math.isfinite(mean):
        return mean
    # The sum is beyond float64, although the mean cannot be.
    return float(np.add.reduce(np.multiply(block, 1 / block.size, out=scratch)))


def inner_product(a: Floats, b: Floats) -> float:
    """Return the inner product of two blocks, shape ``(n,)``."""
    whole_length = a.size - a.size % ROW
    if not whole_length:
        return float(np.dot(a, b))
    rows = np.matmul(a[:whole_length].reshape(-1, 1, ROW), b[:whole_length].reshape(-1, ROW, 1))
    return float(np.add.reduce(rows, axis=None)) + float(np.dot(a[whole_length:], b[whole_length:]))


def average(means: Sequence[tuple[float, int]]) -> float:
    """Return the mean of all values, from the mean and the number of values of each part.
    The result is 0 if there are no values.
    """
    count = sum(part for _, part in means)
    if not count:
        return 0.0
    mean = exact_sum(mean * part for mean, part in means) / count
    return mean if math.isfinite(mean) else exact_sum(mean * (part / count) for mean, part in means)


def exact_sum(values: Iterable[float]) -> float:
    """Return `math.fsum`, but with IEEE results where that raises:
    infinity on overflow, NaN for inf - inf.
    """
    listed = list(values)
    try:
        return math.fsum(listed)
    except (OverflowError, ValueError):
        return sum(listed)


class Row(NamedTuple):
    """The statistics of one block.

    `finite` elements have the `mean`, the sum of squared deviations `squares`, and the mean
    absolute value `magnitude`. `low` and `high` are the extremes of what is not NaN, infinities
    included (NaN if there is nothing else). The rest are counts.
    """

    finite: int
    mean: float
    squares: float
    magnitude: float
    low: float
    high: float
    nan: int
    posinf: int
    neginf: int
    zeros: int


def describe(block: Reals, low: float, high: float, room: Floats, spare: Floats) -> Row:
    """Return the statistics of one block.

    Parameters:
        block: shape ``(n,)``, n > 0.
        low, high: the extremes of the block, at least one of them NaN if an element is. So these
            two numbers say if all elements are finite.
        room, spare: scratch memory, at least n elements each.
    """
    low, high = low + 0.0, high + 0.0  # Removes the sign of a zero, which is arbitrary.
    if math.isfinite(low) and math.isfinite(high):
        return _describe_finite(block, low, high, room, spare)
    finite = block.compress(np.isfinite(block))
    row = _EMPTY
    if finite.size:
        bounds = float(np.minimum.reduce(finite)) + 0.0, float(np.maximum.reduce(finite)) + 0.0
        row = _describe_finite(finite, *bounds, room, spare)
    nan = int(np.count_nonzero(np.isnan(block)))
    infinite = block.size - nan - finite.size
    if not infinite:
        return row._replace(nan=nan)
    posinf = int(np.count_nonzero(np.equal(block, np.inf)))
    neginf = infinite - posinf
    low, high = (row.low, row.high) if finite.size else (math.inf, -math.inf)
    return row._replace(
        low=-math.inf if neginf else low,
        high=math.inf if posinf else high,
        nan=nan,
        posinf=posinf,
        neginf=neginf,
    )


_EMPTY = Row(0, 0.0, 0.0, 0.0, math.nan, math.nan, 0, 0, 0, 0)


def _describe_finite(block: Reals, low: float, high: float, room: Floats, spare: Floats) -> Row:
    """Return the statistics of a block of finite values."""
    spare = spare[: block.size]
    values: Array = block if block.dtype == np.float64 else convert(block, room)
    mean = block_mean(values, spare)
    one_sign = low >= 0 or high <= 0
    magnitude = abs(mean) if one_sign else block_mean(np.abs(values, out=spare), spare)
    zeros = 0
    if low <= 0 <= high:
        zeros = int(np.count_nonzero(np.equal(block, 0)))
    squares = _sum_of_squares(values, mean, spare)
    return Row(block.size, mean, squares, magnitude, low, high, 0, 0, 0, zeros)


def _sum_of_squares(values: Floats, mean: float, spare: Floats) -> float:
    """Return the sum of squared deviations from the mean."""
    total = inner_product(values, values)
    squares = total - values.size * mean * mean
    # Unless the mean is far larger than the spread, few digits cancel in that difference.
    if squares > total / 16:
        return squares
    deviations = np.subtract(values, mean, out=spare)
    return inner_product(deviations, deviations)


def describe_wide(block: Array, origin: int, floats: Floats, scratch: Floats) -> Row:
    """Return the statistics of a block of int64 or uint64, whose values float64 may not represent.

    The extremes are exact Python integers. Deviations are formed in integers before they are
    rounded, from the smallest element of the block: unsigned subtraction cannot wrap there. The
    mean of the row is relative to `origin`, so that it keeps its digits too.

    Parameters:
        block: shape ``(n,)``, n > 0, native byte order.
        floats: the block rounded to float64; at least n elements.
        scratch: at least n elements.
    """
    low, high = int(np.minimum.reduce(block)), int(np.maximum.reduce(block))
    least = np.array(low, block.dtype).view(np.uint64)
    above = scratch[: block.size]
    np.copyto(above, block.view(np.uint64) - least, casting="unsafe")
    mean = block_mean(above, above)
    above -= mean
    squares = inner_product(above, above)
    magnitude = block_mean(np.abs(floats[: block.size], out=above), above)
    zeros = int(np.count_nonzero(np.equal(block, 0))) if low <= 0 <= high else 0
    return Row(block.size, (low - origin) + mean, squares, magnitude, low, high, 0, 0, 0, zeros)


def combine_rows(rows: Sequence[Row]) -> Row:
    """Return the statistics of several blocks as one, from at least one row.

    A sum or a square that exceeds float64 gives an infinite result.
    """
    if len(rows) == 1:
        return rows[0]
    count = sum(row.finite for row in rows)
    mean = average([(row.mean, row.finite) for row in rows])
    within = exact_sum(row.squares for row in rows)
    between = exact_sum(row.finite * _square(row.mean - mean) for row in rows if row.finite)
    return Row(
        finite=count,
        mean=mean,
        squares=within + between,
        magnitude=average([(row.magnitude, row.finite) for row in rows]),
        low=min((row.low for row in rows if not math.isnan(row.low)), default=math.nan),
        high=max((row.high for row in rows if not math.isnan(row.high)), default=math.nan),
        nan=sum(row.nan for row in rows),
        posinf=sum(row.posinf for row in rows),
        neginf=sum(row.neginf for row in rows),
        zeros=sum(row.zeros for row in rows),
    )


def _square(value: float) -> float:
    # `value ** 2` raises OverflowError where the product is infinite.
    """Return the square of a value."""
    return value * value
