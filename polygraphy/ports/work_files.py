"""Files that come and go while something is searched for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.debug_replay import DebugReplay

__all__ = ["DebugReplays", "WorkFiles"]


class WorkFiles(Protocol):
    """Handles files and folders whatever is in them."""

    def exists(self, path: str) -> bool:
        """Tell whether there is something at a path."""

    def check_writable(self, path: str) -> None:
        """Find out whether a file can be written, without leaving anything there.

        Raises:
            FileError: it cannot be.
        """

    def remove(self, path: str) -> None:
        """Remove what is at a path, if anything is.

        Raises:
            FileError: it cannot be removed.
        """

    def copy(self, path: str, target: str) -> None:
        """Write a copy of a file; nothing where the file is missing.

        Raises:
            FileError: it cannot be written.
        """

    def sort(self, path: str, folder: str, label: str) -> str | None:
        """Move a file or a folder into another folder, under its name with a label appended in
        front of the extension, and a number if there is one of that name.

        Returns:
            Where it is now; None where there was nothing to move.

        Raises:
            FileError: it cannot be moved.
        """

    def started(self) -> str:
        """Return when this process started, as labels tell it."""


class DebugReplays(Protocol):
    """Keeps what was found out in files."""

    def load(self, path: str) -> DebugReplay:
        """Read a file.

        Raises:
            FileError: it is missing or damaged, or holds something else.
        """

    def save(self, replay: DebugReplay, path: str) -> None:
        """Write a file, whole or not at all; FileError when that cannot be done."""
