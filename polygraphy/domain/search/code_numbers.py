"""The scale or zero point with which a computation gives expected codes, found by bisection: each
code only grows, or only shrinks, with such a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

Compute = Callable[[Any], Any]
"""Returns the result for a number, or for one number by channel; None if there is none."""

_FACTORS = tuple(4.0**step for step in range(-6, 7))
"""Factors of a scale that are tried first."""
_HALVINGS = 26
"""Halvings after which the ends of an interval of scales are known to the digits of float32."""
_ENOUGH = 4
"""Elements of a channel that prove its own number. Chosen, not measured."""
_FEW = 0.03
"""Share of codes that may be one step apart, as on hardware that rounds sums differently."""
_TOLERANCE = 1e-4
"""Difference of a result in floating point that rounding explains, as a share of its RMS."""
MOST_RUNS = len(_FACTORS) + 2 * _HALVINGS + 5
"""Results that one search computes."""


@frozen
class Solution:
    """The numbers with which a computation gives the expected codes.

    Attributes:
        low: the smallest ones.
        high: the largest ones.
        start: the number before the change; these three have the same shape.
        is_exact: whether all codes are as expected; otherwise a few are one step apart.
    """

    low: Any
    high: Any
    start: Any
    is_exact: bool = True

    @property
    def number(self) -> Any:
        """Return one solution, with few digits; elements that need no change keep their value."""
        array = np.array(self.start)
        for at in np.flatnonzero(self.changed):
            array.flat[at] = shortest_between(self.low.flat[at], self.high.flat[at])
        return array

    @property
    def changed(self) -> Any:
        """Return which elements must change."""
        start = np.asarray(self.start, np.float64)
        return ~((self.low <= start) & (start <= self.high))

    def allows(self, number: Any) -> bool:
        """Return whether a number is a solution."""
        value = np.asarray(number, np.float64)
        if value.size not in (1, np.size(self.low)):
            return False
        value = value.reshape(-1)
        return bool(np.all((self.low.reshape(-1) <= value) & (value <= self.high.reshape(-1))))

    def intersect(self, other: Solution) -> Solution | None:
        """Return the solutions that are also those of another computation;
        None if there are none."""
        if np.shape(self.low) != np.shape(other.low):
            return None
        low, high = np.maximum(self.low, other.low), np.minimum(self.high, other.high)
        is_exact = self.is_exact and other.is_exact
        return Solution(low, high, self.start, is_exact) if np.all(low <= high) else None


def shortest_between(low: float, high: float) -> float:
    """Return the number with the fewest decimal digits between two numbers."""
    middle = float(np.sqrt(low * high)) if low > 0 else (low + high) / 2
    for digits in range(1, 9):
        number = float(f"{middle:.{digits}g}")
        if low <= number <= high:
            return number
    return middle


def solve_scale(compute: Compute, start: Any, goal: Any, axis: int | None) -> Solution | None:
    """Return the scales with which a computation gives the goal; None if there are none.

    Args:
        compute: returns the result for a scale in the shape of `start`.
        start: the scale before the change.
        goal: the expected result.
        axis: the axis of the result along which each channel has its own scale; None for one.
    """
    first = np.asarray(start, np.float64)
    first = np.where(np.isfinite(first) & (first != 0), np.abs(first), 0.01)
    search = _Search(compute, np.asarray(start), np.asarray(goal), axis)
    grid = [first * factor for factor in _FACTORS]
    results = [result for number in grid if (result := search.result(number)) is not None]
    if len(results) < len(grid):
        return None
    wanted = search.wanted
    errors = np.stack([np.square(result - wanted).mean(axis=1) for result in results])
    best = np.argmin(errors, axis=0)
    ends = [np.clip(best + side, 0, len(grid) - 1) for side in (-1, 1)]
    channels = np.arange(len(wanted))
    low, high = (np.stack([g.reshape(-1) for g in grid])[end, channels] for end in ends)
    at_ends = [np.stack(results)[end, channels] for end in ends]
    signs = np.sign(at_ends[1] - at_ends[0])

    def middle(left: Any, right: Any) -> Any:
        """Return the geometric mean."""
        return np.sqrt(left * right)

    return search.solve(low, high, signs, middle, _HALVINGS)


def solve_zero_point(compute: Compute, start: Any, goal: Any, axis: int | None) -> Solution | None:
    """Return the zero points with which a computation gives the goal; None if there are none;
    see `solve_scale`."""
    search = _Search(compute, np.asarray(start), np.asarray(goal), axis)
    limits = _limits_of(np.asarray(start).dtype)
    if limits is None:
        return None
    count = len(search.wanted)
    low, high = (np.full(count, end, np.float64) for end in (limits.min, limits.max))
    at_low, at_high = search.result(low), search.result(high)
    if at_low is None or at_high is None:
        return None
    signs = np.sign(at_high - at_low)

    def middle(left: Any, right: Any) -> Any:
        """Return the mean, rounded down."""
        return np.floor((left + right) / 2)

    # The middle of two integers is the smaller one, so that the upper end is one more than the
    # largest.
    return search.solve(low, high + 1, signs, middle, limits.bits + 1)


def _limits_of(dtype: np.dtype[Any]) -> Any | None:
    """Return the limits of an integer type, also of four bits; None for other types."""
    if dtype.kind in "iu":
        return np.iinfo(dtype)
    if "int" not in dtype.name:
        return None
    return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]


@frozen
class _Search:
    """A computation whose results for other numbers are compared with a goal, by channel."""

    compute: Compute
    start: Any
    goal: Any
    axis: int | None

    @property
    def wanted(self) -> Any:
        """Return the goal, by channel."""
        return self._by_channel(self.goal)

    def result(self, number: Any) -> Any | None:
        """Return the result for a number, by channel; None if there is none to compare."""
        shaped = np.asarray(number, np.float64).reshape(self.start.shape)
        if (limits := _limits_of(self.start.dtype)) is not None:
            shaped = np.clip(shaped, limits.min, limits.max)
        shaped = shaped.astype(self.start.dtype)
        result = self.compute(shaped)
        if result is None or np.shape(result) != self.goal.shape:
            return None
        values = self._by_channel(np.asarray(result))
        return values if np.isfinite(values).all() else None

    def _by_channel(self, array: Any) -> Any:
        """Return an array in float64 with a row for each number."""
        values = np.asarray(array).astype(np.float64)
        if self.axis is None or self.start.size == 1:
            return values.reshape(1, -1)
        return np.moveaxis(values, self.axis, 0).reshape(values.shape[self.axis], -1)

    def solve(self, low: Any, high: Any, signs: Any, middle: Any, halvings: int) -> Solution | None:
        """Return the interval of numbers that give the goal, between two numbers;
        None if there are none.

        Args:
            low: the smallest numbers, by channel.
            high: the largest ones.
            signs: whether an element of the result grows (1) or shrinks (-1) with the number.
            middle: returns the numbers between two.
            halvings: how often intervals are halved.
        """
        wanted = self.wanted
        edges = []
        for is_upper in (False, True):
            left, right = low.copy(), high.copy()
            for _ in range(halvings):
                between = middle(left, right)
                result = self.result(between)
                if result is None:
                    return None
                distance = (signs * (result - wanted)).sum(axis=1)
                is_left = distance <= 0 if is_upper else distance < 0
                left, right = np.where(is_left, between, left), np.where(is_left, right, between)
            edges.append((left, right))
        # Inside: the right end of the lower edge, and the left end of the upper one.
        lower, upper = edges[0][1], edges[1][0]
        solution = self._check(np.minimum(lower, upper), np.maximum(lower, upper))
        return None if solution is None else self._check_evidence(solution, signs)

    def _differences(self, result: Any) -> Any:
        """Return the number of elements of each channel that are not as expected;
        infinity if one is more than a step apart."""
        wanted = self.wanted
        apart = np.abs(result - wanted)
        if self.goal.dtype.kind not in "iu":
            size = float(np.sqrt(np.mean(np.square(wanted)))) or 1.0
            return np.where(apart.max(axis=1) <= _TOLERANCE * size, 0.0, np.inf)
        counts = (apart > 0).sum(axis=1).astype(np.float64)
        return np.where(apart.max(axis=1) <= 1, counts, np.inf)

    def _check(self, lower: Any, upper: Any) -> Solution | None:
        """Return the numbers that give the goal, of an interval; None if they do not."""
        shape, start = self.start.shape, np.asarray(self.start)
        solution = Solution(lower.reshape(shape), upper.reshape(shape), start)
        result = self.result(solution.number)
        if result is None:
            return None
        differing = self._differences(result)
        most = _FEW * result.shape[1] if self.goal.dtype.kind in "iu" else 0
        if not np.all(differing <= most):
            return None
        return Solution(solution.low, solution.high, start, bool(np.all(differing == 0)))

    def _check_evidence(self, solution: Solution, signs: Any) -> Solution | None:
        """Return a solution whose numbers enough elements prove; None if there are too few:
        a number of its own for each element explains everything."""
        changed = np.flatnonzero(solution.changed)
        if not changed.size:
            return None
        if len(changed) > 1:
            start = np.asarray(solution.start, np.float64).reshape(-1)[changed]
            number = np.asarray(solution.number, np.float64).reshape(-1)[changed]
            is_common = start.all() and np.allclose(number / start, number[0] / start[0], rtol=0.01)
            if not is_common and np.count_nonzero(signs[changed], axis=1).min() < _ENOUGH:
                return None
        return solution
