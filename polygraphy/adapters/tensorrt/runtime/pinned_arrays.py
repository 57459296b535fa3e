"""Arrays for large outputs, in pinned memory that comes back when their owner drops them."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import Device, PinnedBlock

_BLOCKS = 3
"""How many arrays at most: the one that is being written, the one before, which a caller that
assigns results to a variable still holds, and one more.
"""
_BYTES = 1 << 28
"""How much memory at most; what is pinned, no other process can have."""


class PinnedArrays:
    """Gives arrays that the device fills at full speed.

    An array belongs to its consumer: its memory is given again when nothing refers to it any
    more. Callers that keep all results get ordinary arrays once the pinned ones are used up, and so
    does the first call, because to pin memory takes about as long as to copy what is in it.
    """

    def __init__(self, device: Device) -> None:
        """Pin nothing yet."""
        self._device = device
        self._shelf = _Shelf(-1)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array, which holds whatever was in its memory before."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes != self._shelf.nbytes:  # The first one of its size.
            self.free()
            self._shelf = _Shelf(nbytes)
            return np.empty(shape, dtype)
        block = self._shelf.take(self._device)
        return np.empty(shape, dtype) if block is None else self._lent(block, shape, dtype)

    def _lent(self, block: PinnedBlock, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return the array; its views all refer to one object, with which the memory is back."""
        memory = (ctypes.c_uint8 * self._shelf.nbytes).from_address(block.address)
        weakref.finalize(memory, self._shelf.put_back, block).atexit = False
        return np.ctypeslib.as_array(memory).view(dtype).reshape(shape)

    def free(self) -> None:
        """Give back what is not lent out now, and the rest when it returns."""
        self._shelf.close()
        self._shelf = _Shelf(-1)


class _Shelf:
    """Blocks of one size. Arrays return at any moment and from any thread, so that a block is put
    down before anyone looks whether it is still wanted.

    Attributes:
        nbytes: the size of each block.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._unused: deque[PinnedBlock] = deque()
        self._count = 0
        self._is_closed = False

    def take(self, device: Device) -> PinnedBlock | None:
        """Return a block; None when there are enough of them already, or no more can be had."""
        with suppress(IndexError):
            return self._unused.pop()
        if self._count >= min(_BLOCKS, _BYTES // self.nbytes):
            return None
        self._count += 1
        try:
            return device.pin(self.nbytes)
        except BackendError as error:
            self._count = _BLOCKS  # Ordinary memory does it too.
            G_LOGGER.verbose(f"Outputs are copied to memory that is not pinned: {error}")
            return None

    def put_back(self, block: PinnedBlock) -> None:
        """Take a block back."""
        self._unused.append(block)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Free what is here, and from now on what comes back."""
        self._is_closed = True
        while self._unused:
            with suppress(IndexError):  # Another thread was quicker.
                self._unused.pop().free()
