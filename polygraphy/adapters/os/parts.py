"""Files under way: written beside the place of a file, to take it when they are complete.

A process that is killed leaves its part behind. The next one that writes the same file removes it.
A part is locked as long as its writer lives, which the lock tells across containers and
after process numbers were used again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows does not remove files that are open.
    fcntl = None  # type: ignore[assignment]


_SUFFIX = ".part"
_LONGEST = 255 - len(".12345678.part") - 1  # In bytes.
_RANDOM = r"\.[a-z0-9_]{8}"

STAYS_OPEN = fcntl is not None
"""Whether a part may be renamed while it is open, so that it is locked until then."""


def make_part(target: Path) -> tuple[int, str]:
    """Open a part of a file; return its descriptor, which holds the lock, and its path."""
    _sweep(target)
    while True:
        descriptor, path = tempfile.mkstemp(
            dir=target.parent, prefix=f".{short_name(target)}.", suffix=_SUFFIX
        )
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)  # Another process swept before it was locked.


def make_part_folder(target: Path) -> tuple[int | None, Path]:
    """Make a folder that is to take the place of a file or folder; return what holds its lock, to
    be closed, if there is any, and its path.
    """
    _sweep(target)
    prefix = f".{short_name(target)}."
    path = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix, suffix=_SUFFIX))
    if fcntl is None:
        return None, path
    descriptor = os.open(path, os.O_RDONLY)
    _lock(descriptor)
    return descriptor, path


def short_name(target: Path) -> str:
    """Return the name of a file if a name made of it is no longer than file systems allow, else a
    checksum.
    """
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST else blake2b(name, digest_size=16).hexdigest()


def is_abandoned(path: Path) -> bool:
    """Return whether no living process writes a file or folder; False where that is not known."""
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
    if fcntl is not None:
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _sweep(target: Path) -> None:
    """Remove the parts of a file that processes left which have ended."""
    for path in _parts_of(target):
        if not is_abandoned(path):
            continue
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _parts_of(target: Path) -> Iterator[Path]:
    name = re.compile(re.escape(f".{short_name(target)}") + _RANDOM + re.escape(_SUFFIX))
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(".") and name.fullmatch(entry.name):
                yield Path(entry.path)
