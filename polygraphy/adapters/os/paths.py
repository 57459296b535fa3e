"""Reads files with clear errors, and writes them completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from polygraphy.domain.errors import FileError, MissingFileError

try:
    import fcntl
except ImportError:  # Windows cannot remove open files.
    fcntl = None  # type: ignore[assignment]


_SUFFIX = ".part"
# Longest name in bytes, without the suffix of temporary files.
_LONGEST = 255 - len(".12345678.part") - 1
_RANDOM = r"\.[a-z0-9_]{8}"

STAYS_OPEN = fcntl is not None
"""Whether an open file can be renamed, so that it stays locked until then."""


def create_temporary_file(target: Path) -> tuple[int, str]:
    """Create a temporary file next to a path; return its descriptor and its path.
    The descriptor holds the lock.
    """
    import tempfile

    _remove_leftovers(target)
    while True:
        descriptor, path = tempfile.mkstemp(
            dir=target.parent, prefix=f".{short_name(target)}.", suffix=_SUFFIX
        )
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)  # Another process cleaned up before it was locked.


def create_temporary_folder(target: Path) -> tuple[int | None, Path]:
    """Create a temporary folder next to a path; return the descriptor of its lock, and its path.
    The descriptor is None if there is no lock.
    """
    import tempfile

    _remove_leftovers(target)
    prefix = f".{short_name(target)}."
    path = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix, suffix=_SUFFIX))
    if fcntl is None:
        return None, path
    descriptor = os.open(path, os.O_RDONLY)
    _lock(descriptor)
    return descriptor, path


def short_name(target: Path) -> str:
    """Return the name of a file, or a checksum if names derived from it would be too long."""
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST:
        return target.name
    from hashlib import blake2b

    return blake2b(name, digest_size=16).hexdigest()


def is_abandoned(path: Path) -> bool:
    """Return whether no living process writes a file or folder; False if that is unknown."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _lock(descriptor: int) -> None:
    """Lock an open file for this process, if the system can."""
    if fcntl is not None:
        with suppress(OSError):  # Not every file system supports locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary files that ended processes left for a file."""
    for path in _leftover_files(target):
        if not is_abandoned(path):
            continue
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _leftover_files(target: Path) -> Iterator[Path]:
    """Yield the temporary files next to a path that earlier writes left."""
    name = re.compile(re.escape(f".{short_name(target)}") + _RANDOM + re.escape(_SUFFIX))
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(".") and name.fullmatch(entry.name):
                yield Path(entry.path)


_CHUNK = 1 << 22


def check_size(path: str | Path, most: int, hint: str) -> None:
    """Raise FileError if a file that must be read as a whole has more than `most` bytes."""
    size = Path(path).stat().st_size
    if size > most:
        raise FileError(
            f"{path} has {size >> 20} MiB; at most {most >> 20} MiB are read.", path=path, hint=hint
        )


