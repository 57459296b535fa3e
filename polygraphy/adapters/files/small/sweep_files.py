"""The files of a sweep: models by patterns, hashes of contents, and records of what was run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from polygraphy.adapters.os.paths import atomic_file, readable_file, translated_os_errors
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.errors import DamagedFileError, FileError, ModelError
from polygraphy.ports.models import weight_files

_BLOCK = 1 << 20
_MARK = "sweep.json"
_FIELDS = ("key", "ended", "code", "seconds", "memory", "shared", "machine", "said")


def matching_files(folder: str, pattern: str) -> list[str]:
    """See the port."""
    if Path(pattern).is_absolute():
        root = Path(pattern).anchor
        return sorted(str(p) for p in Path(root).glob(pattern[len(root) :]) if p.is_file())
    root_folder = Path(folder)
    found = (path for path in root_folder.glob(pattern) if path.is_file())
    return sorted(path.relative_to(root_folder).as_posix() for path in found)


def digest_of(path: str) -> str:
    """See the port."""
    digest = hashlib.sha256()
    for each in _with_weights(path):
        file = readable_file(each, "File", may_be_empty=True)
        with translated_os_errors(file, "read"), file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        digest.update(b"\0")
    return digest.hexdigest()


def read_record(path: str) -> Mapping[str, Any] | None:
    """See the port."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = json.loads(content)
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.", path=path) from error
    name = Path(path).name.removesuffix(".json")
    is_whole = isinstance(found, dict) and all(field in found for field in _FIELDS)
    if not is_whole or found["key"] != name:
        raise DamagedFileError(f"{path} is damaged: it is not a record of {name}.", path=path)
    return dict(found)


def forget_record(path: str) -> None:
    """See the port."""
    with translated_os_errors(path, "remove"):
        Path(path).unlink(missing_ok=True)


def holds_sweep(folder: str) -> bool:
    """See the port."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FileError(f"{folder} is not a folder.", path=folder, hint="Name another one.")
    is_ours = (path / _MARK).exists()
    if path.exists() and not is_ours and any(path.iterdir()):
        raise FileError(
            f"{folder} holds other files than those of a sweep.",
            path=folder,
            hint="Name another folder.",
        )
    return is_ours and any(path.glob("cells/*/*.json"))


def claim_folder(folder: str) -> None:
    """See the port."""
    if not (Path(folder) / _MARK).exists():
        with atomic_file(Path(folder) / _MARK, "w") as stream:
            stream.write('{"schema": 1}\n')


def _with_weights(path: str) -> Iterator[str]:
    """Yield a file, and those with the weights of an ONNX model."""
    yield path
    if format_named(path) == "onnx" and Path(path).is_file():
        try:
            yield from weight_files(path)
        except ModelError:  # Its cells will say so.
            return
