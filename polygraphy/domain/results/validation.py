"""Whether outputs hold numbers at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.results.results import IterationResult

_BLOCK = 1 << 18
_FEW = 64


@frozen
class OutputValidity:
    """How many elements of one output are NaN or infinite, where the first of each lies (None:
    nowhere), and how it is uniform, if it is; see `uniformity`.
    """

    name: str
    size: int
    nan: int
    inf: int
    first_nan: tuple[int, ...] | None
    first_inf: tuple[int, ...] | None
    uniform: str = ""

    def complaint(self, *, check_nan: bool, check_inf: bool) -> str:
        """Describe what was looked for and found, and where it lies first; empty for nothing."""
        looked_for = (
            ("NaN", self.nan, self.first_nan, check_nan),
            ("infinite", self.inf, self.first_inf, check_inf),
        )
        return ", ".join(
            f"{count} of {self.size} elements are {what}, the first at {first}"
            for what, count, first, is_asked in looked_for
            if is_asked and count
        )


def validate_outputs(outputs: IterationResult) -> list[OutputValidity]:
    """Count NaN and infinite elements of every output; what cannot be NaN (integers, strings) has
    none.
    """
    return [_validity(name, np.asarray(array)) for name, array in outputs.items()]


def uniformity(array: np.ndarray[Any, Any]) -> str:
    """Return what makes an output say little: ``empty``, ``all 0``, or another value that all of
    several elements have; empty where elements differ, and for a single one that is not 0.
    """
    if not array.size:
        return "empty"
    first = array.flat[0]
    if array.dtype.kind == "O" or (array.size == 1 and first != 0):
        return ""
    # Nearly always, the first ones differ.
    if not np.all(array.flat[:_FEW] == first) or not np.all(array == first):
        return ""
    value = first.item() if hasattr(first, "item") else first
    return f"all {value:.4g}" if isinstance(value, float) else f"all {value!r}"


def count_non_finite(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return how many elements are NaN, and how many are infinite."""
    return _count(np.isnan, array)[0], _count(np.isinf, array)[0]


def _validity(name: str, array: np.ndarray[Any, Any]) -> OutputValidity:
    nan, first_nan = _count(np.isnan, array)
    inf, first_inf = _count(np.isinf, array)
    return OutputValidity(name, array.size, nan, inf, first_nan, first_inf, uniformity(array))


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
