"""Where results and other files are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:

    from polygraphy.domain.accuracy.answer_log import Spool
    from polygraphy.domain.model.plugins import PluginMatch
    from polygraphy.domain.search.debug_replay import DebugReplay
    from polygraphy.domain.sharding import ShardHints
    from polygraphy.domain.tactics import TacticReplay


T = TypeVar("T")


T_contra = TypeVar("T_contra", contravariant=True)


class Spools(Protocol):
    """Opens spools."""

    def open(self) -> Spool:
        """Return an empty spool, which costs nothing before something is put into it."""


class TextFiles(Protocol):
    """Reads text files, and writes them whole or not at all."""

    def read(self, path: str) -> str:
        """Return what a file in UTF-8 holds; FileError when it cannot be read, or is no text."""

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Write a file, in UTF-8; FileError when that cannot be done."""


class WorkFiles(Protocol):
    """Handles files and folders whatever is in them."""

    def exists(self, path: str) -> bool:
        """Return whether there is something at a path."""

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

    def write(self, path: str, text: str) -> None:
        """Write a text that is not needed after a crash.

        Raises:
            FileError: it cannot be written.
        """

    def temporary(self) -> str:
        """Return the path of a new empty file, which nothing else uses."""

    def mirror(self, folder: str, besides: Collection[str]) -> None:
        """Make a folder in which everything is that the current folder holds, by links: commands
        can run there side by side.

        Args:
            folder: its path.
            besides: paths of files and folders that are left out, relative to the current folder;
                what holds one of them is a folder, too, and no link.

        Raises:
            FileError: it cannot be made.
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


class MatchFiles(Protocol):
    """Reads and writes files that people edit."""

    def read(self, path: str) -> list[PluginMatch]:
        """Return what a file holds; FileError when it holds something else."""

    def write(self, path: str, matches: Sequence[PluginMatch]) -> None:
        """Write a file; FileError when it cannot be written."""


class ReplayFolders(Protocol):
    """Finds replays in files and folders."""

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder at a path."""

    def load(self, path: str) -> list[TacticReplay]:
        """Read one replay file, or all those in a folder and the folders in it, in the order of
        their paths.

        Raises:
            FileError: there is nothing at the path; or it is a file, and no replay. In a folder,
                files that are no replays are left out: others may be kept beside them.
        """


class ShardHintFiles(Protocol):
    """Reads and writes files that people edit."""

    def read(self, path: str) -> ShardHints:
        """Return what a file holds; FileError when it holds something else."""

    def write(self, path: str, hints: ShardHints) -> None:
        """Write a file; FileError when it cannot be written."""
