"""Text files that are kept in memory."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from polygraphy.domain.errors import FileError


class MemoryTextFiles:
    """Keeps the text of files.

    Attributes:
        files: the content of each file, encoded in UTF-8, by its path.
        executable: the paths of those that are executable; a file that is replaced stays so.
    """

    def __init__(self, unwritable: Collection[str] = ()) -> None:
        """Name the paths that cannot be written."""
        self.files: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self._unwritable = {_normal(path) for path in unwritable}

    def read(self, path: str) -> str:
        """Return a text; FileError where nothing was written."""
        if _normal(path) not in self.files:
            raise FileError(f"Could not read {path}: nothing was written there.", path=path)
        return self.files[_normal(path)].decode()

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Keep a text; FileError for what a disk could not hold either."""
        key = _normal(path)
        if key in self._unwritable:
            raise FileError(f"Could not write {path}, as requested.", path=path)
        if any(key in _folders(other) for other in self.files):
            raise FileError(f"{path} is a folder.", path=path, hint="Name a file.")
        blocking = [folder for folder in _folders(key) if folder in self.files]
        if blocking:
            raise FileError(f"Could not write {path}: {blocking[0]} is no folder.", path=path)
        try:
            content = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise FileError(f"Could not write {path}: {error}.", path=path) from error
        self.files[key] = content
        if executable:
            self.executable.add(key)


def _normal(path: str) -> str:
    return str(PurePath(path))


def _folders(path: str) -> list[str]:
    """Return the folders that a path lies in."""
    return [str(folder) for folder in PurePath(path).parents]
