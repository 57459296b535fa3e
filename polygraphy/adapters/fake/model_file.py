"""Model files without a disk."""

from __future__ import annotations

from typing import Any


class MemoryModelWriter:
    """Remembers what was written where.

    Attributes:
        written: the models by path; the same objects that were given.
    """

    def __init__(self) -> None:
        """Begin with no file."""
        self.written: dict[str, Any] = {}

    def write(self, model: Any, path: str) -> None:
        """Keep a model under a path."""
        self.written[path] = model
