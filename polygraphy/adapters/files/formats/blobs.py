"""Files of raw tensor bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.logger import G_LOGGER

SUFFIXES = (".bin", ".raw")


def holds_blobs(source: str | Path) -> bool:
    """Return whether a path is a ``.bin`` or ``.raw`` file, or a folder with such files."""
    path = Path(source)
    if not path.is_dir():
        return path.suffix.lower() in SUFFIXES
    return next(_blob_files(path), None) is not None


def iterate_blobs(source: str | Path) -> Iterator[Mapping[str, bytes]]:
    """Yield the bytes of each tensor, by name, for each iteration."""
    path = Path(source)
    G_LOGGER.progress(f"Loading input data from {path}")
    if not path.is_dir():
        yield {path.stem: _file_bytes(readable_file(path, "File of input data"))}
        return
    for folder in _iteration_folders(path):
        yield {
            str(PurePosixPath(file.relative_to(folder).with_suffix(""))): _file_bytes(file)
            for file in sorted(_blob_files(folder))
        }


@contextmanager
def blob_writer(folder: str | Path) -> Iterator[_BlobWriter]:
    """Yield a writer of one feed dictionary per iteration to a folder.
    Raise FileError if it cannot be written.
    """
    writer = _BlobWriter(Path(folder))
    yield writer
    writer.remove_earlier()


class _BlobWriter:
    """Writes feed dictionaries as files of raw bytes."""

    def __init__(self, folder: Path) -> None:
        """Set the folder to write to."""
        self._folder = folder
        self._count = 0
        self._files: set[Path] = set()

    def add(self, item: Mapping[str, Any]) -> None:
        """Write one feed dictionary."""
        folder = self._folder / f"{self._count:010}"
        self._count += 1
        for name, array in item.items():
            path = folder / f"{name}.bin"
            if not path.resolve().is_relative_to(folder.resolve()) or "\0" in name:
                raise FileError(
                    f"Input {name!r} cannot be saved as a file: its name points outside {folder}.",
                    path=folder,
                )
            plain = np.asarray(array.detach().cpu() if is_tensor(array) else array)
            with atomic_file(path) as stream:
                stream.write(np.ascontiguousarray(plain).tobytes())
            self._files.add(path.resolve())

    def remove_earlier(self) -> None:
        """Remove the files of an earlier run with more iterations or inputs,
        which would be read together with those of this run."""
        if not self._count:
            return
        with translate_os_errors(self._folder, "replace the files of"):
            for folder in _numbered_folders(self._folder):
                for file in folder.rglob("*.bin"):
                    if file.resolve() not in self._files:
                        file.unlink()
                if not any(folder.iterdir()):
                    folder.rmdir()


def _blob_files(folder: Path) -> Iterator[Path]:
    """Yield the files of raw data in a folder and its subfolders."""
    return (file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())


def _iteration_folders(path: Path) -> list[Path]:
    """Return the folders of the iterations; the folder itself if it holds a single one."""
    with translate_os_errors(path, "read the folder"):
        return _numbered_folders(path) or [path]


def _numbered_folders(path: Path) -> list[Path]:
    """Return the folders in a folder that are named after the number of an iteration."""
    return sorted(
        entry
        for entry in path.iterdir()
        if entry.is_dir() and len(entry.name) == 10 and entry.name.isdecimal()
    )


def _file_bytes(file: Path) -> bytes:
    """Return the bytes of a file; raise FileError if it cannot be read."""
    with translate_os_errors(file, "read"):
        return file.read_bytes()
