"""What the arithmetic should answer, computed slowly: one element at a time, with exact numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = [
    "Differences",
    "close",
    "differences",
    "elements",
    "first_extreme",
    "mean",
    "quantile",
    "variance",
]

Number = Any


def elements(array: np.ndarray[Any, Any]) -> list[Number]:
    """The elements in C order as exact Python numbers: int, float, complex, or what else they are.

    A longdouble stays one.
    """
    kind, name = array.dtype.kind, array.dtype.name
    if kind in "biu":
        return [int(x) for x in array.ravel().tolist()]
    if array.dtype.type.__module__ == "ml_dtypes":
        if name.startswith(("int", "uint")):
            return [int(x) for x in array.ravel()]
        return [complex(x) if "complex" in name else float(x) for x in array.ravel()]
    if kind == "f" and array.dtype.itemsize > 8:
        return list(array.ravel())
    return list(array.ravel().tolist())


class Differences:
    """Exact or IEEE differences, element by element, in C order."""

    def __init__(self, exact: list[Number], absolute: list[float], relative: list[float]) -> None:
        self.exact = exact
        self.absolute = absolute
        self.relative = relative

    def mismatches(self, atol: float, rtol: float) -> list[int]:
        """Positions that exceed both tolerances, integers compared as integers."""
        return [
            i
            for i, (exact, relative) in enumerate(zip(self.exact, self.relative, strict=True))
            if not exact <= atol and not relative <= rtol
        ]


def differences(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], infinities_equal: bool = False
) -> Differences:
    """The differences of two arrays by the rules, one pair of elements at a time."""
    exact, absolute, relative = [], [], []
    for x, y in zip(elements(a), elements(b), strict=True):
        d = _distance(x, y, infinities_equal)
        exact.append(d)
        absolute.append(float(d))
        relative.append(_ratio(float(d), 1.0 if isinstance(y, str) else _magnitude(y)))
    return Differences(exact, absolute, relative)


def _distance(x: Number, y: Number, infinities_equal: bool) -> Number:
    if isinstance(x, str) or isinstance(y, str):
        return int(x != y)
    if isinstance(x, int) and isinstance(y, int):
        return abs(x - y)
    if _is_nan(x) or _is_nan(y):
        return math.nan
    if infinities_equal and x == y:
        return 0.0
    if isinstance(x, complex) or isinstance(y, complex):
        return _modulus(complex(x) - complex(y))
    if isinstance(x, np.longdouble) or isinstance(y, np.longdouble):
        return abs(np.longdouble(x) - np.longdouble(y))
    return abs(float(x) - float(y))


def _is_nan(x: Number) -> bool:
    if isinstance(x, complex):
        return math.isnan(x.real) or math.isnan(x.imag)
    return bool(np.isnan(x))


def _modulus(z: complex) -> float:
    if math.isinf(z.real) or math.isinf(z.imag):
        return math.inf
    return float(np.abs(np.complex128(z)))


def _magnitude(y: Number) -> float:
    if isinstance(y, complex):
        return math.nan if _is_nan(y) else _modulus(y)
    return abs(float(y))


def _ratio(d: float, size: float) -> float:
    if math.isnan(d) or math.isnan(size):
        return math.nan
    if d == 0:
        return 0.0
    if math.isinf(d) or size == 0:
        return math.inf
    with np.errstate(all="ignore"):
        return float(np.float64(d) / np.float64(size))


def mean(values: Iterable[Number]) -> Fraction | None:
    """The exact mean of the finite values."""
    finite = [Fraction(x) for x in values if math.isfinite(x)]
    return sum(finite, Fraction(0)) / len(finite) if finite else None


def variance(values: Iterable[Number]) -> Fraction | None:
    """The exact population variance of the finite values."""
    finite = [Fraction(x) for x in values if math.isfinite(x)]
    if not finite:
        return None
    center = sum(finite, Fraction(0)) / len(finite)
    return sum(((x - center) ** 2 for x in finite), Fraction(0)) / len(finite)


def quantile(values: Sequence[float], probability: float) -> float:
    """`np.quantile` of what is not NaN; where numpy runs out of float64, by weights."""
    valid = np.sort(np.array([x for x in values if not math.isnan(x)], np.float64))
    if not valid.size:
        return math.nan
    virtual = (valid.size - 1) * probability
    low = valid[math.floor(virtual)]
    high = valid[min(math.floor(virtual) + 1, valid.size - 1)]
    if virtual == math.floor(virtual) or low == high:
        return float(low)
    with np.errstate(all="ignore"):
        if not math.isfinite(high - low):
            weight = virtual - math.floor(virtual)
            return float(low * (1 - weight) + high * weight)
        return float(np.quantile(valid, probability))


def first_extreme(values: Sequence[Number], sign: int) -> tuple[Number, int] | None:
    """The greatest (sign 1) or least (sign -1) value that is not NaN, and where it is first."""
    best = None
    for i, x in enumerate(values):
        if not _is_nan(x) and (best is None or sign * x > sign * best[0]):
            best = (x, i)
    return best


def close(found: float, expected: Fraction | float | None, ulps: float = 16) -> bool:
    """Whether a float is so near to an exact number; NaN if there is none."""
    if expected is None:
        return math.isnan(found)
    try:
        rounded = float(expected)
    except OverflowError:
        return math.isinf(found)
    if math.isinf(rounded) or math.isinf(found):
        return found == rounded
    return abs(found - rounded) <= ulps * math.ulp(rounded)
