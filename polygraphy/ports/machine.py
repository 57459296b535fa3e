"""What the machine has to offer to this process."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Machine"]


class Machine(Protocol):
    """Tells how much of the machine this process may use."""

    def cores(self) -> int:
        """Return how many cores it may run on, at least one."""

    def free_memory(self) -> int:
        """Return how many bytes of memory it could still take without swapping."""

    def release_memory(self) -> None:
        """Give memory that this process holds, but does not use, back to the system."""
