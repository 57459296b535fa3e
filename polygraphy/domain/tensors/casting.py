"""Casts of arrays that keep every value within what the new data type can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataTypeEntry


def cast_if_representable(array: Array, wanted: DataTypeEntry) -> Array | None:
    """Cast an array; None when a value would be lost.

    A floating-point type may round, but has to hold the magnitude of every finite value and to keep
    NaN and infinity as they are. An integer type has to hold every value exactly. An imaginary part
    is never dropped.
    """
    target = wanted.numpy()
    if array.dtype.kind == "c" and wanted.kind != "complex":
        if np.any(array.imag):
            return None
        array = array.real
    with np.errstate(all="ignore"):
        cast = array.astype(target)
        if wanted.is_floating:
            return cast if _is_in_range(array, cast, target) else None
        if wanted.kind == "complex":
            return cast
        return cast if _is_exact(array, cast) else None


def _is_in_range(array: Array, cast: Array, target: np.dtype[Any]) -> bool:
    given, made = array.astype(np.float64), cast.astype(np.float64)
    finite = np.isfinite(given)
    if not np.array_equal(made[~finite], given[~finite], equal_nan=True):
        return False
    # A type without infinity saturates, so the result does not tell: the value does.
    largest = _largest(target)
    return bool(np.isfinite(made[finite]).all() and (np.abs(given[finite]) <= largest).all())


def _largest(target: np.dtype[Any]) -> float:
    """Return the largest magnitude that is cast to a finite value: halfway above the largest
    number, at most.
    """
    if target.kind == "f":
        return np.inf  # NumPy's own types overflow to infinity, which is seen in the result.
    import ml_dtypes

    limits: Any = ml_dtypes.finfo
    return float(limits(target).max)


def _is_exact(array: Array, cast: Array) -> bool:
    if array.dtype.kind in "iub" or cast.dtype.kind in "iub":
        back = cast.astype(array.dtype)
        same_sign = np.array_equal(_is_negative(cast), _is_negative(array))
        return same_sign and np.array_equal(back, array)
    return np.array_equal(cast.astype(np.float64), array.astype(np.float64))


def _is_negative(array: Array) -> Array:
    negative: Array = np.zeros(array.shape, bool) if array.dtype.kind in "ub" else array < 0
    return negative
