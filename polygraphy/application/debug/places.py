"""Where the files of a check are: in the current folder, or in one for each of several jobs."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path, PurePath

from attrs import define, field

from polygraphy.ports.storage import mirror_folder, remove_path


@define
class Place:
    """Where one check runs.

    Attributes:
        folder: the folder; None for the current one.
        files: where the files are that each check has for itself, by their paths otherwise.
    """

    folder: str | None = None
    files: dict[str, str] = field(factory=dict)

    def path(self, path: str) -> str:
        """Return where a file is here."""
        return self.files.get(path, path)

    def texts(self) -> dict[str, str]:
        """Return which texts in a command stand for files that are elsewhere here; a relative path
        finds its file by itself.
        """
        texts = {}
        for path, here in self.files.items():
            own = str(Path(here).absolute())
            texts[str(Path(path).absolute())] = own
            if not _is_inside(path):
                texts[path] = own
        return texts


class Places:
    """Folders for checks that run side by side. In each is all that the current folder holds, by
    links, apart from the files that each check has for itself.
    """

    def __init__(self, folder: str, count: int, files: Sequence[str]) -> None:
        """Set how many there are.

        Args:
            folder: in which they are made, when they are needed.
            count: how many.
            files: what each check has for itself.
        """
        self._folder = folder
        self._files = list(files)
        self._numbers = list(range(count, 0, -1))
        self._free: list[Place] = []

    def take(self) -> Place | None:
        """Return a place that is not in use; None where there is none."""
        if self._free:
            return self._free.pop()
        if not self._numbers:
            return None
        folder = posixpath.join(self._folder, str(self._numbers.pop()))
        remove_path(folder)
        mirror_folder(folder, [self._folder, *self._files])
        files = {path: posixpath.join(folder, _name(path)) for path in self._files}
        return Place(folder, files)

    def give_back(self, place: Place) -> None:
        """Take a place back, whose files have been removed."""
        self._free.append(place)

    def close(self) -> None:
        """Remove all of them."""
        self._free.clear()
        remove_path(self._folder)


def _is_inside(path: str) -> bool:
    """Return whether a path leads to something in the current folder, from there."""
    return not PurePath(path).is_absolute() and ".." not in PurePath(path).parts


def _name(path: str) -> str:
    return path if _is_inside(path) else PurePath(path).name
