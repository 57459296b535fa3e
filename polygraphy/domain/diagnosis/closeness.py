"""How outputs resemble what they should be, where they are not that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polygraphy.domain.tensors.precision import is_float

Array = np.ndarray[Any, Any]


def has_nan(value: Any) -> bool:
    """Return whether a tensor has elements that are no numbers."""
    return is_float(value) and bool(np.isnan(value).any())


def is_broken(value: Any) -> bool:
    """Return whether a tensor has elements that are NaN or infinite."""
    return is_float(value) and not bool(np.isfinite(value).all())


def breaks(values: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether outputs have NaN or infinities that they should not have."""
    return any(
        is_float(value)
        and name in expected
        and not np.isfinite(value).all()
        and bool(np.isfinite(expected[name]).all())
        for name, value in values.items()
    )


def is_partly(one: Any, other: Any) -> bool:
    """Return whether many elements are the same, or one array is no numbers any more."""
    first, second = (np.asarray(array, np.float64) for array in (one, other))
    if first.shape != second.shape:
        return False
    same = np.mean(np.isclose(first, second, rtol=1e-4, atol=1e-6))
    return bool(same > 0.05 or not np.isfinite(first).all() or not np.isfinite(second).all())


def together(one: Any, other: Any) -> float:
    """Return the correlation of two arrays; 0 where there is none."""
    first, second = (np.asarray(array, np.float64).reshape(-1) for array in (one, other))
    if not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
