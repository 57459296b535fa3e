"""Saving and loading whatever has a form in JSON: to files, to open files, and as text."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeVar, Union

from polygraphy.adapters.files import codecs
from polygraphy.adapters.files.formats.binary import SUFFIXES, Undescribed, parse_binary
from polygraphy.adapters.files.formats.lazy import lazily
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    content_errors_named,
    decoded,
    marker_of,
)
from polygraphy.adapters.files.json.json_document import parse_file, parse_text
from polygraphy.adapters.files.json.json_writer import Write, write_json
from polygraphy.adapters.os.paths import atomic_file, readable_file, translated_os_errors
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics import TacticReplay

T = TypeVar("T")

_INPUTS = "input data"
_RESULTS = "inference results"
_VERDICTS = "accuracy results"
_REPLAY = "tactic replay file"

_DESCRIPTIONS: dict[type, str] = {
    RunResults: _RESULTS,
    AccuracyResults: _VERDICTS,
    TacticReplay: _REPLAY,
    dict: _INPUTS,
    list: _INPUTS,
}

_EXPECTED: dict[type, str] = {
    **_DESCRIPTIONS,
    TacticReplay: "a tactic replay",
    object: "anything that is known here; it may be of another version",
}

_MARKER_DESCRIPTIONS = {
    "RunResults": _RESULTS,
    "IterationResult": "the outputs of a single iteration",
    "AccuracyResults": _VERDICTS,
    "TacticReplayData": "a tactic replay",
    "ndarray": "an array",
    "Tensor": "an array",
}

_SCALAR_DESCRIPTIONS: dict[type, str] = {
    str: "a string",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    type(None): "null",
}

_HINTS = {
    (_RESULTS, _INPUTS): "Load it as input data, or name a file of saved outputs.",
    (_INPUTS, _RESULTS): "Load it as inference results, or name a file of saved inputs.",
    (_RESULTS, _VERDICTS): "Name a file of saved outputs.",
    (_VERDICTS, _RESULTS): "Name a file of saved accuracy results.",
}


def description_of(kind: type) -> str:
    """Return what a file of a `kind` is called."""
    named = (_DESCRIPTIONS[base] for base in kind.__mro__ if base in _DESCRIPTIONS)
    return next(named, kind.__name__)


def expect(value: Any, kind: type[T], tree: Any) -> T:
    """Return `value` if it is a `kind`.

    Args:
        value: what was decoded.
        kind: what it must be; a plain dictionary or list is meant where it is `dict` or `list`.
        tree: what it was decoded from.

    Raises:
        ContentError: it is not; the error says what it is, and what to do.
    """
    if type(value) is kind or (kind not in (dict, list) and isinstance(value, kind)):
        return value
    raise mismatch(tree, kind)


def mismatch(tree: Any, kind: type) -> ContentError:
    """Return the error that says what a tree is in place of a `kind`."""
    found = _found(tree)
    expected = _EXPECTED.get(kind, f"an object of type {kind.__name__!r}")
    return ContentError(f"it holds {found}, not {expected}", hint=_HINTS.get((expected, found), ""))


def _found(tree: Any) -> str:
    marker = marker_of(tree)
    if marker is not None:
        return _MARKER_DESCRIPTIONS.get(marker, f"an object of type {marker!r}")
    if isinstance(tree, list):
        if not tree:
            return "an empty list"
        return _INPUTS if all(map(_is_feed, tree)) else "a list"
    if isinstance(tree, dict):
        if not tree:
            return "an empty dictionary"
        return _INPUTS if _is_feed(tree) else "a dictionary"
    return _SCALAR_DESCRIPTIONS.get(type(tree), "a long string")


def _is_feed(tree: Any) -> bool:
    """Return whether a tree is a dictionary of nothing but arrays."""
    if not isinstance(tree, dict) or not tree or marker_of(tree) is not None:
        return False
    return all(marker_of(value) in ("ndarray", "Tensor", "ArrayInFile") for value in tree.values())


PathOrFile = Union[str, "PathLike[str]", IO[Any]]

CODECS = (codecs,)
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
