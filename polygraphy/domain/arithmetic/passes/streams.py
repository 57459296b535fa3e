"""Streams of blocks of numbers, of an array or of the differences of two, and how two arrays
differ, one block at a time.

A stream has a size and hands out readers, one for each thread. A reader loads a block and gives
one or several vectors of it, its channels, so that what is needed of the absolute and of
the relative difference is found in one pass.

The rules of a difference, whatever the dtypes:

* The absolute difference is ``|a - b|``, the relative one ``|a - b| / |b|``: `b` is the reference.
* A relative difference is 0 where the absolute one is 0 (also for 0 / 0), and infinite where `b`
  is 0 and `a` is not. No epsilon is added anywhere.
* NaN on either side makes both differences NaN.
* An infinity against anything but itself makes both differences infinite. Against itself it makes
  them NaN, as IEEE 754 does, or 0 if infinities are taken to be equal.

How exact the difference is depends on the kinds of the two arrays (`blocks.Kind`):

====================  =======================================================================
kinds                 difference
====================  =======================================================================
narrow or real        float64 arithmetic: exact for integers, for bool (where it is the
                      exclusive or) and for float16, almost always for float32 and bfloat16;
                      correctly rounded in any case
wide integers         exact integers, also of mixed sign, which cannot wrap; compared with a
                      tolerance as integers, and rounded to float64 for statistics
wide integer, float   as longdouble, which holds both where it has 64 bits or more for digits, and
                      is as wide as float64 elsewhere (on Windows, say)
longdouble            longdouble, also compared as such; rounded to float64 for statistics
complex               the modulus ``|a - b|``, and ``|b|`` below the fraction
anything else         1 where the elements are unequal, 0 where they are equal
====================  =======================================================================
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.moments import Row, describe, describe_wide
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import (
    Array,
    Flat,
    Floats,
    Kind,
    Mask,
    Reals,
    Scratch,
    convert,
    kind_of,
    modulus,
)

_LEAST = math.ulp(0.0)


class Kernel:
    """Forms the differences of a block in scratch memory of its own; used by one thread.

    After `load`, `absolute` and `scale` hold ``|a - b|`` and ``|b|`` as float64, shape ``(n,)``,
    and `peak` the largest absolute difference (NaN if there is a NaN). They stay valid until the
    next `load`. This class serves narrow integers and real numbers; its children the other kinds.
    """

    start: int
    stop: int
    absolute: Floats
    scale: Floats
    peak: float
    relative_peak: float
    """The largest relative difference of the block (NaN if there is a NaN), after `relative`."""

    def __init__(
        self, value: Flat, reference: Flat, scratch: Scratch, infinities_equal: bool = False
    ) -> None:
        """Create a kernel for two arrays of equal size; `scratch` bounds the size of a block."""
        self._value = value
        self._reference = reference
        self._infinities_equal = infinities_equal
        self._scratch = scratch
        self._allocate(scratch)
        self._quotient: Floats | None = None
        self._relative: Floats | None = None

    def load(self, start: int, stop: int) -> None:
        """Compute the differences of the elements from `start` to `stop` (exclusive)."""
        self.start, self.stop = start, stop
        self._relative = None
        self._compute_block(start, stop)
        self.peak = float(np.maximum.reduce(self.absolute))
        if not math.isfinite(self.peak):
            self._repair()
            self.peak = float(np.maximum.reduce(self.absolute))

    def relative(self) -> Floats:
        """Return the relative differences of the block, computed once for each block."""
        if self._relative is None and self.peak == 0:
            self._relative, self.relative_peak = self.absolute, 0.0
        if self._relative is None:
            if self._quotient is None:
                self._quotient = self._scratch.floats()
            quotient = self._quotient[: self.absolute.size]
            self._divide(quotient)
            if not math.isfinite(self.peak):
                self._divide_halves(quotient)
            peak = float(np.maximum.reduce(quotient))
            if math.isnan(peak):
                self._resolve_nan(quotient)
                peak = float(np.maximum.reduce(quotient))
            self._relative, self.relative_peak = quotient, peak
        return self._relative

    def mask_within(self, atol: float, out: Mask) -> Mask:
        """Return where the absolute difference is at most `atol`; False for NaN.
        `out` has shape (n,).
        """
        return np.less_equal(self.absolute, float(atol), out=out)

    def _allocate(self, scratch: Scratch) -> None:
        """Reserve the two buffers of the kernel."""
        self._a = scratch.floats()
        self._b = scratch.floats()

    def _compute_block(self, start: int, stop: int) -> None:
        """Compute the absolute differences and the magnitudes of a block."""
        size = stop - start
        a = self._value.floats(start, stop, self._a)
        b = self._reference.floats(start, stop, self._b)
        self.absolute = np.subtract(a, b, out=self._a[:size])
        np.abs(self.absolute, out=self.absolute)
        self.scale = np.abs(b, out=self._b[:size])

    def _repair(self) -> None:
        """Apply the rules of NaN and infinity to a block where `absolute` is not finite."""
        if self._infinities_equal:
            a, b = self._reload()
            np.copyto(self.absolute, 0.0, where=np.equal(a, b))

    def _reload(self) -> tuple[Array, Array]:
        """Return both blocks again, widened.

        Computing the difference has overwritten them.
        """
        size = self.stop - self.start
        return (
            self._value.floats(self.start, self.stop, np.empty(size)),
            self._reference.floats(self.start, self.stop, np.empty(size)),
        )

    def _divide(self, out: Floats) -> None:
        """Write the relative differences of the block."""
        np.divide(self.absolute, self.scale, out=out)

    def _divide_halves(self, quotient: Floats) -> None:
        """Divide finite differences that exceed float64, by halving them first."""
        a, b = self._reload()
        far = (self.absolute == np.inf) & np.isfinite(a) & np.isfinite(b)
        if far.any():
            half = b[far] / 2
            quotient[far] = np.abs(a[far] / 2 - half) / np.abs(half)

    def _resolve_nan(self, quotient: Floats) -> None:
        """Replace NaN among relative differences: 0 for 0/0, infinity for an infinite
        difference."""
        if math.isfinite(self.peak):
            # Without infinities, each NaN comes from 0 / 0. `fmax` ignores NaN, and replaces it by
            # 0.
            np.fmax(quotient, 0.0, out=quotient)
            return
        if np.fmin.reduce(self.scale) > 0 and np.fmax.reduce(self.absolute) < np.inf:
            # Neither 0 / 0 nor inf / inf is possible, so each NaN comes from a NaN.
            return
        unknown = np.isnan(quotient)
        np.copyto(quotient, 0.0, where=unknown & (self.absolute == 0))
        np.copyto(quotient, np.inf, where=unknown & (self.absolute == np.inf))


class _WideKernel(Kernel):
    """Integers, with 64 bits in at least one of the arrays."""

    def _allocate(self, scratch: Scratch) -> None:
        """Reserve integer buffers in addition to those of the base class."""
        self._signed = [
            _widens_to_signed(dtype, other_dtype)
            for dtype, other_dtype in (
                (self._value.array.dtype, self._reference.array.dtype),
                (self._reference.array.dtype, self._value.array.dtype),
            )
        ]
        self._words = [
            scratch.floats().view(np.int64 if signed else np.uint64) for signed in self._signed
        ]
        self._absolute = scratch.floats()
        self._scale = scratch.floats()

    def _compute_block(self, start: int, stop: int) -> None:
        """Compute exact differences of 64-bit integers, and the magnitudes of the reference."""
        size = stop - start
        a, b = self._reload()
        self._carry: Mask | None = None
        if a.dtype == b.dtype:
            distance = np.maximum(a, b).view(np.uint64)
            distance -= np.minimum(a, b).view(np.uint64)
        else:
            distance = self._form_mixed(*((a, b) if self._signed[0] else (b, a)))
        self._distance = distance
        self.absolute = convert(distance, self._absolute)
        if self._carry is not None:
            self.absolute[self._carry] += 2.0**64
        self.scale = self._scale[:size]
        np.copyto(self.scale, b, casting="unsafe")
        np.abs(self.scale, out=self.scale)

    def _form_mixed(self, signed: Array, unsigned: Array) -> Array:
        """Return the distance of an int64 from a uint64, which may need a 65th bit: `_carry`."""
        word = signed.view(np.uint64)
        negative = signed < 0
        # The distance from a negative number is a sum, and the word of -n is 2^64 - n.
        apart = np.maximum(word, unsigned) - np.minimum(word, unsigned)
        distance = np.where(negative, unsigned - word, apart)
        carry = negative & (distance < unsigned)
        if carry.any():
            self._carry = carry
        return distance

    def _reload(self) -> tuple[Array, Array]:
        """Return both blocks again, widened."""
        words = []
        for flat, out in zip((self._value, self._reference), self._words, strict=True):
            block = flat.block(self.start, self.stop)
            words.append(block if block.dtype == out.dtype else convert(block, out))
        return words[0], words[1]

    def mask_within(self, atol: float, out: Mask) -> Mask:
        """Return where the exact integer difference is at most `atol`."""
        if atol >= 2.0**65:
            out.fill(True)
            return out
        # A whole number is at most `atol` if it is at most its integral part.
        limit = math.floor(atol)
        if self._carry is None:
            np.less_equal(self._distance, np.uint64(min(limit, 2**64 - 1)), out=out)
            return out
        beyond = np.uint64(max(limit - 2**64, 0))
        low_enough = np.less_equal(self._distance, np.uint64(min(limit, 2**64 - 1)))
        carried = self._distance <= beyond if limit >= 2**64 else np.False_
        out[...] = np.where(self._carry, carried, low_enough)
        return out


class _LongKernel(Kernel):
    """Real numbers of which at least one array is longdouble, or 64-bit integers next to floats."""

    def _allocate(self, scratch: Scratch) -> None:
        """Reserve buffers of the wide type."""
        self._long = [np.empty(scratch.room, np.longdouble) for _ in range(2)]
        self._absolute = scratch.floats()
        self._scale = scratch.floats()

    def _compute_block(self, start: int, stop: int) -> None:
        """Compute the differences and magnitudes of a block in the wide type."""
        a, b = self._widen_block(self._long)
        self._distance: Array = np.abs(np.subtract(a, b, out=a), out=a)
        self._size: Array = np.abs(b, out=b)
        self.absolute = convert(self._distance, self._absolute)
        # A value that is too small for float64 is not 0, because 0 would mean equal operands.
        underflowed = (self.absolute == 0) & (self._distance > 0)
        np.copyto(self.absolute, _LEAST, where=underflowed)
        self.scale = convert(self._size, self._scale)

    def _repair(self) -> None:
        """Apply the rules of NaN and infinity to a block in the wide type."""
        if self._infinities_equal:
            equal = np.equal(*self._reload())
            np.copyto(self._distance, 0.0, where=equal)
            np.copyto(self.absolute, 0.0, where=equal)

    def _reload(self) -> tuple[Array, Array]:
        """Return both blocks again, in the wide type."""
        # Use new arrays: the buffers of the first load now contain distances and sizes, which
        # `mask_within` reads.
        return self._widen_block([np.empty_like(out) for out in self._long])

    def _widen_block(self, into: Sequence[Array]) -> tuple[Array, Array]:
        """Return the block of both arrays in the wide type."""
        a, b = (
            convert(flat.block(self.start, self.stop), out)
            for flat, out in zip((self._value, self._reference), into, strict=True)
        )
        return a, b

    def _divide(self, out: Floats) -> None:
        """Write the relative differences, divided in the wide type."""
        np.copyto(out, np.divide(self._distance, self._size), casting="unsafe")

    def mask_within(self, atol: float, out: Mask) -> Mask:
        """Return where the difference in the wide type is at most `atol`."""
        return np.less_equal(self._distance, float(atol), out=out)


class _ComplexKernel(Kernel):
    """Numbers, complex in at least one of the arrays."""

    def _allocate(self, scratch: Scratch) -> None:
        """Reserve buffers of complex numbers."""
        dtypes = {self._value.array.dtype, self._reference.array.dtype}
        long = any(kind_of(dtype) is Kind.LONG or dtype.itemsize > 16 for dtype in dtypes)
        self._dtype = np.dtype(np.clongdouble if long else np.complex128)
        self._absolute = scratch.floats()
        self._scale = scratch.floats()

    def _compute_block(self, start: int, stop: int) -> None:
        """Compute the moduli of the differences and of the reference."""
        a, b = self._reload()
        self.absolute = convert(np.abs(a - b), self._absolute)
        self.scale = convert(modulus(b), self._scale)

    def _repair(self) -> None:
        """Apply the rules of NaN and infinity to a block of complex numbers."""
        a, b = self._reload()
        if self._infinities_equal:
            np.copyto(self.absolute, 0.0, where=np.equal(a, b))
        # The modulus of a number with an infinite part is infinite even if the other is NaN.
        np.copyto(self.absolute, np.nan, where=np.isnan(a) | np.isnan(b))

    def _reload(self) -> tuple[Array, Array]:
        """Return both blocks again, as complex numbers."""
        a, b = (
            flat.block(self.start, self.stop).astype(self._dtype)
            for flat in (self._value, self._reference)
        )
        return a, b


class _EqualityKernel(Kernel):
    """Elements that can only be equal or different."""

    def _allocate(self, scratch: Scratch) -> None:
        """Reserve the buffers of the kernel."""
        self._absolute = scratch.floats()
        self._scale: Floats = np.ones(scratch.room)

    def _compute_block(self, start: int, stop: int) -> None:
        """Write 0 for equal elements, and 1 for different ones."""
        a, b = self._value.block(start, stop), self._reference.block(start, stop)
        self.absolute = convert(_difference_mask(a, b), self._absolute)
        self.scale = self._scale[: stop - start]

    def _repair(self) -> None:
        """Do nothing, because the difference is 0 or 1."""


def _difference_mask(a: Array, b: Array) -> Array:
    """Return where two arrays of any type differ."""
    try:
        unequal = np.not_equal(a, b)
    except TypeError:
        # numpy cannot compare strings with numbers; in Python they are unequal.
        unequal = np.not_equal(a.astype(object), b.astype(object))
    return unequal.astype(np.bool_)


def _widens_to_signed(own_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether an integer dtype is widened to int64 for its partner, and not to uint64."""
    if kind_of(own_dtype) is Kind.WIDE:
        return own_dtype.kind == "i"
    # A narrow unsigned integer fits in either type; one type for both sides is faster.
    unsigned = own_dtype.kind in "bu" or own_dtype.name.startswith("uint")
    return not (unsigned and dtype.kind == "u")


