"""A spool in memory."""

from __future__ import annotations

from polygraphy.domain.errors import FileError


class MemorySpool:
    """Keeps bytes in memory.

    Args:
        room: how many bytes there is room for; None for any number.
    """

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.kept: list[bytes] = []

    def put(self, data: bytes) -> int:
        """Keep bytes."""
        if self.room is not None and sum(map(len, self.kept)) + len(data) > self.room:
            raise FileError("There is no room left.")
        self.kept.append(data)
        return len(self.kept) - 1

    def take(self, ticket: int) -> bytes:
        """Return bytes."""
        return self.kept[ticket]
