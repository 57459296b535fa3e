"""Where blocks of numbers come from: an array, or the differences of two.

A stream has a size and hands out readers, one for each thread. A reader loads a block and gives
one or several vectors of it, its channels, so that what is needed of the absolute and of
the relative difference is found in one pass.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.moments import Row, describe, describe_wide
from polygraphy.domain.arithmetic.passes.blocks import Scratch
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
