"""Measures of how alike two arrays are as a whole: norms, angles and decibels.

One pass gives all of them. Squares are summed in float64; values whose squares float64 cannot
hold are scaled by a power of two first, so that neither 1e-200 nor 1e+200 is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic import blocks
from polygraphy.domain.arithmetic.pair import Pair
from polygraphy.domain.arithmetic.scratch import Scratch
from polygraphy.domain.arithmetic.sums import inner
from polygraphy.domain.arithmetic.widen import Array, Flat, Floats, Kind

__all__ = [
    "DotMetrics",
    "cosine_similarity",
    "dot_metrics",
    "l2_norm",
    "normalized_l2",
    "psnr",
    "snr",
    "sqnr",
]

_SMALL = 2.0**-900
"""Below this, a sum of squares may have lost digits to underflow."""


@frozen
class DotMetrics:
    """Two arrays as vectors. Anything that involves a NaN is NaN."""

    size: int
    value_norm: float
    """Euclidean length of the value."""
    reference_norm: float
    """Euclidean length of the reference."""
    difference_norm: float
    """Euclidean length of value - reference."""
    cosine: float
    """Cosine of the angle between the two: 1 if both are zero, 0 if one is."""
    value_min: float
    """The least element of the value; NaN if it is empty."""
    value_max: float
    """The greatest element of the value; NaN if it is empty."""


def dot_metrics(value: Array, reference: Array, *, threads: int = 1) -> DotMetrics:
    """Measure two arrays of one shape, in one pass and without copies of them.

    Numbers of any dtype are widened to float64. A complex number counts as two real ones.

    Raises:
        ValueError: if the shapes differ.
        TypeError: for arrays that hold no numbers.
    """
    pair = Pair(value, reference)
    if Kind.OTHER in (pair.value.kind, pair.reference.kind):
        raise TypeError(
            f"a similarity needs arrays of numbers, not {value.dtype} and {reference.dtype}"
        )
    rows = blocks.scan(pair.size, lambda scratch: _measurer(pair, scratch), threads)
    value_norm = _hypot(row.value_norm for row in rows)
    reference_norm = _hypot(row.reference_norm for row in rows)
    difference_norm = _hypot(row.difference_norm for row in rows)
    return DotMetrics(
        size=pair.size,
        value_norm=value_norm,
        reference_norm=reference_norm,
        difference_norm=difference_norm,
        # Equal vectors have no angle, not even one of a rounding error.
        cosine=1.0 if difference_norm == 0 else _cosine(rows, value_norm, reference_norm),
        value_min=_extreme(min, [row.low for row in rows]),
        value_max=_extreme(max, [row.high for row in rows]),
    )


def l2_norm(metrics: DotMetrics) -> float:
    """Euclidean length of the difference; it grows with the number of elements."""
    return metrics.difference_norm


def cosine_similarity(metrics: DotMetrics) -> float:
    """Cosine of the angle between the arrays, from -1 to 1: blind to any factor between them."""
    return metrics.cosine


def normalized_l2(metrics: DotMetrics) -> float:
    """Length of the difference by that of the reference, so that no scale matters."""
    if metrics.difference_norm == 0:
        return 0.0
    if metrics.reference_norm == 0:
        return math.nan if math.isnan(metrics.difference_norm) else math.inf
    return metrics.difference_norm / metrics.reference_norm


def sqnr(metrics: DotMetrics) -> float:
    """Signal to quantisation noise in dB, the reference being the signal.

    It is -20 log10 of `normalized_l2`; about 6.02 dB for each bit that is right.
    """
    return -_decibels(normalized_l2(metrics))


def psnr(metrics: DotMetrics) -> float:
    """Peak signal to noise ratio in dB; infinite without noise.

    The peak is the greatest element of the value, or 1 if that is not positive.
    """
    if metrics.difference_norm == 0:
        return math.inf
    peak = 1.0 if metrics.value_max <= 0 else metrics.value_max
    noise = metrics.difference_norm / math.sqrt(metrics.size)
    return _decibels(peak) - _decibels(noise)


def snr(metrics: DotMetrics) -> float:
    """Signal to noise ratio in dB, the value being the signal.

    Infinite without noise, minus infinity if there is noise but no signal.
    """
    if metrics.difference_norm == 0:
        return math.inf
    return _decibels(metrics.value_norm) - _decibels(metrics.difference_norm)


def _decibels(amplitude: float) -> float:
    return 20 * math.log10(amplitude) if amplitude else -math.inf


class _Row(NamedTuple):
    """What a pass keeps of one block; `alignment` is the cosine within the block."""

    value_norm: float
    reference_norm: float
    difference_norm: float
    alignment: float
    low: float
    high: float


def _measurer(pair: Pair, scratch: Scratch) -> Callable[[int, int], _Row]:
    paired = Kind.COMPLEX in (pair.value.kind, pair.reference.kind)
    a_room, b_room = scratch.floats(), scratch.floats()
    room = np.empty(2 * scratch.room) if paired else scratch.floats()

    def measure(start: int, stop: int) -> _Row:
        if paired:
            a, b = (_components(flat, start, stop) for flat in (pair.value, pair.reference))
        else:
            a = pair.value.floats(start, stop, a_room)
            b = pair.reference.floats(start, stop, b_room)
        free = room[: a.size]
        value_norm, reference_norm = _norm(a, free), _norm(b, free)
        alignment = _alignment(a, b, value_norm, reference_norm, free)
        low, high = float(np.minimum.reduce(a)), float(np.maximum.reduce(a))
        # The difference may take the place of the value, if that is a copy.
        difference = np.subtract(a, b, out=free)
        squares = a_room[: a.size] if not paired else np.empty(a.size)
        return _Row(value_norm, reference_norm, _norm(difference, squares), alignment, low, high)

    return measure


def _components(flat: Flat, start: int, stop: int) -> Floats:
    """The real and the imaginary parts of a block, shape ``(2 * (stop - start),)``."""
    return np.ascontiguousarray(flat.block(start, stop).astype(np.complex128)).view(np.float64)


def _norm(x: Floats, free: Floats) -> float:
    """Euclidean length of a block; `free` is overwritten."""
    squares = inner(x, x)
    if _SMALL < squares < math.inf:
        return math.sqrt(squares)
    peak = max(float(np.maximum.reduce(x)), -float(np.minimum.reduce(x)))
    if peak == 0 or not math.isfinite(peak):
        return abs(peak)
    exponent = math.frexp(peak)[1]
    scaled = np.ldexp(x, -exponent, out=free)
    length = math.sqrt(inner(scaled, scaled))
    return float(np.ldexp(length, exponent))


def _alignment(a: Floats, b: Floats, a_norm: float, b_norm: float, free: Floats) -> float:
    """The cosine of the angle between two blocks; 0 if one of them is zero."""
    if a_norm == 0 or b_norm == 0:
        # NaN has to get through from the other side.
        return 0.0 * a_norm * b_norm
    scale = a_norm * b_norm
    if _SMALL < scale < math.inf:
        return inner(a, b) / scale
    return inner(np.divide(a, a_norm, out=free), b / b_norm)


def _cosine(rows: Sequence[_Row], value_norm: float, reference_norm: float) -> float:
    if math.isnan(value_norm) or math.isnan(reference_norm):
        return math.nan
    if value_norm == 0 or reference_norm == 0:
        return 0.0
    total = math.fsum(
        row.alignment * (row.value_norm / value_norm) * (row.reference_norm / reference_norm)
        for row in rows
    )
    return min(max(total, -1.0), 1.0) if not math.isnan(total) else math.nan


def _hypot(norms: Iterable[float]) -> float:
    listed = list(norms)
    # C's hypot finds an infinity more telling than a NaN.
    return math.nan if any(map(math.isnan, listed)) else math.hypot(*listed)


def _extreme(choose: Callable[[Iterable[float]], float], extremes: Sequence[float]) -> float:
    if not extremes or any(map(math.isnan, extremes)):
        return math.nan
    return choose(extremes)
