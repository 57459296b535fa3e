"""Models that are too large for anything but files."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["ModelWriter"]


class ModelWriter(Protocol):
    """Writes models to files."""

    def write(self, model: Any, path: str) -> None:
        """Write an ``onnx.ModelProto`` of any size to `path`, and its weights beside it.

        Raises:
            FileError: a file cannot be written.
        """
