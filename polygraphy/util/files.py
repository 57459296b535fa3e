"""Files that are read with a clear complaint, written whole or not at all, and locked."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from polygraphy.adapters.os.paths import (
    atomic_file,
    ensure_parent,
    readable_file,
    translated_os_errors,
)
from polygraphy.logger import G_LOGGER

__all__ = [
    "LockFile",
    "NamedTemporaryFile",
    "add_file_suffix",
    "find_in_dirs",
    "get_file_size",
    "load_file",
    "makedirs",
    "sanitize_filename",
    "save_file",
]


class NamedTemporaryFile:
    """A temporary file that goes at the end of its `with` block, and can be opened by name before.

    Attributes:
        name: its path.
    """

    def __init__(
        self, mode: str | None = None, prefix: str | None = None, suffix: str | None = None
    ) -> None:
        """Make the file; `mode` is that of the stream (default: ``wb+``)."""
        self._stream: IO[Any] = tempfile.NamedTemporaryFile(  # noqa: SIM115
            mode or "wb+", prefix=prefix, suffix=suffix, delete=False
        )
        self.name = self._stream.name

    def __enter__(self) -> NamedTemporaryFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()
        Path(self.name).unlink(missing_ok=True)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self._stream, name)


class LockFile:
    """Keeps other processes and threads that lock the same path waiting for the length of a `with`
    block. The path itself is neither made nor touched; a file beside it, ``.lock`` at its end, is.
    """

    def __init__(self, path: str | Path) -> None:
        """Name what is locked."""
        from filelock import FileLock

        self._lock = FileLock(f"{ensure_parent(path)}.lock")

    def __enter__(self) -> None:
        """Wait until no other process holds the lock, and hold it."""
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


def load_file(src: str | Path | IO[Any], mode: str = "rb", description: str | None = None) -> Any:
    """Return what a file, or a stream, holds.

    Args:
        src: a path, or a stream, which is read from its beginning if it can be.
        mode: ``rb`` for bytes, ``r`` for text.
        description: what it holds, for the log.

    Raises:
        FileError: the file is missing or cannot be read.
    """
    if not isinstance(src, (str, Path)):
        if src.seekable():
            src.seek(0)
        return src.read()
    if description is not None:
        G_LOGGER.info(f"Loading {description} from {src}")
    path = readable_file(src, may_be_empty=True)
    with translated_os_errors(path, "read"):
        return path.read_bytes() if "b" in mode else path.read_text(encoding="utf-8")


def save_file(
    contents: Any, dest: str | Path | IO[Any], mode: str = "wb", description: str | None = None
) -> Any:
    """Write bytes or text, and return the destination.

    Args:
        contents: what is written.
        dest: a path, whose file is written whole or not at all, and in place where it is empty; or
            a stream.
        mode: ``wb`` for bytes, ``w`` for text.
        description: what it is, for the log.

    Raises:
        FileError: the file cannot be written.
    """
    if not isinstance(dest, (str, Path)):
        dest.write(contents)
        dest.flush()
        return dest
    if description is not None:
        G_LOGGER.info(f"Saving {description} to {dest}")
    with atomic_file(dest, mode) as stream:
        stream.write(contents)
    return dest


def find_in_dirs(name_glob: str, dirs: Iterable[str | Path]) -> list[str]:
    """Return the paths below some folders, at any depth where the pattern says so (``**``), that
    match a pattern; in order, folder by folder.
    """
    return [str(path) for folder in dirs for path in sorted(Path(folder).glob(name_glob))]


def makedirs(path: str | Path) -> None:
    """Make the folder that a path lies in.

    Raises:
        FileError: it cannot be made.
    """
    ensure_parent(path)


def get_file_size(src: str | Path | IO[Any]) -> int:
    """Return the size of a file, or of what a stream holds, in bytes.

    Raises:
        FileError: the file does not exist.
    """
    if isinstance(src, (str, Path)):
        with translated_os_errors(src, "look at"):
            return Path(src).stat().st_size
    position = src.tell()
    size = src.seek(0, 2)
    src.seek(position)
    return size


def add_file_suffix(path: str, suffix: str) -> str:
    """Return a path with a text before its extension: ``a_1.onnx`` of ``a.onnx`` and ``_1``."""
    parsed = Path(path)
    return str(parsed.with_name(f"{parsed.stem}{suffix}{parsed.suffix}"))


def sanitize_filename(path: str) -> str:
    """Return a text as the name of a file on any system: what may be none becomes ``_``."""
    name = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", path).rstrip(". ")
    return name or "_"
