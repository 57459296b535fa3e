"""Writes iterations to ``.safetensors`` files: one to a file, several to a folder of such."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from polygraphy.adapters.files.formats.binary import TENSORS, tensors_of
from polygraphy.adapters.files.formats.safetensors_format import write_tensors
from polygraphy.adapters.files.json.content_error import content_errors_named
from polygraphy.adapters.os.parts import make_part_folder
from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import RunResults


def save_tensors(item: Mapping[str, Any] | RunResults, path: Path) -> None:
    """Write one iteration to one file, whole or not at all; FileError when that cannot be done."""
    with content_errors_named(f"save to {path}", path):
        tensors, description = tensors_of(item)
        with atomic_file(path) as stream:
            write_tensors(stream, tensors, description)


class TensorWriter:
    """Writes one file per iteration beside the place where they belong.

    When all is written, a single file takes the place of the path; several become a folder of that
    name.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._files: list[Path] = []
        self._has_failed = False

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[TensorWriter]:
        """Open a writer; after an error, nothing of what it wrote is left."""
        target = Path(os.path.realpath(ensure_parent(path)))  # A symbolic link stays one.
        with translated_os_errors(path, "write"):
            lock, folder = make_part_folder(target)
        try:
            writer = cls(target, folder)
            yield writer
            writer._finish()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                os.close(lock)

    def add(self, item: Mapping[str, Any] | RunResults) -> None:
        """Write one iteration; FileError when that cannot be done."""
        if self._has_failed:
            message = f"{self._path} is not written: an earlier item could not be."
            raise FileError(message, path=self._path)
        self._has_failed = True
        file = self._folder / f"{len(self._files):010}{TENSORS}"
        with content_errors_named(f"save to {self._path}", self._path):
            tensors, description = tensors_of(item)
            with translated_os_errors(self._path, "write"), file.open("wb") as stream:
                write_tensors(stream, tensors, description)
                stream.flush()
                os.fsync(stream.fileno())
        self._files.append(file)
        self._has_failed = False

    def _finish(self) -> None:
        if self._has_failed:
            message = f"{self._path} is not written: an earlier item could not be."
            raise FileError(message, path=self._path)
        with translated_os_errors(self._path, "write"):
            if len(self._files) == 1 and not self._path.is_dir():
                self._files[0].replace(self._path)
                return
            self._folder.chmod(0o777 & ~_mask())
            self._replace_by_folder()

    def _replace_by_folder(self) -> None:
        """Put the folder in place of an empty folder, of a file, or of nothing."""
        if not self._path.is_file():
            self._folder.replace(self._path)
            return
        aside = self._path.with_name(f"{self._folder.name}.old")
        self._path.replace(aside)
        try:
            self._folder.replace(self._path)
        except BaseException:
            aside.replace(self._path)
            raise
        with suppress(OSError):
            aside.unlink()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
