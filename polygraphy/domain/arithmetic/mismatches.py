"""Which elements of two arrays differ by more than a tolerance allows."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.passes.kernels import Kernel
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.widen import Floats, Mask

Formula: TypeAlias = Literal["either", "sum"]


@frozen
class Limit:
    """How far a value may be from its reference, element by element.

    ``either``: an element mismatches if its absolute difference exceeds `atol` and its relative
    difference exceeds `rtol`; so one satisfied tolerance is enough. ``sum``: it mismatches if
    ``|a - b| > atol + rtol * |b|``, as in `numpy.isclose`. A NaN difference always mismatches, an
    infinite one unless a tolerance is infinite too.

    Raises:
        ValueError: for a tolerance that is negative or NaN, or another formula.
    """

    atol: float
    rtol: float
    formula: Formula = "either"

    def __attrs_post_init__(self) -> None:
        for name, tolerance in (("atol", self.atol), ("rtol", self.rtol)):
            if not tolerance >= 0:
                raise ValueError(f"{name} has to be a number from 0, not {tolerance!r}")
        if self.formula not in ("either", "sum"):
            raise ValueError(f"formula has to be 'either' or 'sum', not {self.formula!r}")

    def covers(self, absolute: float) -> bool:
        """Whether elements differing by so much or less are close, whatever the reference is.

        `absolute` may be an exact difference rounded to float64. Rounding keeps the order, but may
        make a difference equal to a tolerance that it exceeds; that case is left open. False for
        NaN.
        """
        return absolute < float(self.atol) or absolute == 0


class MismatchRow(NamedTuple):
    """What a pass keeps of one block: how many elements mismatch, and the positions of two.

    `first` and `worst` are C-order positions; the worst one exceeds its tolerance by `excess`.
    They are -1 and minus infinity if there is none, or if no such element can be the worst of all.
    """

    far: int
    first: int
    excess: float
    worst: int


_NONE = MismatchRow(0, -1, -math.inf, -1)


class MismatchFinder:
    """Finds the mismatches of the blocks that a kernel has loaded; used by one thread."""

    def __init__(self, limit: Limit, scratch: Scratch) -> None:
        self._limit = limit
        self._atol, self._rtol = float(limit.atol), float(limit.rtol)
        self._scratch = scratch
        self._close = scratch.mask()
        self._mask = scratch.mask()
        self._allowed: Floats | None = None
        self._worst = -math.inf

    def __call__(self, kernel: Kernel) -> MismatchRow:
        """The mismatches of one block. Blocks have to come in ascending order."""
        if self._limit.covers(kernel.peak):
            return _NONE
        size = kernel.absolute.size
        close = self._close[:size]
        if self._limit.formula == "sum":
            np.less_equal(kernel.absolute, self._tolerances(kernel), out=close)
        else:
            relative = kernel.relative()
            if kernel.relative_peak <= self._rtol:
                return _NONE
            kernel.within(self._limit.atol, close)
            np.logical_or(
                close,
                np.less_equal(relative, self._rtol, out=self._mask[:size]),
                out=close,
            )
        count = size - int(np.count_nonzero(close))
        if not count:
            return _NONE
        return self._find_worst(kernel, close, count)

    def _find_worst(self, kernel: Kernel, close: Mask, count: int) -> MismatchRow:
        first = kernel.start + int(close.argmin())
        # No tolerance is below `atol`, so few blocks can hold a new worst element.
        if self._worst == math.inf or kernel.peak - self._atol <= self._worst:
            return MismatchRow(count, first, -math.inf, -1)
        far = np.logical_not(close, out=self._mask[: close.size])
        excess = kernel.absolute.compress(far) - self._tolerances(kernel).compress(far)
        if not math.isfinite(kernel.peak):
            np.copyto(excess, np.inf, where=np.isnan(excess))
        k = int(excess.argmax())
        self._worst = max(self._worst, float(excess[k]))
        return MismatchRow(
            count, first, float(excess[k]), kernel.start + int(np.flatnonzero(far)[k])
        )

    def _tolerances(self, kernel: Kernel) -> Floats:
        """The largest difference that each element may have."""
        if self._allowed is None:
            self._allowed = self._scratch.floats()
        allowed = np.multiply(kernel.scale, self._rtol, out=self._allowed[: kernel.scale.size])
        if self._limit.formula == "sum":
            np.add(allowed, self._atol, out=allowed)
        else:
            np.maximum(allowed, self._atol, out=allowed)
        if not math.isfinite(self._rtol) or not math.isfinite(np.maximum.reduce(kernel.scale)):
            undefined = np.isnan(allowed)
            if self._rtol < math.inf:
                # A share of an infinite reference would excuse any difference from it.
                undefined |= np.isinf(kernel.scale)
            np.copyto(allowed, self._atol, where=undefined)
        return allowed
