"""How large the elements of an array are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Kind


def root_mean_square(values: Array, *, threads: int = 1) -> float:
    """Return the root of the mean square of the finite elements; 0 when there are none.

    Each block is scaled by its largest element first, so neither 1e-200 nor 1e+200 is lost. Of
    complex numbers the modulus counts.

    Raises:
        TypeError: the array holds no numbers.
    """
    flat = Flat(values)
    if flat.kind is Kind.OTHER:
        raise TypeError(f"only numbers have a magnitude, not {values.dtype}")
    rows = blocks.scan(flat.size, lambda scratch: _measurer(flat, scratch), threads)
    peak = max((peak for peak, _, _ in rows), default=0.0)
    count = sum(count for _, _, count in rows)
    if peak == 0 or not count:
        return 0.0
    total = math.fsum(squares * (own / peak) ** 2 for own, squares, _ in rows)
    return peak * math.sqrt(total / count)


def _measurer(flat: Flat, scratch: Scratch) -> Callable[[int, int], tuple[float, float, int]]:
    """Return a function from a block to its peak, its squares in units of that, and their count."""
    room = scratch.floats()

    def measure(start: int, stop: int) -> tuple[float, float, int]:
        if flat.kind is Kind.COMPLEX:
            block = np.abs(flat.block(start, stop).astype(np.complex128))
        else:
            block = flat.floats(start, stop, room)
            block = np.abs(block, out=room[: block.size])
        peak = float(np.maximum.reduce(block, initial=0.0))
        if not math.isfinite(peak):
            block = block[np.isfinite(block)]
            peak = float(np.maximum.reduce(block, initial=0.0))
        if peak == 0:
            return 0.0, 0.0, block.size
        scaled = np.divide(block, peak, out=block)
        # Not `np.dot`: a BLAS shares each block among its threads, which takes far more time.
        return peak, float(np.square(scaled, out=scaled).sum()), block.size

    return measure
