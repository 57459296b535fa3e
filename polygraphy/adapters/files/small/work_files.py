"""Temporary files and text files."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Collection
from pathlib import Path, PurePath

from polygraphy.adapters.os.paths import (
    atomic_file,
    ensure_parent,
    scratch_file,
    translate_os_errors,
)
from polygraphy.domain.errors import DamagedFileError, FileError

_STARTED = time.localtime()
"""The time of the first use, which all files of a search share."""


def path_exists(path: str) -> bool:
    """Return whether a path exists; a broken link counts."""
    return Path(path).exists() or Path(path).is_symlink()


def remove_path(path: str) -> None:
    """Remove a file, or a folder with its content."""
    if not path_exists(path):
        return  # A read-only file system refuses even that.
    with translate_os_errors(path, "remove"):
        target = Path(path)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


def copy_file(path: str, target: str) -> None:
    """Copy a file; do nothing if it does not exist."""
    if not Path(path).is_file():
        return
    with (
        translate_os_errors(path, "read"),
        Path(path).open("rb") as source,
        atomic_file(target) as stream,
    ):
        shutil.copyfileobj(source, stream, 1 << 20)


def move_into_folder(path: str, folder: str, label: str) -> str | None:
    """Move a file or a folder into a folder; return its new path, or None if it does not exist."""
    source = Path(path)
    if not path_exists(path):
        return None
    stem, extension = source.stem, source.suffix
    target = ensure_parent(Path(folder) / f"{stem}_{label}{extension}")
    count = 2
    while path_exists(str(target)):
        target = Path(folder) / f"{stem}_{label}_{count}{extension}"
        count += 1
    with translate_os_errors(path, "move"):
        shutil.move(str(source), str(target))
    return str(target)


def write_scratch(path: str, text: str) -> None:
    """Write a text in UTF-8, without syncing it to the disk."""
    with scratch_file(path, "w") as stream:
        stream.write(text)


def temporary_path() -> str:
    """Create an empty temporary file, and return its path."""
    descriptor, path = tempfile.mkstemp(prefix="polygraphy_debug_")
    os.close(descriptor)
    return path


def mirror_folder(folder: str, besides: Collection[str]) -> None:
    """Create a folder with symbolic links to the contents of another,
    except for some files, and return its path."""
    left_out = {PurePath(os.path.normpath(path)) for path in besides}
    with translate_os_errors(folder, "make"):
        _mirror(PurePath(), Path(folder), {*left_out, PurePath(os.path.normpath(folder))})


def start_label() -> str:
    """Return the date and the time, as in ``11-21-26_23-05-59``."""
    return time.strftime("%m-%d-%y_%H-%M-%S", _STARTED)


def _mirror(source: PurePath, target: Path, left_out: Collection[PurePath]) -> None:
    """Create a folder with links to the content of another, except for some files."""
    holding = {parent for path in left_out for parent in path.parents}
    target.mkdir(parents=True)
    for entry in sorted(Path(source).iterdir()):
        path = source / entry.name
        if path in left_out:
            continue
        if path in holding and entry.is_dir():
            _mirror(path, target / entry.name, left_out)
        else:
            (target / entry.name).symlink_to(entry.absolute())


_EXECUTE = 0o111


def read_text(path: str) -> str:
    """Return the contents of a UTF-8 file."""
    try:
        with translate_os_errors(path, "read"):
            return Path(path).read_bytes().decode()
    except ValueError as error:
        raise DamagedFileError(f"Could not read {path}: {error}.", path=path) from error


def write_text(path: str, text: str, *, executable: bool = False) -> None:
    """Write a file in UTF-8, which names of files need not be: other bytes are written as escapes,
    except in a program. A program gets execute permission for everyone who may read it."""
    try:
        content = text.encode("utf-8", "strict" if executable else "backslashreplace")
    except UnicodeEncodeError as error:
        raise FileError(f"Could not write {path}: {error}.", path=path) from error
    with atomic_file(path) as stream:
        stream.write(content)
    if executable:
        mode = Path(path).stat().st_mode
        Path(path).chmod(mode | (mode >> 2 & _EXECUTE))
