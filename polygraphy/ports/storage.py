"""Ports for results and other files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from polygraphy.binding import port

if TYPE_CHECKING:

    from polygraphy.domain.accuracy.answer_log import Spool
    from polygraphy.domain.model.plugins import PluginMatch
    from polygraphy.domain.profiling.execution import ExecutionProfile
    from polygraphy.domain.search.debug_replay import DebugReplay
    from polygraphy.domain.sharding import ShardHints
    from polygraphy.domain.tactics import TacticReplay


T = TypeVar("T")


T_contra = TypeVar("T_contra", contravariant=True)


@port
def open_spool() -> Spool:
    """Return an empty spool; nothing is allocated before something is added."""


@port
def read_text(path: str) -> str:
    """Return the text in a UTF-8 file; raise FileError if it cannot be read, or is not text."""


@port
def write_text(path: str, text: str, *, executable: bool = False) -> None:
    """Write a UTF-8 file; raise FileError if that fails."""


@port
def path_exists(path: str) -> bool:
    """Return whether a file or folder exists at a path."""


@port
def check_writable(path: str) -> None:
    """Raise FileError if a file cannot be written; nothing is left at its path.

    Raises:
        FileError: it cannot be.
    """


@port
def hold_folder(path: str) -> Callable[[], None] | None:
    """Create a folder and lock it for this process; return the function that unlocks it, or None if
    another process, or another caller in this one, has locked it.

    Raises:
        FileError: it cannot be created.
    """


@port
def remove_path(path: str) -> None:
    """Remove the file or folder at a path, if there is one.

    Raises:
        FileError: it cannot be removed.
    """


@port
def copy_file(path: str, target: str) -> None:
    """Write a copy of a file; do nothing if the file is missing.

    Raises:
        FileError: it cannot be written.
    """


@port
def move_into_folder(path: str, folder: str, label: str) -> str | None:
    """Move a file or a folder into a folder; return its new path, or None if it does not exist.
    The new name has a label before the extension, and a number if the name exists.

    Raises:
        FileError: it cannot be moved.
    """


@port
def write_scratch(path: str, text: str) -> None:
    """Write a text that is not needed after a crash.

    Raises:
        FileError: it cannot be written.
    """


@port
def temporary_path() -> str:
    """Return the path of a new empty file, which nothing else uses."""


@port
def mirror_folder(folder: str, besides: Collection[str]) -> None:
    """Create a folder with links to everything in the current folder,
    so that commands can run in it in parallel.

    Args:
        folder: its path.
        besides: paths of files and folders that are left out, relative to the current folder;
            what holds one of them is a folder, too, and no link.

    Raises:
        FileError: it cannot be made.
    """


@port
def start_label() -> str:
    """Return the time when this process started, as a label for file names."""


@port
def load_debug_replay(path: str) -> DebugReplay:
    """Return the debug replay in a file.

    Raises:
        FileError: it is missing or damaged, or holds something else.
    """


@port
def save_debug_replay(replay: DebugReplay, path: str) -> None:
    """Write a debug replay to a file atomically; raise FileError if that fails."""


@port
def read_matches(path: str) -> list[PluginMatch]:
    """Return the plugin matches in a file; raise FileError for other contents."""


@port
def write_matches(path: str, matches: Sequence[PluginMatch]) -> None:
    """Write plugin matches to a file; raise FileError if that fails."""


@port
def load_tactic_replays(path: str) -> list[TacticReplay]:
    """Return the tactic replays in a file, or in a folder and its subfolders, in the order of their
    paths.

    Raises:
        FileError: there is nothing at the path; or it is a file, and no replay. In a folder,
            files that are no replays are left out: others may be kept beside them.
    """


@port
def save_profiles(profiles: Sequence[ExecutionProfile], path: str) -> None:
    """Save execution profiles, with the nodes of their model and the executed graphs.

    Raises:
        FileError: the file cannot be written.
    """


@port
def load_profiles(path: str, layers: str | None = None) -> list[ExecutionProfile]:
    """Return execution profiles: from `save_profiles`, ONNX Runtime, trtexec or OpenVINO.

    Args:
        path: the file.
        layers: the executed layers: the graph of ONNX Runtime, or the layers of trtexec.

    Raises:
        FileError: the file is missing, damaged, or has another format.
    """


@port
def read_shard_hints(path: str) -> ShardHints:
    """Return the shard hints in a file; raise FileError for other contents."""


@port
def write_shard_hints(path: str, hints: ShardHints) -> None:
    """Write shard hints to a file; raise FileError if that fails."""
