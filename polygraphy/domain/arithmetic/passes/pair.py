"""Two arrays of one shape, and their differences as a stream of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.blocks import Scratch
from polygraphy.domain.arithmetic.passes.kernels import Kernel, kernel_for
from polygraphy.domain.arithmetic.passes.streams import RealReader, Stream
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Floats, Kind, Reals

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
