"""Tensors in files of the ONNX format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

__all__ = ["TensorFiles"]


class TensorFiles(Protocol):
    """Reads single tensors."""

    def read(self, path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
        """Return the name of a tensor, which may be empty, and its elements.

        Raises:
            FileError: the file is missing, damaged, or holds something else.
        """
