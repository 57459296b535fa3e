"""Room outside of memory for what may be needed again."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Spool", "Spools"]


class Spool(Protocol):
    """Keeps bytes until it is dropped itself."""

    def put(self, data: bytes) -> int:
        """Keep bytes; return the ticket for them. FileError when there is no room."""

    def take(self, ticket: int) -> bytes:
        """Return the bytes of a ticket, as often as asked. FileError when they cannot be read."""


class Spools(Protocol):
    """Opens spools."""

    def open(self) -> Spool:
        """Return an empty spool, which costs nothing before something is put into it."""
