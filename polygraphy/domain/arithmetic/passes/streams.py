"""Where blocks of numbers come from: an array, or the differences of two.

A stream has a size and hands out readers, one for each thread. A reader loads a block and gives
one or several vectors of it, its channels, so that what is needed of the absolute and of
the relative difference is found in one pass.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.moments import Row, describe, describe_wide
from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import Scratch
from polygraphy.domain.arithmetic.passes.kernels import Kernel, kernel_for
from polygraphy.domain.arithmetic.passes.widen import (
    Array,
    Flat,
    Floats,
    Kind,
    Reals,
    convert,
    modulus,
)


class Reader(Protocol):
    """Reads blocks of a stream, for one thread."""

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        """The channels of the block, each of shape ``(stop - start,)``; valid until the next."""

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        """Describe a channel of the block that was loaded last.

        `extremes`, its least and its greatest element, save time if they are known; at least one
        of them is NaN if an element is.
        """

    def find(self, channel: int, value: float) -> int:
        """The position in that block of the first element that equals `value`."""


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
        """A reader for one thread, which works in `scratch`."""

    @abc.abstractmethod
    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """The elements of each channel at C-order positions."""


class RealReader:
    """What readers have in common."""

    def __init__(self, scratch: Scratch) -> None:
        self._room, self._spare = scratch.floats(), scratch.floats()
        self._channels: Sequence[Reals] = ()

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        low, high = extremes or self.extremes(channel)
        return describe(self._channels[channel], low, high, self._room, self._spare)

    def extremes(self, channel: int) -> tuple[float, float]:
        """The least and the greatest element of a channel; at least one NaN if an element is."""
        block = self._channels[channel]
        return float(np.minimum.reduce(block)), float(np.maximum.reduce(block))

    def find(self, channel: int, value: float) -> int:
        return int(np.equal(self._channels[channel], value).argmax())


class ArrayStream(Stream[Reader]):
    """The elements of one array; the modulus of complex ones."""

    def __init__(self, flat: Flat) -> None:
        self.shape = flat.array.shape
        self.size = flat.size
        self.integral = (flat.kind.integral,)
        self.exact = flat.kind is not Kind.WIDE
        self._flat = flat
        self._origin = int(flat.item(0)) if flat.size and not self.exact else 0
        self.origins = (self._origin,)

    def reader(self, scratch: Scratch) -> Reader:
        if self._flat.kind is Kind.WIDE:
            return _WideReader(self._flat, self._origin, scratch)
        return _ArrayReader(self._flat, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        elements = self._flat.take(positions)
        if self._flat.kind is Kind.COMPLEX:
            elements = modulus(_component_wise(elements))
        return (elements.astype(np.float64),)


class _ArrayReader(RealReader):
    def __init__(self, flat: Flat, scratch: Scratch) -> None:
        super().__init__(scratch)
        self._flat = flat
        self._floats = scratch.floats()

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        if self._flat.kind is Kind.COMPLEX:
            sizes = modulus(_component_wise(self._flat.block(start, stop)))
            self._channels = (convert(sizes, self._floats),)
        else:
            self._channels = (self._flat.reals(start, stop, self._floats),)
        return self._channels


class _WideReader(RealReader):
    """Reads int64 or uint64: statistics of the rounded values, but exact extremes and moments."""

    def __init__(self, flat: Flat, origin: int, scratch: Scratch) -> None:
        super().__init__(scratch)
        self._flat = flat
        self._origin = origin
        self._dtype = flat.array.dtype.newbyteorder("=")
        self._floats = scratch.floats()
        self._block: Array = np.empty(0, self._dtype)

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        self._block = self._flat.block(start, stop).astype(self._dtype, copy=False)
        self._channels = (convert(self._block, self._floats),)
        return self._channels

    def describe(self, channel: int, extremes: tuple[float, float] | None = None) -> Row:
        return describe_wide(self._block, self._origin, self._floats, self._spare)

    def find(self, channel: int, value: float) -> int:
        return int(np.equal(self._block, self._block.dtype.type(value)).argmax())


def _component_wise(block: Array) -> Array:
    """Complex numbers in a dtype that numpy has functions for."""
    return block if block.dtype.kind == "c" else block.astype(np.complex128)


KEPT = 1 << 14
"""Most elements whose differences are formed only once, and kept."""

_REAL = (Kind.NARROW, Kind.REAL)

Channel: TypeAlias = Literal["absolute", "relative"]


class Pair:
    """A value and its reference. The differences of small arrays are formed once, and kept."""

    def __init__(self, value: Array, reference: Array, infinities_equal: bool = False) -> None:
        """Pair two arrays.

        Raises:
            ValueError: if their shapes differ.
        """
        if value.shape != reference.shape:
            raise ValueError(
                f"two arrays need one shape to be compared, not {value.shape} and"
                f" {reference.shape}; reshape one of them"
            )
        self.shape: tuple[int, ...] = value.shape
        self.size: int = value.size
        self.value = Flat(value)
        self.reference = Flat(reference)
        self.infinities_equal = infinities_equal
        self._kept: Kernel | None = None

    def kernel(self, scratch: Scratch) -> Kernel:
        """A new kernel that works in `scratch`."""
        make = kernel_for(self.value.array.dtype, self.reference.array.dtype)
        return make(self.value, self.reference, scratch, self.infinities_equal)

    def loader(self, scratch: Scratch) -> Callable[[int, int], Kernel]:
        """A function that loads a block and returns the kernel that holds it, for one thread."""
        whole = self.whole()
        if whole is not None:
            return lambda start, stop: whole
        kernel = self.kernel(scratch)

        def load(start: int, stop: int) -> Kernel:
            kernel.load(start, stop)
            return kernel

        return load

    def whole(self) -> Kernel | None:
        """The kernel that holds all differences, absolute and relative ones, if the arrays are
        small and not empty.
        """
        if self._kept is None and 0 < self.size <= min(KEPT, blocks.BLOCK):
            with np.errstate(all="ignore"):
                kernel = self.kernel(Scratch(self.size))
                kernel.load(0, self.size)
                kernel.relative()
            self._kept = kernel
        return self._kept

    def small(self) -> Kernel | None:
        """The same, if the arrays are real, too."""
        is_real = self.value.kind in _REAL and self.reference.kind in _REAL
        return self.whole() if is_real else None

    def differences_at(self, position: int) -> tuple[float, float]:
        """The absolute and the relative difference of the elements at a C-order position."""
        kernel = self.whole()
        if kernel is not None:
            return kernel.absolute.item(position), kernel.relative().item(position)
        with np.errstate(all="ignore"):
            kernel = self.kernel(Scratch(1))
            kernel.load(position, position + 1)
            return kernel.absolute.item(0), kernel.relative().item(0)

    def own_arrays(self) -> None:
        """Go on with copies of both arrays."""
        self.value, self.reference = (
            Flat(side.array.copy()) for side in (self.value, self.reference)
        )
        self._kept = None

    def take(self, positions: npt.NDArray[np.intp]) -> Pair:
        """The pair of the elements at C-order positions."""
        value, reference = self.value.take(positions), self.reference.take(positions)
        return Pair(value, reference, self.infinities_equal)


class DifferenceReader(RealReader):
    """Reads differences of a pair; `kernel` holds the block that was loaded last."""

    kernel: Kernel

    def __init__(self, pair: Pair, names: Sequence[Channel], scratch: Scratch) -> None:
        super().__init__(scratch)
        self._load = pair.loader(scratch)
        self._names = names

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        self.kernel = self._load(start, stop)
        vectors = _vectors(self.kernel, self._names)
        self._channels = vectors
        return vectors

    def extremes(self, channel: int) -> tuple[float, float]:
        absolute = self._names[channel] == "absolute"
        high = self.kernel.peak if absolute else self.kernel.relative_peak
        return float(np.minimum.reduce(self._channels[channel])), high


class DifferenceStream(Stream[DifferenceReader]):
    """The absolute or the relative differences of a pair, or both as two channels."""

    def __init__(self, pair: Pair, *channels: Channel) -> None:
        self.shape = pair.shape
        self.size = pair.size
        self.channels = len(channels)
        self.origins = (0,) * len(channels)
        self.integral = (False,) * len(channels)
        self._pair = pair
        self._names = channels

    def reader(self, scratch: Scratch) -> DifferenceReader:
        return DifferenceReader(self._pair, self._names, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        kernel = self._pair.take(positions).kernel(Scratch(positions.size))
        kernel.load(0, positions.size)
        return _vectors(kernel, self._names)


def _vectors(kernel: Kernel, names: Sequence[Channel]) -> tuple[Floats, ...]:
    return tuple(kernel.absolute if name == "absolute" else kernel.relative() for name in names)
