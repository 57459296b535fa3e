"""Where text is written."""

from __future__ import annotations

from typing import Protocol

__all__ = ["TextFiles"]


class TextFiles(Protocol):
    """Writes text files, whole or not at all."""

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Write a file, in UTF-8; FileError when that cannot be done."""
