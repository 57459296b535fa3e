"""Memory that belongs to a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DeviceMemory"]


class DeviceMemory(Protocol):
    """Allocates memory on one device and copies to and from it. Addresses are integers; sizes are
    bytes.
    """

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` of new memory; BackendError when there is not enough."""

    def free(self, address: int) -> None:
        """Give memory back; an address that is not allocated is a BackendError."""

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into memory that is at least as large."""

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Fill a contiguous host array from memory that is at least as large."""
