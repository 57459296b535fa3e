"""Device memory that is host memory, and strict about its use."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from polygraphy.domain.errors import BackendError

_ALIGNMENT = 256
_FIRST_ADDRESS = 0x7F00_0000_0000
_UNWRITTEN = 0xA5


class HostMemory:
    """Stands in for the memory of a device, and refuses what a device would only do by accident.

    Addresses are made up, so that none can be followed by mistake, and are never used twice, so
    that one that was freed is noticed. As on a device, an address may point into the middle of an
    allocation, and new memory holds garbage: the byte 0xA5 throughout.
    """

    def __init__(self, capacity: int | None = None) -> None:
        """Set how many bytes there are (default: no limit)."""
        self._capacity = capacity
        self._next_address = _FIRST_ADDRESS
        self._buffers: dict[int, np.ndarray[Any, Any]] = {}

    @property
    def outstanding(self) -> dict[int, int]:
        """What was allocated and not freed: addresses, and their sizes in bytes."""
        return {address: buffer.nbytes for address, buffer in self._buffers.items()}

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` of new memory; BackendError when there is not enough."""
        if nbytes < 0:
            raise BackendError(f"Memory cannot have a size of {nbytes} bytes.", backend="fake")
        in_use = sum(self.outstanding.values())
        if self._capacity is not None and in_use + nbytes > self._capacity:
            raise BackendError(
                f"Out of memory: {nbytes} bytes were asked for, but {in_use} of {self._capacity}"
                " are in use.",
                backend="fake",
            )
        address = self._next_address
        # At least one byte of distance, so that the end of one allocation is not the start of
        # the next.
        self._next_address += (nbytes // _ALIGNMENT + 1) * _ALIGNMENT
        self._buffers[address] = np.full(nbytes, _UNWRITTEN, dtype=np.uint8)
        return address

    def free(self, address: int) -> None:
        """Give memory back; an address that is not allocated is a BackendError."""
        if address not in self._buffers:
            raise BackendError(
                f"Address {address:#x} cannot be freed: it is not allocated, or is freed already.",
                backend="fake",
            )
        del self._buffers[address]

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into memory; BackendError when it does not fit."""
        target = self._span(address, source)
        target[...] = source.reshape(-1).view(np.uint8)

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Fill a contiguous host array from memory; BackendError when there are too few bytes."""
        source = self._span(address, target)
        if not target.flags.writeable:
            raise BackendError("The host array cannot be written.", backend="fake")
        target.reshape(-1).view(np.uint8)[...] = source

    def _span(self, address: int, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the bytes at `address` that an array is copied to or from."""
        if not array.flags.c_contiguous:
            raise BackendError("Only contiguous host arrays can be copied.", backend="fake")
        starts = list(self._buffers)  # In ascending order: addresses only ever grow.
        position = bisect_right(starts, address) - 1
        start = starts[position] if position >= 0 else None
        if start is None or address - start > self._buffers[start].nbytes:
            raise BackendError(f"Address {address:#x} is not allocated.", backend="fake")
        span = self._buffers[start][address - start :]
        if array.nbytes > span.nbytes:
            raise BackendError(
                f"{array.nbytes} bytes at {address:#x} are more than the {span.nbytes} that are"
                " allocated there.",
                backend="fake",
            )
        return span[: array.nbytes]
