"""Medians and quantiles of sorted elements, of which only a few have to be known."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable


def median_of(element: Callable[[int], float], valid: int) -> float:
    """The median of `valid` sorted elements, the mean of the two middle ones if that is even.

    `element` gives the element of a rank, from 0. NaN if there is none.
    """
    if not valid:
        return math.nan
    return middle(element((valid - 1) // 2), element(valid // 2))


def middle(low: float, high: float) -> float:
    """The mean of two elements."""
    # Adding 0 takes the sign from a zero: which of two equal zeros is met first is left to chance.
    low, high = low + 0.0, high + 0.0
    if low == high:
        return low
    mean = (low + high) / 2
    # The sum of two huge values may overflow; that of their halves cannot.
    return mean if math.isfinite(mean) else low / 2 + high / 2


def quantile_of(element: Callable[[int], float], valid: int, probability: float) -> float:
    """The quantile of `valid` sorted elements, interpolated as numpy's method "linear" does.

    The result equals ``np.quantile`` to the last bit as long as the elements on both sides are
    finite, and so is their distance. If not, numpy answers NaN; here a quantile that falls on an
    element is that element, and one between a finite and an infinite element is infinite.
    """
    if not valid:
        return math.nan
    rank, weight = split(valid, probability)
    low = element(rank)
    return between(low, element(rank + 1) if weight else low, weight)


def between(low: float, high: float, weight: float) -> float:
    """What lies between two elements, `weight` of the way from the first to the second."""
    low += 0.0
    if not weight or low == high:
        return low
    step = high - low
    if math.isinf(step):
        return low * (1 - weight) + high * weight
    return low + step * weight if weight < 0.5 else high - step * (1 - weight)


def ranks_beside(valid: int, probabilities: Iterable[float]) -> list[int]:
    """The ranks, ascending, whose elements the quantiles need (and for 0.5, the median)."""
    if not valid:
        return []
    ranks = [split(valid, probability)[0] for probability in probabilities]
    return sorted({*ranks, *(min(rank + 1, valid - 1) for rank in ranks)})


@functools.lru_cache(maxsize=1024)
def split(valid: int, probability: float) -> tuple[int, float]:
    """The rank below a quantile, of `valid` elements, and how far it is from there to the next."""
    virtual = (valid - 1) * probability
    rank = min(math.floor(virtual), valid - 1)
    return rank, virtual - rank