def readable_file(path: str | Path, what: str = "File", *, may_be_empty: bool = False) -> Path:
    """Return the path of an existing, readable file, which is not empty unless it may be.

    Raises:
        FileError: it is missing, a folder, a device, unreadable or empty.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(
            f"{what} {path} is a folder.", path=path, hint="Use the path of the file itself."
        )
    if not path.exists():
        if path.is_symlink():
            raise MissingFileError(
                f"{what} {path} is a link to {path.readlink()}, which {_why_missing(path)}.",
                path=path,
                hint="Fix the link, or use the path of the file itself.",
            )
        raise MissingFileError(
            f"{what} {path} does not exist: {MissingFileError.strerror}.",
            path=path,
            hint=_path_hint(path),
        )
    if not os.access(path, os.R_OK):
        raise FileError(f"{what} {path} cannot be read.", path=path, hint="Check its permissions.")
    if path.is_block_device() or (path.is_char_device() and not may_be_empty):
        # Some devices, such as /dev/zero, never end.
        raise FileError(f"{what} {path} is a device.", path=path, hint="Use the path of a file.")
    if path.is_fifo() and not may_be_empty:
        raise FileError(
            f"{what} {path} is a pipe, which can be read only once.",
            path=path,
            hint="Save its content to a file first.",
        )
    if path.stat().st_size == 0 and not may_be_empty:
        raise FileError(f"{what} {path} is empty.", path=path)
    return path


def _why_missing(link: Path) -> str:
    """Return why no file is at the end of a link."""
    try:
        link.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "leads back to it"
    return "does not exist"


def _path_hint(path: Path) -> str:
    """Return a hint for a missing file: a similar name, or that the folder does not exist.
    The result is empty if there is none.
    """
    from polygraphy.domain.errors import close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"The folder {path.parent} does not exist either."
    matches = close_matches(path.name, names, limit=1, cutoff=0.8)
    return f"Did you mean {path.parent / matches[0]}?" if matches else ""


@contextmanager
def translate_os_errors(
    path: str | Path, doing: str, *, only_own_folder: bool = False
) -> Iterator[None]:
    """Convert an operating-system error inside the block to a FileError with the action and the
    path.

    Args:
        path: the file.
        doing: the operation on it, a verb.
        only_own_folder: whether to convert only errors about files in the folder of the path,
            because the block also does other work.
    """
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        if only_own_folder and not _is_beside(error.filename, path):
            raise
        reason = error.strerror or str(error)
        kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
        raise kind(f"Could not {doing} {path}: {reason}.", path=path) from error


def _is_beside(name: object, path: str | Path) -> bool:
    """Return whether an error is about a file in the folder of `path`, or does not name a file,
    such as for a full disk."""
    if not isinstance(name, str):
        return True
    folders = (os.path.realpath(path) for path in (Path(name).parent, Path(path).parent))
    targets = (os.path.realpath(target) for target in (name, path))
    return len(set(folders)) == 1 or len(set(targets)) == 1


def ensure_parent(path: str | Path) -> Path:
    """Create the folder of `path`, and return `path`."""
    path = Path(path)
    with translate_os_errors(path.parent, "create the folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def check_writable(path: str | Path) -> None:
    """Raise FileError if a file cannot be written, before the work whose result it will contain.

    It leaves no file: it tries to create a temporary file in the folder, or in the nearest folder
    that exists.

    Raises:
        FileError: it cannot be written.
    """
    import tempfile

    given_path = Path(path)
    with translate_os_errors(path, "write"):
        if given_path.is_dir():
            raise FileError(f"{path} is a folder.", path=path, hint="Use the path of a file.")
        if given_path.exists() and not given_path.is_file():
            return  # The file is a device or a pipe.
        folder = next(
            parent for parent in Path(os.path.realpath(given_path)).parents if parent.exists()
        )
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def atomic_file(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that replaces `path` when the block ends without an error.

    The content is written to a temporary file in the same folder, synced to disk and then renamed,
    so that a crash, an interrupt or a full disk does not damage an existing file. A symbolic link
    is kept, and its target replaced. An existing empty file, such as one from `mkstemp`, is filled
    instead, so that processes that have it open see the content.

    Raises:
        FileError: the file cannot be written.
    """
    with stage_file(path, mode) as staged:
        yield staged.stream
        staged.finish()
        staged.place()


