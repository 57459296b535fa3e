"""Where results and other files are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar, Union

if TYPE_CHECKING:
    from pathlib import Path

    from polygraphy.domain.accuracy.answer_log import Spool
    from polygraphy.domain.model.plugins import PluginMatch
    from polygraphy.domain.search.debug_replay import DebugReplay
    from polygraphy.domain.sharding import ShardHints
    from polygraphy.domain.tactics.tactics import TacticReplay


T = TypeVar("T")


T_contra = TypeVar("T_contra", contravariant=True)


PathOrFile = Union[str, "Path", IO[Any]]


class ResultWriter(Protocol[T_contra]):
    """Takes one item after another; what was added is kept when the `with` block around it ends
    without an error.
    """

    def add(self, item: T_contra) -> None:
        """Append one item."""


class Stored(Protocol):
    """What a file or folder holds, looked into without reading its arrays.

    Attributes:
        kind: `dict` for feed dictionaries, `RunResults` or `AccuracyResults`.
        runs: name of each runner, and how many iterations it has; of feed dictionaries there is one
            run, whose name is empty; of accuracy results there is none.
    """

    kind: type
    runs: tuple[tuple[str, int], ...]

    def iterations(self) -> Iterator[Any]:
        """Yield feed dictionaries, or RunResults of one iteration each, in which a runner that has
        no more iterations has none. May be called again.
        """

    def value(self) -> Any:
        """Return everything in one piece; feed dictionaries as a list."""


class ResultStore(Protocol):
    """Saves and loads what this package produces: feed dictionaries, run results, accuracy results,
    replays.

    A path with a file extension is one file; a path without is a folder that holds one file per
    iteration. A file is either written whole or left as it was.
    """

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Write `value` to one file; FileError when that cannot be done."""

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Read one file; FileError when it is missing, damaged, or does not hold a `kind`."""

    def dumps(self, value: Any) -> str:
        """Return `value` as JSON text."""

    def loads(self, text: str, kind: type[T]) -> T:
        """Read JSON text; FileError when it is damaged or does not hold a `kind`."""

    def writer(self, dest: str | Path, kind: type[T]) -> AbstractContextManager[ResultWriter[T]]:
        """Open a file or folder for writing one item per iteration, in bounded memory where the
        format allows it.
        """

    def add_comparison(self, dest: str | Path, record: Mapping[str, Any]) -> None:
        """Add what a comparison found, in plain values by output, to results that were saved to one
        file; FileError when that cannot be done.
        """

    def iterate(self, source: str | Path, kind: type[T]) -> Iterator[T]:
        """Yield the items of a file or folder, one per iteration, lazily. A missing source is an
        error at the call.
        """

    def look_into(self, source: str | Path) -> Stored:
        """Find out what a file or folder holds; FileError when it is missing, damaged, or nothing
        that consists of arrays or verdicts.
        """


class Spools(Protocol):
    """Opens spools."""

    def open(self) -> Spool:
        """Return an empty spool, which costs nothing before something is put into it."""


class BlobFiles(Protocol):
    """Keeps the elements of arrays as they are in memory, without data type and shape.

    A folder has one folder per iteration, named by ten digits, with one file per tensor. A folder
    with files and no such folders is one iteration; so is a single file, of one tensor.
    """

    def holds_blobs(self, source: str | Path) -> bool:
        """Return whether a path is of such a file or folder."""

    def iterate(self, source: str | Path) -> Iterator[Mapping[str, bytes]]:
        """Yield per iteration the bytes of each tensor; FileError when a file cannot be read."""

    def writer(self, folder: str | Path) -> AbstractContextManager[ResultWriter[Mapping[str, Any]]]:
        """Open a folder to write one feed dictionary per iteration. Files of earlier runs are
        replaced, each whole or not at all.

        Raises:
            FileError: a file cannot be written, or the name of a tensor leads out of the folder.
        """


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