@functools.lru_cache(maxsize=256)
@functools.lru_cache(maxsize=256)
def kernel_for(value: np.dtype[Any], reference: np.dtype[Any]) -> type[Kernel]:
    """Return the kernel class that is exact for two dtypes; see the table of this module."""
    kinds = {kind_of(value), kind_of(reference)}
    if Kind.OTHER in kinds:
        return _EqualityKernel
    if Kind.COMPLEX in kinds:
        return _ComplexKernel
    if Kind.WIDE in kinds and all(kind.integral for kind in kinds):
        return _WideKernel
    if Kind.LONG in kinds or Kind.WIDE in kinds:
        return _LongKernel
    return Kernel


class Reader(Protocol):
    """Reads blocks of a stream, for one thread."""

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        """Return the channels of a block, ``(stop - start,)`` each; valid until the next."""

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        """Return the statistics of a channel of the block that was loaded last.

        `extremes`, its least and its greatest element, save time if they are known; at least one
        of them is NaN if an element is.
        """

    def find(self, channel: int, value: float) -> int:
        """Return the position in that block of the first element that equals `value`."""


AnyReader_co = TypeVar("AnyReader_co", bound=Reader, covariant=True)


class Stream(abc.ABC, Generic[AnyReader_co]):
    """Blocks of numbers, in the C order of an array."""

    shape: tuple[int, ...]
    size: int
    channels: int = 1
    origins: Sequence[int] = (0,)
    """For each channel, what the means of described rows are relative to."""
    integral: Sequence[bool] = (False,)
    """For each channel, whether the extremes are reported as whole numbers."""
    exact: bool = True
    """Whether float64 holds all elements."""

    @abc.abstractmethod
    def reader(self, scratch: Scratch) -> AnyReader_co:
        """Return a reader for one thread, which works in `scratch`."""

    @abc.abstractmethod
    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """Return the elements of each channel at C-order positions."""


