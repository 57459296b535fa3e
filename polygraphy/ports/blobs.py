"""Bare bytes of tensors, in files of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.ports.store import ResultWriter

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BlobFiles"]


class BlobFiles(Protocol):
    """Keeps the elements of arrays as they are in memory, without data type and shape.

    A folder has one folder per iteration, named by ten digits, with one file per tensor. A folder
    with files and no such folders is one iteration; so is a single file, of one tensor.
    """

    def holds_blobs(self, source: str | Path) -> bool:
        """Tell whether a path is of such a file or folder."""

    def iterate(self, source: str | Path) -> Iterator[Mapping[str, bytes]]:
        """Yield per iteration the bytes of each tensor; FileError when a file cannot be read."""

    def writer(self, folder: str | Path) -> AbstractContextManager[ResultWriter[Mapping[str, Any]]]:
        """Open a folder to write one feed dictionary per iteration. Files of earlier runs are
        replaced, each whole or not at all.

        Raises:
            FileError: a file cannot be written, or the name of a tensor leads out of the folder.
        """
