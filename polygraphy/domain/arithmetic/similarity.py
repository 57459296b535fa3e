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

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.kernels import Kernel, kernel_for
from polygraphy.domain.arithmetic.passes.pair import Pair
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.sums import inner
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Floats, Kind

_FormExactly = Callable[[int, int, tuple[float, float], Floats], "Floats | None"]

_COMPLEX = np.dtype(np.complex128).itemsize
_MOST_WHOLE = 2.0**53
"""Up to this, float64 holds every whole number."""

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

    Numbers of any dtype are widened to float64, but for differences of 64-bit integers and
    longdoubles, which are formed before. A complex number counts as two real ones.

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
    value_length = _join([row.value for row in rows])
    reference_length = _join([row.reference for row in rows])
    difference_norm = _join([row.difference for row in rows]).as_float()
    return DotMetrics(
        size=pair.size,
        value_norm=value_length.as_float(),
        reference_norm=reference_length.as_float(),
        difference_norm=difference_norm,
        # Equal vectors have no angle, not even one of a rounding error.
        cosine=1.0 if difference_norm == 0 else _cosine(rows, value_length, reference_length),
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
    ratio = normalized_l2(metrics)
    if ratio in (0.0, math.inf) and metrics.reference_norm and metrics.difference_norm:
        return _decibels(metrics.reference_norm) - _decibels(metrics.difference_norm)
    return -_decibels(ratio)


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


class _Length(NamedTuple):
    """The Euclidean length ``mantissa * 2 ** exponent``, also where float64 cannot hold that.

    The exponent is 0 unless the squares are out of the range of float64.
    """

    mantissa: float
    exponent: int

    def by(self, unit: int) -> float:
        """The length in units of ``2 ** unit``."""
        try:
            return math.ldexp(self.mantissa, self.exponent - unit)
        except OverflowError:
            return math.inf

    def as_float(self) -> float:
        """The length, infinite if float64 cannot hold it."""
        return self.by(0)


class _Row(NamedTuple):
    """What a pass keeps of one block; `alignment` is the cosine within the block."""

    value: _Length
    reference: _Length
    difference: _Length
    alignment: float
    low: float
    high: float


def _measurer(pair: Pair, scratch: Scratch) -> Callable[[int, int], _Row]:
    paired = Kind.COMPLEX in (pair.value.kind, pair.reference.kind)
    a_room, b_room = scratch.floats(), scratch.floats()
    room = np.empty(2 * scratch.room) if paired else scratch.floats()
    exactly = _exact_differences(pair, scratch)

    def measure(start: int, stop: int) -> _Row:
        if paired:
            a, b = (_components(flat, start, stop) for flat in (pair.value, pair.reference))
        else:
            a = pair.value.floats(start, stop, a_room)
            b = pair.reference.floats(start, stop, b_room)
        free = room[: a.size]
        low, high = float(np.minimum.reduce(a)), float(np.maximum.reduce(a))
        value, reference = _length(a, free), _length(b, free)
        alignment = _alignment(a, b, value, reference, free)
        difference = None if exactly is None else exactly(start, stop, (low, high), b)
        if difference is None:
            difference = np.subtract(a, b, out=free)
        spare = np.empty(a.size) if paired else a_room[: a.size]
        length = _length(difference, spare[: difference.size])
        return _Row(value, reference, length, alignment, low, high)

    return measure


def _exact_differences(pair: Pair, scratch: Scratch) -> _FormExactly | None:
    """Return what forms the differences of a block of 64-bit integers or longdoubles, before they
    are widened; None where both sides fit float64.

    It takes the extremes of the value and the widened reference, and returns None for integers of
    which float64 holds all.
    """
    dtypes = pair.value.array.dtype, pair.reference.array.dtype
    is_whole = all(side.kind.integral for side in (pair.value, pair.reference))
    is_long = any(np.promote_types(dtype, np.complex64).itemsize > _COMPLEX for dtype in dtypes)
    if not is_long and (not is_whole or kernel_for(*dtypes) is Kernel):
        return None
    kept: list[Callable[[int, int], Kernel]] = []

    def form(start: int, stop: int, extremes: tuple[float, float], b: Floats) -> Floats | None:
        if is_whole:
            all_ = (*extremes, float(np.minimum.reduce(b)), float(np.maximum.reduce(b)))
            if max(map(abs, all_)) < _MOST_WHOLE:
                return None
        if not kept:
            kept.append(pair.loader(scratch))
        return kept[0](start, stop).absolute

    return form


def _components(flat: Flat, start: int, stop: int) -> Floats:
    """The real and the imaginary parts of a block, shape ``(2 * (stop - start),)``."""
    return np.ascontiguousarray(flat.block(start, stop).astype(np.complex128)).view(np.float64)


def _length(x: Floats, free: Floats) -> _Length:
    """The length of a block; `free`, of the same shape, is overwritten."""
    squares = inner(x, x)
    if _SMALL < squares < math.inf:
        return _Length(math.sqrt(squares), 0)
    peak = max(float(np.maximum.reduce(x)), -float(np.minimum.reduce(x)))
    if peak == 0 or not math.isfinite(peak):
        return _Length(abs(peak), 0)
    exponent = math.frexp(peak)[1]
    scaled = np.ldexp(x, -exponent, out=free)
    return _Length(math.sqrt(inner(scaled, scaled)), exponent)


def _alignment(a: Floats, b: Floats, a_length: _Length, b_length: _Length, free: Floats) -> float:
    """The cosine of the angle between two blocks; 0 if one of them is zero."""
    if a_length.mantissa == 0 or b_length.mantissa == 0:
        # NaN has to get through from the other side.
        return 0.0 * a_length.mantissa * b_length.mantissa
    if a_length.exponent:
        a = np.ldexp(a, -a_length.exponent, out=free)
    if b_length.exponent:
        b = np.ldexp(b, -b_length.exponent)
    return inner(a, b) / (a_length.mantissa * b_length.mantissa)


def _join(lengths: Sequence[_Length]) -> _Length:
    """The length of a vector from those of its parts."""
    # C's hypot finds an infinity more telling than a NaN.
    if any(math.isnan(length.mantissa) for length in lengths):
        return _Length(math.nan, 0)
    unit = max((length.exponent for length in lengths if length.mantissa), default=0)
    return _Length(math.hypot(*(length.by(unit) for length in lengths)), unit)


def _cosine(rows: Sequence[_Row], value: _Length, reference: _Length) -> float:
    if math.isnan(value.mantissa) or math.isnan(reference.mantissa):
        return math.nan
    if value.mantissa == 0 or reference.mantissa == 0:
        return 0.0
    total = math.fsum(
        row.alignment
        * (row.value.by(value.exponent) / value.mantissa)
        * (row.reference.by(reference.exponent) / reference.mantissa)
        for row in rows
    )
    return math.nan if math.isnan(total) else min(max(total, -1.0), 1.0)


def _extreme(choose: Callable[[Iterable[float]], float], extremes: Sequence[float]) -> float:
    if not extremes or any(map(math.isnan, extremes)):
        return math.nan
    return choose(extremes)
