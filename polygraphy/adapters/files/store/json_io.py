"""Saving and loading whatever has a form in JSON: to files, to open files, and as text."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeVar, Union

from polygraphy.adapters.files.codecs import accuracy_codec, array_codec, run_codec, tactics_codec
from polygraphy.adapters.files.formats.binary import SUFFIXES, Undescribed, parse_binary
from polygraphy.adapters.files.formats.lazy import lazily
from polygraphy.adapters.files.json.content_error import ContentError, content_errors_named
from polygraphy.adapters.files.json.json_codec import decoded
from polygraphy.adapters.files.json.json_document import parse_file, parse_text
from polygraphy.adapters.files.json.json_writer import Write, write_json
from polygraphy.adapters.files.store.kinds import expect
from polygraphy.adapters.os.paths import atomic_file, readable_file, translated_os_errors
from polygraphy.domain.results.results import RunResults

T = TypeVar("T")
PathOrFile = Union[str, "PathLike[str]", IO[Any]]

CODECS = (accuracy_codec, array_codec, run_codec, tactics_codec)
"""What registers the types of this package; imported here, so that all who need them have them."""


def save(value: Any, dest: PathOrFile) -> None:
    """Write `value` to a file, whole or not at all, or to an open file at its position.

    Raises:
        FileError: the file cannot be written, or the value has no form in JSON.
    """
    doing = f"save to {name_of(dest)}"
    if isinstance(dest, (str, PathLike)):
        with content_errors_named(doing, dest), atomic_file(Path(dest)) as stream:
            write_json(value, stream.write)
    else:
        with content_errors_named(doing), translated_os_errors(name_of(dest), "write"):
            write_json(value, _write_function(dest))
            dest.flush()


def load(source: PathOrFile, kind: type[T]) -> T:
    """Read a file, or an open file from its start; `object` stands for any kind.

    Raises:
        FileError: it is missing, empty, truncated, damaged, not JSON, or does not hold a `kind`.
    """
    name = name_of(source)
    with content_errors_named(f"load {name}", name), translated_os_errors(name, "read"):
        if isinstance(source, (str, PathLike)):
            tree = parse_path(source, kind=kind)
        else:
            tree = parse_text(_whole_text(source))
        return expect(lazily(decoded(tree)), kind, tree)


def parse_path(path: str | PathLike[str], what: str = "File", kind: type | None = None) -> Any:
    """Read a file as far as to know its structure; its arrays are read when they are decoded.

    Args:
        path: the file.
        what: what is expected there, for the complaint when it is missing.
        kind: what it must be: arrays of which a file does not say what they are become results
            where results are wanted.

    Raises:
        FileError: it is missing or empty.
        ContentError: it is truncated, damaged, not JSON, or not what its extension says.
        OSError: it cannot be read.
    """
    if _is_stream(Path(path)):
        return parse_text(Path(path).read_bytes())
    file = readable_file(Path(path), what)
    if file.suffix.lower() not in SUFFIXES:
        return parse_file(file)
    tree = parse_binary(file)
    is_results = kind is RunResults and isinstance(tree, Undescribed)
    return tree.as_results(file.name) if is_results else tree


def dumps(value: Any) -> str:
    """Return `value` as JSON text; FileError when it has no form in JSON."""
    stream = io.BytesIO()
    with content_errors_named("write JSON text"):
        write_json(value, stream.write)
    return str(stream.getbuffer(), "ascii")


def loads(text: str | bytes, kind: type[T]) -> T:
    """Read JSON text; FileError when it is truncated, damaged, not JSON, or holds no `kind`."""
    with content_errors_named("read JSON text"):
        tree = parse_text(text)
        return expect(decoded(tree), kind, tree)


def name_of(file: PathOrFile) -> str:
    """Return how a file is called in messages."""
    is_path = isinstance(file, (str, PathLike))
    return str(file if is_path else getattr(file, "name", "an open file"))


def _is_stream(path: Path) -> bool:
    """Return whether a path is of something like a pipe, which can only be read from start to
    end.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


def _whole_text(file: IO[Any]) -> str | bytes:
    if file.seekable():
        file.seek(0)
    try:
        content: str | bytes = file.read()
    except UnicodeDecodeError as error:
        raise ContentError("it is not JSON text, which is Unicode") from error
    return content


def _write_function(file: IO[Any]) -> Write:
    """Return a function that writes ASCII to a file that is open for text or for bytes."""
    if isinstance(file, io.TextIOBase) or not _takes_bytes(file):
        return lambda text: file.write(text.decode("ascii"))
    return file.write


def _takes_bytes(file: IO[Any]) -> bool:
    try:
        file.write(b"")
    except TypeError:
        return False
    return True
