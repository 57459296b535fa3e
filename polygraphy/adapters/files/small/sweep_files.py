"""The files of a sweep: models by patterns, hashes of contents, and records of finished cells."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from polygraphy.adapters.files.small.script_files import files_of_script
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.errors import DamagedFileError, FileError, ModelError
from polygraphy.ports.models import weight_files

_BLOCK = 1 << 20
_MARK = "sweep.json"
_FIRST = ("package", "environments")
"""Entries of a sweep's folder that are created before its mark."""
_BEFORE_PATHS, _BEHIND_PATHS = "=:, '\"", ":, '\""
"""Characters around a path in an option, such as ``--runner 'a=--onnxrt --plugins "b c.so"'``."""
_FIELDS = ("key", "ended", "code", "seconds", "memory", "shared", "machine", "said")


def matching_files(folder: str, pattern: str) -> list[str]:
    """Return the files in a folder that match a pattern, sorted."""
    if Path(pattern).is_absolute():
        root = Path(pattern).anchor
        return sorted(str(p) for p in Path(root).glob(pattern[len(root) :]) if p.is_file())
    root_folder = Path(folder)
    paths = (path for path in root_folder.glob(pattern) if path.is_file())
    return sorted(path.relative_to(root_folder).as_posix() for path in paths)


def files_named_by(folder: str, word: str) -> list[str]:
    """Return the files that a word of a command line refers to, with the modules that scripts
    import, and the files that those name.
    """
    root = Path(folder)
    texts = [word, *(word[at + 1 :] for at, letter in enumerate(word) if letter in _BEFORE_PATHS)]
    parts = {text[:end] for text in texts for end in _ends_of(text)}
    files: set[Path] = set()
    for part in filter(None, parts):
        with suppress(OSError, ValueError):  # The text cannot be a path.
            path = root / part
            if path.is_dir() and path.resolve() not in (root.resolve(), *root.resolve().parents):
                files.update(_files_below(path))
            elif path.is_file():
                files.add(path)
                files.update(files_of_script(path, root))
    return sorted(os.path.relpath(path, root) for path in files)


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, its folders, and those that links in it lead to."""
    entered: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(place) in entered:
            folders.clear()  # A link that leads back.
            continue
        entered.add(os.path.realpath(place))
        yield from (path for name in names if (path := Path(place, name)).is_file())


def _ends_of(text: str) -> Iterator[int]:
    """Yield the positions at which a path in an option may end."""
    yield len(text)
    yield from (at for at, letter in enumerate(text) if letter in _BEHIND_PATHS)


def digest_of(path: str) -> str:
    """Return the checksum of a file, including the weights of an ONNX model."""
    digest = hashlib.sha256()
    for weight in _with_weights(path):
        file = readable_file(weight, "File", may_be_empty=True)
        with translate_os_errors(file, "read"), file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        digest.update(b"\0")
    return digest.hexdigest()


def read_record(path: str) -> Mapping[str, Any] | None:
    """Return the saved record of a cell of a sweep; None if the file does not exist."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        loads = json.loads(content)
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.", path=path) from error
    name = Path(path).name.removesuffix(".json")
    is_whole = isinstance(loads, dict) and all(field in loads for field in _FIELDS)
    if not is_whole or loads["key"] != name:
        raise DamagedFileError(f"{path} is damaged: it is not the record of {name}.", path=path)
    return dict(loads)


def forget_record(path: str) -> None:
    """Delete the saved record of a cell of a sweep, if it exists."""
    with translate_os_errors(path, "remove"):
        Path(path).unlink(missing_ok=True)


def holds_sweep(folder: str) -> bool:
    """Return whether a folder contains a sweep."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FileError(f"{folder} is not a folder.", path=folder, hint="Choose a different path.")
    names = {file.name for file in path.iterdir()} if path.exists() else set()
    # List the names first: another shard may be writing the file.
    is_ours = (path / _MARK).exists()
    if not is_ours and not all(name in _FIRST or _MARK in name for name in names):
        raise FileError(
            f"{folder} contains files that are not from a sweep.",
            path=folder,
            hint="Choose a different folder.",
        )
    return is_ours and any(path.glob("cells/*/*.json"))


def claim_folder(folder: str) -> None:
    """Mark a folder as that of a sweep."""
    if not (Path(folder) / _MARK).exists():
        with atomic_file(Path(folder) / _MARK, "w") as stream:
            stream.write('{"schema": 1}\n')


def _with_weights(path: str) -> Iterator[str]:
    """Yield a file, and those with the weights of an ONNX model."""
    yield path
    if format_named(path) == "onnx" and Path(path).is_file():
        try:
            yield from weight_files(path)
        except ModelError:  # The cells of this model will report the error.
            return
