"""Memory that inputs, outputs and engines use for as long as a runner is active."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array
from polygraphy.ports.machine import Device, PinnedBlock


class DeviceBlock:
    """Device memory that grows when it must, and never shrinks.

    Attributes:
        address: where it is; 0 before it is first needed.
    """

    def __init__(self, device: Device) -> None:
        """Allocate nothing yet."""
        self._device = device
        self._capacity = -1
        self.address = 0

    def reserve(self, nbytes: int) -> int:
        """Make room for `nbytes` and return the address. What was there is lost where it grows.

        Raises:
            BackendError: there is not enough memory.
        """
        if nbytes > self._capacity:
            self.free()
            self.address = self._device.allocate(nbytes)
            self._capacity = nbytes
        return self.address

    def free(self) -> None:
        address, self.address, self._capacity = self.address, 0, -1
        if address:
            self._device.free(address)


class PinnedMemory:
    """Pinned host memory through which small arrays go; it grows when it must.

    Attributes:
        address: where it is; 0 before it is first needed.
    """

    def __init__(self, device: Device) -> None:
        """Allocate nothing yet."""
        self._device = device
        self._block: PinnedBlock | None = None
        self.address = 0

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return an array in this memory, which is valid until the next call."""
        nbytes = prod(shape) * dtype.itemsize
        if self._block is None or nbytes > self._block.array.nbytes:
            self.free()
            self._block = self._device.pin(nbytes)
            self.address = self._block.address
        return self._block.array[:nbytes].view(dtype).reshape(tuple(shape))

    def free(self) -> None:
        block, self._block, self.address = self._block, None, 0
        if block is not None:
            block.free()


class ReusedArrays:
    """Pins the memory of large arrays that a caller hands in again and again.

    The GPU copies pinned memory by itself, at about twice the speed. Pinning takes about as long as
    a copy, so it is done for an array that comes a second time; and it is undone before the memory
    goes back to where it came from, which a weak reference to its owner tells.
    """

    def __init__(self, device: Device) -> None:
        """Know no array yet."""
        self._device = device
        self._last: tuple[int, int] | None = None
        self._pinned: dict[tuple[int, int], weakref.finalize[Any, Any]] = {}

    def notice(self, array: Array) -> None:
        """Take note of a contiguous array that is about to be copied to the device."""
        key = (array.__array_interface__["data"][0], array.nbytes)
        if key in self._pinned:
            return
        if key != self._last:
            self._last = key
            return
        owner = _owner(array)
        if owner is not None and self._device.register(*key):
            undo = weakref.finalize(owner, self._forget, key)
            undo.atexit = False
            self._pinned[key] = undo

    def _forget(self, key: tuple[int, int]) -> None:
        if self._pinned.pop(key, None) is not None:
            self._device.unregister(key[0])

    def free(self) -> None:
        """Undo everything."""
        for key, undo in list(self._pinned.items()):
            undo.detach()
            self._forget(key)
        self._last = None


def _owner(array: Array) -> Array | None:
    """Return the array that owns the memory; None where something else does."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None and array.flags.owndata else None
