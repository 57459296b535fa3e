"""Whether outputs in a narrower type are as good as they can be expected to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.tensors.precision import is_float

Array = np.ndarray[Any, Any]

_SWAPPED = 0.01
"""The share of whole numbers that may change: classes that are nearly as likely change places."""


@frozen
class OutputError:
    """How far outputs are off.

    Attributes:
        name: the output that is off most.
        excess: the largest error, as a multiple of what is tolerated; infinity where an element
            became infinite or NaN.
        error: the largest absolute error of that output.
        broken: how many of its elements became infinite or NaN.
    """

    name: str = ""
    excess: float = 0.0
    error: float = 0.0
    broken: int = 0

    @property
    def is_tolerable(self) -> bool:
        """Whether all outputs are close enough."""
        return self.excess <= 1

    def __str__(self) -> str:
        if self.broken:
            return f"{self.broken} elements of {self.name!r} become infinite or NaN"
        share = f"{100 * self.excess:.3g}% of" if self.is_tolerable else f"{self.excess:.3g} times"
        return f"{self.name!r} is off by {self.error:.3g}, {share} what is tolerated"


def output_error(
    exact: Mapping[str, Array],
    made: Mapping[str, Array],
    *,
    rtol: float,
    atol: float | None = None,
    bounded: Collection[str] = (),
) -> OutputError:
    """Compare outputs.

    Args:
        exact: the outputs as they should be; elements that are infinite or NaN there are left out.
        made: the outputs to judge.
        rtol: the tolerance, as a fraction of each element.
        atol: an absolute tolerance (default: `rtol` times the root mean square of the output, or
            times 1 for one that is bounded).
        bounded: outputs whose elements lie between -1 and 1.
    """
    worst = OutputError()
    for name, reference in exact.items():
        each = _compared(name, reference, made[name], rtol, atol, name in bounded)
        if each.excess > worst.excess or not worst.name:
            worst = each
    return worst


def _compared(
    name: str, exact: Array, made: Array, rtol: float, atol: float | None, is_bounded: bool
) -> OutputError:
    if exact.shape != made.shape:
        return OutputError(name, np.inf, np.inf, exact.size)
    if not is_float(exact) or not exact.size:
        differs = float(np.mean(exact != made)) if exact.size else 0.0
        return OutputError(name, differs / _SWAPPED, differs)
    reference, value = np.asarray(exact, np.float64), np.asarray(made, np.float64)
    is_finite = np.isfinite(reference)
    broken = int(np.count_nonzero(is_finite & ~np.isfinite(value)))
    reference = np.where(is_finite, reference, 0)
    errors = np.abs(np.where(is_finite & np.isfinite(value), value, reference) - reference)
    if atol is None:
        scale = float(np.sqrt(np.mean(np.square(reference))))
        atol = rtol * (max(1.0, scale) if is_bounded else scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(errors > 0, errors / (atol + rtol * np.abs(reference)), 0)
    most = np.inf if broken else float(excess.max())
    return OutputError(name, most, float(errors.max()), broken)


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