@contextmanager
def scratch_file(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file that is not synced to disk, because it is not needed after a crash.

    Raises:
        FileError: the file cannot be written.
    """
    encoding = None if "b" in mode else "utf-8"
    with (
        translate_os_errors(path, "write"),
        ensure_parent(Path(path)).open(mode, encoding=encoding) as stream,
    ):
        yield stream


class StagedFile:
    """A file that is complete before it moves to its path.

    Attributes:
        stream: the stream to write to.
        target: the final path, with links resolved.
        part: the temporary path; None for a device or a pipe, which is written directly.
    """

    def __init__(self, stream: IO[Any], target: Path, part: Path | None) -> None:
        """Set the open temporary file, and its target."""
        self.stream = stream
        self.target = target
        self.part = part

    def finish(self) -> None:
        """Sync the complete file to disk."""
        self.stream.flush()
        if self.part is not None:
            os.fsync(self.stream.fileno())
            self.part.chmod(_mode_for(self.target))
            if not STAYS_OPEN:
                self.stream.close()

    def place(self) -> None:
        """Move the file to its path; an existing empty file gets its content."""
        if self.part is None:
            return
        if not _fill_target(self.target, self.part):
            self.part.replace(self.target)
            self.part = None


@contextmanager
def stage_file(path: str | Path, mode: str = "wb") -> Iterator[StagedFile]:
    """Open a file that is moved to its path when it is committed; otherwise it is removed.

    Raises:
        FileError: the file cannot be written.
    """
    parent = ensure_parent(path)
    # The target of /dev/stdout may have no path.
    is_special = parent.exists() and not parent.is_file()
    target = parent if is_special else Path(os.path.realpath(parent))
    if target.is_dir():
        raise FileError(f"{path} is a folder.", path=path, hint="Use the path of a file.")
    encoding = None if "b" in mode else "utf-8"
    with translate_os_errors(path, "write", only_own_folder=True):
        if is_special:  # A device or a pipe has no content to protect.
            with target.open(mode, encoding=encoding) as stream:
                yield StagedFile(stream, target, None)
            return
        descriptor, temporary = create_temporary_file(target)
        staged: StagedFile | None = None
        try:
            with os.fdopen(descriptor, mode, encoding=encoding) as stream:
                staged = StagedFile(stream, target, Path(temporary))
                yield staged
        finally:
            if staged is None or staged.part is not None:
                with suppress(OSError):
                    Path(temporary).unlink()


def is_empty_file(path: str | Path) -> bool:
    """Return whether an existing file is empty."""
    with suppress(OSError):
        file_stat = Path(path).stat()
        return stat.S_ISREG(file_stat.st_mode) and file_stat.st_size == 0
    return False


@contextmanager
def claim_file(path: Path) -> Iterator[None]:
    """Create a file whose content replaces it later, so that only one of several processes does it.
    The file stays locked in the block, so that others see that its process lives.

    Raises:
        FileExistsError: it exists, and is not a file that an ended process claimed.
    """
    if is_claim(path) and is_abandoned(path):
        path.unlink(missing_ok=True)
    with path.open("xb", buffering=0) as stream:
        _lock(stream.fileno())
        try:
            # An empty file would be filled instead of replaced.
            stream.write(_CLAIM)
        except OSError:
            path.unlink()
            raise
        try:
            yield
        finally:
            if is_claim(path):
                path.unlink()


_CLAIM = b"\n"


def is_claim(path: Path) -> bool:
    """Return whether a file is claimed, and not yet replaced."""
    with suppress(OSError):
        is_short = path.is_file() and path.stat().st_size == len(_CLAIM)
        return is_short and path.read_bytes() == _CLAIM
    return False


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """In the block, no other process that uses this function replaces files in the folder.
    It waits until the folder is free, and does nothing if the system cannot lock folders."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def hold_folder(path: str) -> Callable[[], None] | None:
    """Create and lock a folder; see the port. If the system cannot lock folders, it is free."""
    is_new = not Path(path).exists()
    folder = ensure_parent(Path(path) / "file").parent
    if fcntl is None:
        return lambda: None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # Not every file system supports locks.
    return partial(_unlock_folder, folder, descriptor, is_new)


def _unlock_folder(folder: Path, descriptor: int, is_new: bool) -> None:
    """Unlock a folder, and remove it if it is new and empty."""
    if is_new:
        with suppress(OSError):
            folder.rmdir()
    os.close(descriptor)


def _fill_target(target: Path, part: Path) -> bool:
    """Return whether the target is an empty writable file, which gets the temporary file."""
    if not is_empty_file(target):
        return False
    try:
        stream = target.open("r+b")
    except OSError:
        return False
    with stream, part.open("rb") as source:
        _lock(stream.fileno())
        if os.fstat(stream.fileno()).st_size:
            return False  # Another process filled it before it was locked.
        try:
            shutil.copyfileobj(source, stream, _CHUNK)
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            stream.truncate(0)
            raise
    return True


def _mode_for(target: Path) -> int:
    """Return the permissions of the replaced file, or those of a new file."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
