"""Two arrays of one shape, and their differences as a stream of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic import blocks
from polygraphy.domain.arithmetic.kernels import Kernel, kernel_for
from polygraphy.domain.arithmetic.scratch import Scratch
from polygraphy.domain.arithmetic.streams import RealReader, Stream
from polygraphy.domain.arithmetic.widen import Array, Flat, Floats, Kind, Reals

__all__ = ["Channel", "DifferenceReader", "DifferenceStream", "Pair", "PairStream", "Side"]

KEPT = 1 << 14
"""Most elements whose differences are formed only once, and kept."""

Channel: TypeAlias = Literal["absolute", "relative"]

Side: TypeAlias = Literal["value", "reference"]


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
        if self.size <= min(KEPT, blocks.BLOCK):
            whole = self._whole()
            return lambda start, stop: whole
        kernel = self.kernel(scratch)

        def load(start: int, stop: int) -> Kernel:
            kernel.load(start, stop)
            return kernel

        return load

    def _whole(self) -> Kernel:
        if self._kept is None:
            kernel = self.kernel(Scratch(self.size))
            kernel.load(0, self.size)
            self._kept = kernel
        return self._kept

    def differences_at(self, position: int) -> tuple[float, float]:
        """The absolute and the relative difference of the elements at a C-order position."""
        with np.errstate(all="ignore"):
            if self.size <= min(KEPT, blocks.BLOCK):
                kernel = self._whole()
            else:
                kernel = self.kernel(Scratch(1))
                kernel.load(position, position + 1)
            i = position - kernel.start
            return kernel.absolute.item(i), kernel.relative().item(i)

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
        """See `Reader`."""
        self.kernel = self._load(start, stop)
        vectors = _vectors(self.kernel, self._names)
        self._channels = vectors
        return vectors

    def extremes(self, channel: int) -> tuple[float, float]:
        """See `RealReader`."""
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
        """See `Stream`."""
        return DifferenceReader(self._pair, self._names, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """See `Stream`."""
        kernel = self._pair.take(positions).kernel(Scratch(positions.size))
        kernel.load(0, positions.size)
        return _vectors(kernel, self._names)


class PairStream(DifferenceStream):
    """The absolute and the relative differences of a pair of real arrays, then both arrays."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(pair, "absolute", "relative")
        sides = pair.value, pair.reference
        self.channels += len(sides)
        self.origins = (*self.origins, 0, 0)
        self.integral = (*self.integral, *(side.kind.integral for side in sides))

    @staticmethod
    def suits(pair: Pair) -> bool:
        """Whether float64 holds all elements of both arrays."""
        return all(side.kind in (Kind.NARROW, Kind.REAL) for side in (pair.value, pair.reference))

    def reader(self, scratch: Scratch) -> DifferenceReader:
        """See `Stream`."""
        return _PairReader(self._pair, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        """See `Stream`."""
        sides = self._pair.value, self._pair.reference
        taken = [side.take(positions).astype(np.float64) for side in sides]
        return (*super().sample(positions), *taken)


class _PairReader(DifferenceReader):
    def __init__(self, pair: Pair, scratch: Scratch) -> None:
        super().__init__(pair, ("absolute", "relative"), scratch)
        self._sides = [(side, scratch.floats()) for side in (pair.value, pair.reference)]

    def load(self, start: int, stop: int) -> Sequence[Reals]:
        sides = [flat.reals(start, stop, out) for flat, out in self._sides]
        self._channels = (*super().load(start, stop), *sides)
        return self._channels

    def extremes(self, channel: int) -> tuple[float, float]:
        if channel < len(self._names):
            return super().extremes(channel)
        return RealReader.extremes(self, channel)


def _vectors(kernel: Kernel, names: Sequence[Channel]) -> tuple[Floats, ...]:
    return tuple(kernel.absolute if name == "absolute" else kernel.relative() for name in names)
