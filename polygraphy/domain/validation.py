"""Whether outputs hold numbers at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.results import IterationResult

__all__ = ["OutputValidity", "validate_outputs"]

_BLOCK = 1 << 18


@frozen
class OutputValidity:
    """How many elements of one output are NaN or infinite, and where the first of each lies (None:
    nowhere).
    """

    name: str
    size: int
    nan: int
    inf: int
    first_nan: tuple[int, ...] | None
    first_inf: tuple[int, ...] | None

    def is_valid(self, *, check_nan: bool, check_inf: bool) -> bool:
        """Tell whether the output is free of what is looked for."""
        return not (check_nan and self.nan) and not (check_inf and self.inf)


def validate_outputs(outputs: IterationResult) -> list[OutputValidity]:
    """Count NaN and infinite elements of every output; what cannot be NaN (integers, strings) has
    none.
    """
    return [_validity(name, np.asarray(array)) for name, array in outputs.items()]


def _validity(name: str, array: np.ndarray[Any, Any]) -> OutputValidity:
    nan, first_nan = _count(np.isnan, array)
    inf, first_inf = _count(np.isinf, array)
    return OutputValidity(name, array.size, nan, inf, first_nan, first_inf)


def _count(predicate: np.ufunc, array: np.ndarray[Any, Any]) -> tuple[int, tuple[int, ...] | None]:
    """Count the elements for which a predicate holds, block by block, and find the first in C
    order.
    """
    if array.dtype.kind in "biuSUOTmM":
        return 0, None
    flat = array.reshape(-1)
    count, first = 0, None
    for start in range(0, flat.size, _BLOCK):
        found = predicate(flat[start : start + _BLOCK])
        in_block = int(np.count_nonzero(found))
        if in_block and first is None:
            first = start + int(found.argmax())
        count += in_block
    return count, (
        None if first is None else tuple(int(i) for i in np.unravel_index(first, array.shape))
    )
