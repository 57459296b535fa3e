"""Files in memory: texts, models, and spools."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath
from typing import Any

from polygraphy.domain.errors import FileError, MissingFileError


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
            raise MissingFileError(f"Could not read {path}: nothing was written there.", path=path)
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


class MemorySpools:
    """Opens spools in memory, and remembers them as `opened`.

    Args:
        room: how many bytes there is room for in each; None for any number.
    """

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.opened: list[MemorySpool] = []

    def open(self) -> MemorySpool:
        """Return an empty spool."""
        self.opened.append(MemorySpool(self.room))
        return self.opened[-1]


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