class RealReader:
    """Base class of readers of real numbers."""

    def __init__(self, scratch: Scratch) -> None:
        """Create a reader that works in `scratch`."""
        self._room, self._spare = scratch.floats(), scratch.floats()
        self._channels: Sequence[Reals] = ()

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        """Return the statistics of a channel in the current block."""
        low, high = extremes or self.extremes(channel)
        return describe(self._channels[channel], low, high, self._room, self._spare)

    def extremes(self, channel: int) -> tuple[float, float]:
        """Return the least and greatest element of a channel; at least one NaN if it has NaN."""
        block = self._channels[channel]
        return float(np.minimum.reduce(block)), float(np.maximum.reduce(block))

    def find(self, channel: int, value: float) -> int:
        """Return the position of a value in a channel of the current block."""
        return int(np.equal(self._channels[channel], value).argmax())


class ArrayStream(Stream[Reader]):
    """The elements of one array; the modulus of complex ones."""

    def __init__(self, flat: Flat) -> None:
        """Stream the elements of an array."""
        self.shape = flat.array.shape
        self.size = flat.size
        self.integral = (flat.kind.integral,)
        self.exact = flat.kind is not Kind.WIDE
        self._flat = flat
        self._origin = int(flat.item(0)) if flat.size and not self.exact else 0
        self.origins = (self._origin,)

    def reader(self, scratch: Scratch) -> Reader:
        """Return a reader of the array for one thread."""
        if self._flat.kind is Kind.WIDE:
            return _WideReader(self._flat, self._origin, scratch)
        return _ArrayReader(self._flat, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """Return the elements at some positions, in float64."""
        elements = self._flat.take(positions)
        if self._flat.kind is Kind.COMPLEX:
            elements = modulus(_component_wise(elements))
        return (elements.astype(np.float64),)


class _ArrayReader(RealReader):
    """Reads the elements of an array in float32 or float64."""

    def __init__(self, flat: Flat, scratch: Scratch) -> None:
        """Create a reader of an array."""
        super().__init__(scratch)
        self._flat = flat
        self._floats = scratch.floats()

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        """Return the block of the array as the only channel."""
        if self._flat.kind is Kind.COMPLEX:
            sizes = modulus(_component_wise(self._flat.block(start, stop)))
            self._channels = (convert(sizes, self._floats),)
        else:
            self._channels = (self._flat.reals(start, stop, self._floats),)
        return self._channels


class _WideReader(RealReader):
    """Reads int64 or uint64: statistics of the rounded values, but exact extremes and moments."""

    def __init__(self, flat: Flat, origin: int, scratch: Scratch) -> None:
        """Create a reader of wide integers; moments are relative to `origin`."""
        super().__init__(scratch)
        self._flat = flat
        self._origin = origin
        self._dtype = flat.array.dtype.newbyteorder("=")
        self._floats = scratch.floats()
        self._block: Array = np.empty(0, self._dtype)

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        """Return the integers of a block, rounded to float64."""
        self._block = self._flat.block(start, stop).astype(self._dtype, copy=False)
        self._channels = (convert(self._block, self._floats),)
        return self._channels

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        """Return the exact extremes and moments of the current block."""
        return describe_wide(self._block, self._origin, self._floats, self._spare)

    def find(self, channel: int, value: float) -> int:
        """Return the position of an integer in the current block."""
        return int(np.equal(self._block, self._block.dtype.type(value)).argmax())


def _component_wise(block: Array) -> Array:
    """Return complex numbers in a data type that NumPy has functions for."""
    return block if block.dtype.kind == "c" else block.astype(np.complex128)


KEPT = 1 << 14
"""Most elements whose differences are formed only once, and kept."""
_REAL = (Kind.NARROW, Kind.REAL)

Channel: TypeAlias = Literal["absolute", "relative"]


class Pair:
    """A value and its reference. The differences of small arrays are formed once, and kept."""

    def __init__(self, value: Array, reference: Array, infinities_equal: bool = False) -> None:
        """Pair two arrays for comparison.

        Raises:
            ValueError: if their shapes differ.
        """
        if value.shape != reference.shape:
            raise ValueError(
                f"the shapes {value.shape} and {reference.shape} of the two arrays differ;"
                " reshape one of them"
            )
        self.shape: tuple[int, ...] = value.shape
        self.size: int = value.size
        self.arrays = value, reference
        self.infinities_equal = infinities_equal
        self._sides: tuple[Flat, Flat] | None = None
        self._kept: Kernel | None = None
        # Returns the kernel of all differences, if they are already computed.
        self.form: Callable[[], Kernel] | None = None

    @property
    def value(self) -> Flat:
        """The first array."""
        return self._flats()[0]

    @property
    def reference(self) -> Flat:
        """The second array."""
        return self._flats()[1]

    def _flats(self) -> tuple[Flat, Flat]:
        """Return both arrays as vectors; pairs that are formed together never need them."""
        if self._sides is None:
            self._sides = Flat(self.arrays[0]), Flat(self.arrays[1])
        return self._sides

    @property
    def kernel_type(self) -> type[Kernel]:
        """Return the class of the kernels that are exact for the arrays."""
        return kernel_for(self.arrays[0].dtype, self.arrays[1].dtype)

    def kernel(self, scratch: Scratch) -> Kernel:
        """Return a new kernel that works in `scratch`."""
        return self.kernel_type(self.value, self.reference, scratch, self.infinities_equal)

    def loader(self, scratch: Scratch) -> Callable[[int, int], Kernel]:
        """Return a function that loads a block and returns its kernel, for one thread."""
        whole_kernel = self.whole_kernel()
        if whole_kernel is not None:
            return lambda start, stop: whole_kernel
        kernel = self.kernel(scratch)

        def load(start: int, stop: int) -> Kernel:
            """Load a block, and return the kernel."""
            kernel.load(start, stop)
            return kernel

        return load

    def whole_kernel(self) -> Kernel | None:
        """Return the kernel with all differences, absolute and relative,
        if the arrays are small and not empty; else None."""
        if self._kept is None and self.form is not None:
            self._kept = self.form()
        if self._kept is None and 0 < self.size <= min(KEPT, blocks.BLOCK):
            with np.errstate(all="ignore"):
                kernel = self.kernel(Scratch(self.size))
                kernel.load(0, self.size)
                kernel.relative()
            self._kept = kernel
        return self._kept

    def small_kernel(self) -> Kernel | None:
        """Return the kernel with all differences if the arrays are small, real and not empty;
        else None."""
        is_real = self.value.kind in _REAL and self.reference.kind in _REAL
        return self.whole_kernel() if is_real else None

    def differences_at(self, position: int) -> tuple[float, float]:
        """Return the absolute and the relative difference of the elements at a C-order position."""
        kernel = self.whole_kernel()
        if kernel is not None:
            return kernel.absolute.item(position), kernel.relative().item(position)
        with np.errstate(all="ignore"):
            kernel = self.kernel(Scratch(1))
            kernel.load(position, position + 1)
            return kernel.absolute.item(0), kernel.relative().item(0)

    def own_arrays(self) -> None:
        """Replace both arrays by copies."""
        value, reference = self.arrays
        self.arrays = value.copy(), reference.copy()
        self._sides = self._kept = self.form = None

    def take(self, positions: npt.NDArray[np.intp]) -> Pair:
        """Return the pair of the elements at C-order positions."""
        value, reference = self.value.take(positions), self.reference.take(positions)
        return Pair(value, reference, self.infinities_equal)


class DifferenceReader(RealReader):
    """Reads differences of a pair; `kernel` holds the block that was loaded last."""

    kernel: Kernel

    def __init__(self, pair: Pair, names: Sequence[Channel], scratch: Scratch) -> None:
        """Create a reader of the named channels."""
        super().__init__(scratch)
        self._load = pair.loader(scratch)
        self._names = names

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        """Return the requested differences of a block."""
        self.kernel = self._load(start, stop)
        vectors = _channel_vectors(self.kernel, self._names)
        self._channels = vectors
        return vectors

    def extremes(self, channel: int) -> tuple[float, float]:
        """Return the least and the greatest difference of a channel in the current block."""
        absolute = self._names[channel] == "absolute"
        high = self.kernel.peak if absolute else self.kernel.relative_peak
        return float(np.minimum.reduce(self._channels[channel])), high


class DifferenceStream(Stream[DifferenceReader]):
    """The absolute or the relative differences of a pair, or both as two channels."""

    def __init__(self, pair: Pair, *channels: Channel) -> None:
        """Stream the named differences of a pair."""
        self.shape = pair.shape
        self.size = pair.size
        self.channels = len(channels)
        self.origins = (0,) * len(channels)
        self.integral = (False,) * len(channels)
        self._pair = pair
        self._names = channels

    def reader(self, scratch: Scratch) -> DifferenceReader:
        """Return a reader of the differences for one thread."""
        return DifferenceReader(self._pair, self._names, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """Return the differences at some positions, by channel."""
        kernel = self._pair.take(positions).kernel(Scratch(positions.size))
        kernel.load(0, positions.size)
        return _channel_vectors(kernel, self._names)


def _channel_vectors(kernel: Kernel, names: Sequence[Channel]) -> tuple[Floats, ...]:
    """Return the absolute or relative differences that a kernel computed, one array per channel."""
    return tuple(kernel.absolute if name == "absolute" else kernel.relative() for name in names)
