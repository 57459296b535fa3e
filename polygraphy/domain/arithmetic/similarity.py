"""Similarity measures of two arrays: cosine, bias, ranks, units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from attrs import frozen

from polygraphy.domain.arithmetic.moments import inner_product
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import (
    Array,
    Flat,
    Floats,
    Index,
    Kind,
    Mask,
    Scratch,
    unravel,
)
from polygraphy.domain.arithmetic.passes.streams import Kernel, Pair, RealReader, Stream, kernel_for
from polygraphy.domain.arithmetic.summary import Summary, summarize_stream
from polygraphy.domain.tensors.precision import Precision

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
    """Return the lengths of two arrays of one shape, of their difference, and the angle, computed
    in one pass without copies.

    Numbers of any dtype are widened to float64, except for differences of 64-bit integers and
    longdoubles, which are computed before that. A complex number counts as two real ones.

    Raises:
        ValueError: if the shapes differ.
        TypeError: for arrays that hold no numbers.
    """
    pair = Pair(value, reference)
    if Kind.OTHER in (pair.value.kind, pair.reference.kind):
        raise TypeError(
            f"a similarity requires arrays of numbers, not {value.dtype} and {reference.dtype}"
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
        # Equal vectors have the angle 0, without a rounding error.
        cosine=1.0 if difference_norm == 0 else _cosine(rows, value_length, reference_length),
        value_min=_extreme_of_blocks(min, [row.low for row in rows]),
        value_max=_extreme_of_blocks(max, [row.high for row in rows]),
    )


def l2_norm(metrics: DotMetrics) -> float:
    """Return the Euclidean length of the difference; it grows with the number of elements."""
    return metrics.difference_norm


def cosine_similarity(metrics: DotMetrics) -> float:
    """Return the cosine of the angle between the arrays, from -1 to 1; it ignores their scale."""
    return metrics.cosine


def normalized_l2(metrics: DotMetrics) -> float:
    """Return the length of the difference divided by that of the reference;
    it ignores a common scale.
    """
    if metrics.difference_norm == 0:
        return 0.0
    if metrics.reference_norm == 0:
        return math.nan if math.isnan(metrics.difference_norm) else math.inf
    return metrics.difference_norm / metrics.reference_norm


def sqnr(metrics: DotMetrics) -> float:
    """Return the signal to quantization noise ratio in dB; the reference is the signal.

    It is -20 log10 of `normalized_l2`: about 6.02 dB for each correct bit.
    """
    ratio = normalized_l2(metrics)
    if ratio in (0.0, math.inf) and metrics.reference_norm and metrics.difference_norm:
        return _decibels(metrics.reference_norm) - _decibels(metrics.difference_norm)
    return -_decibels(ratio)


def psnr(metrics: DotMetrics) -> float:
    """Return the peak signal to noise ratio in dB; infinite without noise.

    The peak is the greatest element of the value, or 1 if that is not positive.
    """
    if metrics.difference_norm == 0:
        return math.inf
    peak = 1.0 if metrics.value_max <= 0 else metrics.value_max
    noise = metrics.difference_norm / math.sqrt(metrics.size)
    return _decibels(peak) - _decibels(noise)


def snr(metrics: DotMetrics) -> float:
    """Return the signal to noise ratio in dB; the value is the signal.

    Infinite without noise, minus infinity if there is noise but no signal.
    """
    if metrics.difference_norm == 0:
        return math.inf
    return _decibels(metrics.value_norm) - _decibels(metrics.difference_norm)


def _decibels(amplitude: float) -> float:
    """Return an amplitude ratio in dB; minus infinity for 0."""
    return 20 * math.log10(amplitude) if amplitude else -math.inf


class _Length(NamedTuple):
    """The Euclidean length ``mantissa * 2 ** exponent``, also where float64 cannot hold that.

    The exponent is 0 unless the squares are outside the range of float64.
    """

    mantissa: float
    exponent: int

    def in_units(self, unit: int) -> float:
        """Return the length in units of ``2 ** unit``."""
        try:
            return math.ldexp(self.mantissa, self.exponent - unit)
        except OverflowError:
            return math.inf

    def as_float(self) -> float:
        """Return the length as a float; infinite if float64 cannot represent it."""
        return self.in_units(0)


class _Row(NamedTuple):
    """The norms and extremes of one block; `alignment` is the cosine within the block."""

    value: _Length
    reference: _Length
    difference: _Length
    alignment: float
    low: float
    high: float


def _measurer(pair: Pair, scratch: Scratch) -> Callable[[int, int], _Row]:
    """Return the function that measures a block of a pair."""
    paired = Kind.COMPLEX in (pair.value.kind, pair.reference.kind)
    a_room, b_room = scratch.floats(), scratch.floats()
    room = np.empty(2 * scratch.room) if paired else scratch.floats()
    exactly = _exact_differences(pair, scratch)

    def measure(start: int, stop: int) -> _Row:
        """Return the lengths, the alignment and the extremes of a block."""
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
    """Return the function that computes the exact differences of a block of 64-bit integers or
    longdoubles; None if both arrays fit float64.

    It takes the extremes of the value and the widened reference, and returns None for integers of
    which float64 holds all.
    """
    dtypes = pair.value.array.dtype, pair.reference.array.dtype
    is_whole = all(side.kind.integral for side in (pair.value, pair.reference))
    is_long = any(np.promote_types(dtype, np.complex64).itemsize > _COMPLEX for dtype in dtypes)
    if not is_long and (not is_whole or kernel_for(*dtypes) is Kernel):
        return None
    kernels: list[Callable[[int, int], Kernel]] = []

    def form(start: int, stop: int, extremes: tuple[float, float], b: Floats) -> Floats | None:
        """Return the exact differences of a block; None if they are not needed."""
        if is_whole:
            all_ = (*extremes, float(np.minimum.reduce(b)), float(np.maximum.reduce(b)))
            if max(map(abs, all_)) < _MOST_WHOLE:
                return None
        if not kernels:
            kernels.append(pair.loader(scratch))
        return kernels[0](start, stop).absolute

    return form


def _components(flat: Flat, start: int, stop: int) -> Floats:
    """Return the real and the imaginary parts of a block, shape ``(2 * (stop - start),)``."""
    return np.ascontiguousarray(flat.block(start, stop).astype(np.complex128)).view(np.float64)


def _length(x: Floats, free: Floats) -> _Length:
    """Return the length of a block; `free`, of the same shape, is overwritten."""
    squares = inner_product(x, x)
    if _SMALL < squares < math.inf:
        return _Length(math.sqrt(squares), 0)
    peak = max(float(np.maximum.reduce(x)), -float(np.minimum.reduce(x)))
    if peak == 0 or not math.isfinite(peak):
        return _Length(abs(peak), 0)
    exponent = math.frexp(peak)[1]
    scaled = np.ldexp(x, -exponent, out=free)
    return _Length(math.sqrt(inner_product(scaled, scaled)), exponent)


def _alignment(a: Floats, b: Floats, a_length: _Length, b_length: _Length, free: Floats) -> float:
    """Return the cosine of the angle between two blocks; 0 if one of them is zero."""
    if a_length.mantissa == 0 or b_length.mantissa == 0:
        # 0 times NaN is NaN, so a NaN in the other block remains visible.
        return 0.0 * a_length.mantissa * b_length.mantissa
    if a_length.exponent:
        a = np.ldexp(a, -a_length.exponent, out=free)
    if b_length.exponent:
        b = np.ldexp(b, -b_length.exponent)
    return inner_product(a, b) / (a_length.mantissa * b_length.mantissa)


def _join(lengths: Sequence[_Length]) -> _Length:
    """Return the length of a vector from the lengths of its parts."""
    # For C's hypot, infinity takes precedence over NaN.
    if any(math.isnan(length.mantissa) for length in lengths):
        return _Length(math.nan, 0)
    unit = max((length.exponent for length in lengths if length.mantissa), default=0)
    return _Length(math.hypot(*(length.in_units(unit) for length in lengths)), unit)


def _cosine(rows: Sequence[_Row], value: _Length, reference: _Length) -> float:
    """Return the cosine of the angle between two arrays from those of their blocks."""
    if math.isnan(value.mantissa) or math.isnan(reference.mantissa):
        return math.nan
    if value.mantissa == 0 or reference.mantissa == 0:
        return 0.0
    total = math.fsum(
        row.alignment
        * (row.value.in_units(value.exponent) / value.mantissa)
        * (row.reference.in_units(reference.exponent) / reference.mantissa)
        for row in rows
    )
    return math.nan if math.isnan(total) else min(max(total, -1.0), 1.0)


def _extreme_of_blocks(
    choose: Callable[[Iterable[float]], float], extremes: Sequence[float]
) -> float:
    """Return the least or greatest of the extremes of blocks.
    The result is NaN if there are none, or one is NaN."""
    if not extremes or any(map(math.isnan, extremes)):
        return math.nan
    return choose(extremes)


def mean_signed_error(value: Array, reference: Array, *, threads: int = 1) -> float:
    """Return the mean of ``a - b``; 0 for empty arrays, NaN if a difference is NaN.

    Integers are subtracted exactly.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no real numbers.
    """
    pair = Pair(value, reference)
    if {Kind.OTHER, Kind.COMPLEX} & {pair.value.kind, pair.reference.kind}:
        raise TypeError(f"a bias requires real numbers, not {value.dtype} and {reference.dtype}")
    if not pair.size:
        return 0.0
    sums = blocks.scan(pair.size, lambda scratch: _summer(pair, scratch), threads)
    if any(map(math.isnan, sums)) or {math.inf, -math.inf} <= set(sums):
        return math.nan
    infinite = next(filter(math.isinf, sums), None)
    return infinite if infinite is not None else math.fsum(x / pair.size for x in sums)


def _summer(pair: Pair, scratch: Scratch) -> Callable[[int, int], float]:
    """Return the function that sums the signed differences of a block."""
    load = pair.loader(scratch)
    signed, mask = scratch.floats(), scratch.mask()
    read = _comparable_reader(pair, scratch)

    def total(start: int, stop: int) -> float:
        """Return the sum of the signed differences of a block."""
        kernel = load(start, stop)
        room = signed[: stop - start]
        np.copyto(room, kernel.absolute)
        a, b = read(start, stop)
        np.negative(room, out=room, where=np.less(a, b, out=mask[: stop - start]))
        return float(np.add.reduce(room))

    return total


def _comparable_reader(pair: Pair, scratch: Scratch) -> Callable[[int, int], tuple[Array, Array]]:
    """Return a function that reads a block of both arrays without rounding.

    NumPy compares the resulting data types exactly; next to a float4, it would round an int8.
    """
    value, reference = pair.value, pair.reference
    kinds = (value.kind, reference.kind)
    if Kind.LONG in kinds:
        return lambda start, stop: (value.block(start, stop), reference.block(start, stop))
    if Kind.WIDE in kinds and all(kind.integral for kind in kinds):
        return lambda start, stop: (
            _as_int64(value, start, stop),
            _as_int64(reference, start, stop),
        )
    a, b = scratch.floats(), scratch.floats()
    return lambda start, stop: (value.floats(start, stop, a), reference.floats(start, stop, b))


def _as_int64(flat: Flat, start: int, stop: int) -> Array:
    """Return a block as integers of 64 bits."""
    block = flat.block(start, stop)
    return block if flat.kind is Kind.WIDE else block.astype(np.int64)


@frozen
class NonFinite:
    """The numbers of elements that are NaN, +inf or -inf in only one of two arrays.

    An element that is NaN here and infinite there is counted once in `count`, and under both kinds.
    """

    size: int
    count: int
    nan: int
    posinf: int
    neginf: int
    first: Index | None
    """The first of them in C order."""


class _Counts(NamedTuple):
    """The counts of a block, and the position of the first difference."""

    far: int
    nan: int
    posinf: int
    neginf: int
    first: int


_SAME = _Counts(0, 0, 0, 0, -1)


def compare_non_finite(value: Array, reference: Array, *, threads: int = 1) -> NonFinite:
    """Return how the NaN, the +inf and the -inf of two arrays of one shape differ.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no real numbers.
    """
    pair = Pair(value, reference)
    if {Kind.OTHER, Kind.COMPLEX} & {pair.value.kind, pair.reference.kind}:
        raise TypeError(
            f"only real numbers can be checked, not {value.dtype} and {reference.dtype}"
        )
    rows = blocks.scan(pair.size, lambda scratch: _non_finite_counter(pair, scratch), threads)
    first = next((row.first for row in rows if row.far), None)
    return NonFinite(
        pair.size,
        sum(row.far for row in rows),
        sum(row.nan for row in rows),
        sum(row.posinf for row in rows),
        sum(row.neginf for row in rows),
        None if first is None else unravel(first, pair.shape),
    )


def _non_finite_counter(pair: Pair, scratch: Scratch) -> Callable[[int, int], _Counts]:
    """Return the function that counts the differing NaN and infinities of a block."""
    rooms = scratch.floats(), scratch.floats()

    def find(start: int, stop: int) -> _Counts:
        """Return the counts of differing NaN and infinities of a block, and the first position."""
        a = pair.value.floats(start, stop, rooms[0])
        b = pair.reference.floats(start, stop, rooms[1])
        if _is_finite(a) and _is_finite(b):
            return _SAME
        nan: Mask = np.isnan(a) ^ np.isnan(b)
        posinf: Mask = np.isposinf(a) ^ np.isposinf(b)
        neginf: Mask = np.isneginf(a) ^ np.isneginf(b)
        different = nan | posinf | neginf
        count = int(np.count_nonzero(different))
        if not count:
            return _SAME
        kinds = [int(np.count_nonzero(mask)) for mask in (nan, posinf, neginf)]
        return _Counts(count, kinds[0], kinds[1], kinds[2], start + int(different.argmax()))

    return find


def _is_finite(block: Floats) -> bool:
    """Return whether all elements are finite, computed without a mask."""
    extremes = float(np.minimum.reduce(block)), float(np.maximum.reduce(block))
    return bool(np.isfinite(extremes).all())


@frozen
class Ranking:
    """The number of lists whose highest entries agree.

    Attributes:
        lists: number of lists compared.
        agreeing: the number of them that agree.
        margin: the margin with which all of them would; NaN if a score is.
        first: the position of the first list that does not agree, without the last dimension.
    """

    lists: int
    agreeing: int
    margin: float
    first: Index | None

    @property
    def agreement(self) -> float:
        """Return the share of the lists that agree; 1 if there are no lists."""
        return self.agreeing / self.lists if self.lists else 1.0


def compare_top_k(value: Array, reference: Array, k: int, margin: float = 0.0) -> Ranking:
    """Return the number of lists, along the last dimension, in which the same `k` entries score
    highest.

    Lists agree when each of the `k` entries that are highest in `value` has a score in `reference`
    that is at most `margin` below the k-th highest there. So entries that tie may change places,
    and with a margin those that nearly do. A list with a NaN agrees with none.

    A few rows are processed at a time, or a single one if it is longer than a block.

    Args:
        value: scores, shape ``(..., n)``.
        reference: scores, of the same shape.
        k: the number of entries, at least 1 and less than n.
        margin: by how much a score may be too low, in the outputs' own unit.

    Raises:
        TypeError: the arrays hold no real numbers.
    """
    flats = Flat(value), Flat(reference)
    if {Kind.OTHER, Kind.COMPLEX} & {flat.kind for flat in flats}:
        raise TypeError(f"ranking requires real numbers, not {value.dtype} and {reference.dtype}")
    length = value.shape[-1]
    lists = math.prod(value.shape[:-1])
    rows = max(blocks.BLOCK // length, 1)
    lacking = np.zeros(lists)
    with np.errstate(all="ignore"):
        for start in range(0, lists, rows):
            stop = min(start + rows, lists)
            a, b = (_rows(flat, start, stop, length) for flat in flats)
            lacking[start:stop] = _score_gaps(a, b, k)
    agrees = lacking <= margin
    first = None if agrees.all() else unravel(int(agrees.argmin()), value.shape[:-1])
    needed = float(np.maximum.reduce(lacking, initial=0.0))
    return Ranking(lists, int(np.count_nonzero(agrees)), needed, first)


def _rows(flat: Flat, start: int, stop: int, length: int) -> Array:
    """Return lists of scores in float64, or in 64-bit integers, which float64 does not represent
    exactly.
    """
    first, last = start * length, stop * length
    if flat.kind is Kind.WIDE:
        rows = flat.block(first, last)
    else:
        rows = flat.floats(first, last, np.empty(last - first))
    return rows.reshape(stop - start, length)


def _score_gaps(a: Array, b: Array, k: int) -> npt.NDArray[np.float64]:
    """Return how far, per row, the `k` best entries of `a` fall below the `k` best of `b`:
    the k-th highest score of `b`, minus the lowest score in `b` of the `k` best of `a`."""
    last = a.shape[1] - k
    border = np.partition(a, last, axis=1)[:, last, None]
    above = a > border
    ties = a == border
    # Number of elements to choose among those equal to the border.
    room = k - np.count_nonzero(above, axis=1)
    chosen = above | (ties & (np.cumsum(ties, axis=1) <= room[:, None]))
    highest = np.inf if b.dtype.kind == "f" else np.iinfo(b.dtype).max
    lowest = np.min(b, axis=1, where=chosen, initial=highest)
    kth = np.partition(b, last, axis=1)[:, last]
    if b.dtype.kind == "i":
        # The distance may exceed int64, but unsigned subtraction wraps to the correct value.
        lowest, kth = (array.astype(np.int64).view(np.uint64) for array in (lowest, kth))
    lacking = np.where(kth == lowest, 0.0, kth - lowest)
    unknown = np.isnan(a).any(axis=1) | np.isnan(b).any(axis=1)
    return np.where(unknown, np.nan, lacking)


def ulp_distances(
    value: Array,
    reference: Array,
    precision: Precision | None,
    *,
    quantiles: Sequence[float] = (0.99,),
    threads: int = 1,
) -> Summary:
    """Return a summary of ``|a - b| / ulp(b)``, where ulp(b) is the distance between neighbors of
    the magnitude of `b` in a data type (Goldberg, 1991).

    Equal infinities are 0 apart. The arrays need not be of that data type: a float32 output may be
    measured in the float16 in which it was computed.

    Args:
        value: numbers of any data type.
        reference: numbers, of the same shape.
        precision: the data type; None for whole numbers, of which the unit is 1.
        quantiles: probabilities, each from 0 to 1.
        threads: most threads to use.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no numbers.
    """
    pair = Pair(value, reference, infinities_equal=True)
    if Kind.OTHER in (pair.value.kind, pair.reference.kind):
        raise TypeError(
            f"a distance in ULPs requires numbers, not {value.dtype} and {reference.dtype}"
        )
    return summarize_stream(_UlpStream(pair, precision), quantiles, threads)[0]


class _UlpStream(Stream["_UlpReader"]):
    """The distances of a pair."""

    def __init__(self, pair: Pair, precision: Precision | None) -> None:
        """Stream the distances of a pair in a precision."""
        self.shape = pair.shape
        self.size = pair.size
        self._pair = pair
        self._precision = precision

    def reader(self, scratch: Scratch) -> _UlpReader:
        """Return a reader of blocks of the distances."""
        return _UlpReader(self._pair, self._precision, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """Return the distances at some positions."""
        kernel = self._pair.take(positions).kernel(Scratch(positions.size))
        kernel.load(0, positions.size)
        return (_differences_in_ulps(kernel, self._precision, np.empty(positions.size)),)


class _UlpReader(RealReader):
    """Reads the distances of a pair in blocks."""

    def __init__(self, pair: Pair, precision: Precision | None, scratch: Scratch) -> None:
        """Create a reader of the distances."""
        super().__init__(scratch)
        self._load = pair.loader(scratch)
        self._precision = precision
        self._distances = scratch.floats()

    def load(self, start: int, stop: int) -> Sequence[Floats]:
        """Return the distances of a block."""
        kernel = self._load(start, stop)
        self._channels = (
            _differences_in_ulps(kernel, self._precision, self._distances[: stop - start]),
        )
        return self._channels


def _differences_in_ulps(kernel: Kernel, precision: Precision | None, out: Floats) -> Floats:
    """Return the differences in a kernel, in units in the last place of the reference."""
    if precision is None:
        np.copyto(out, kernel.absolute)
        return out
    digits = -round(math.log2(precision.epsilon))
    least = round(math.log2(precision.smallest))
    _, exponents = np.frexp(kernel.scale)
    exponents -= 1  # 2 ** exponent <= |b| < 2 ** (exponent + 1)
    np.maximum(exponents, least, out=exponents)
    np.copyto(exponents, least, where=kernel.scale == 0)
    np.ldexp(kernel.absolute, digits - exponents, out=out)
    return out
