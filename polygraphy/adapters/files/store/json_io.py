"""Saving and loading JSON values: to files, to open files, and as text.

Almost all of a saved file is the base64 text of arrays, of which the `json` module would make
strings, larger than the arrays themselves. So the text is first searched for arrays: ``"array": "``
and what the text of one starts with, up to the next quotation mark. In its place the parser sees a
short name that cannot be in the file. Neither holds a quotation mark or a backslash, so
the document has the same structure with the one as with the other.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, TypeVar, Union

from polygraphy.adapters.files import codecs
from polygraphy.adapters.files.formats.binary import SUFFIXES, UnlabeledArrays, parse_binary
from polygraphy.adapters.files.formats.lazy import make_lists_lazy
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    DeferredText,
    decode_tree,
    marker_of,
    translate_content_errors,
)
from polygraphy.adapters.files.json.json_writer import Write, write_json
from polygraphy.adapters.os.paths import atomic_file, readable_file, translate_os_errors
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics import TacticReplay

# Matches a key followed by base64 text of an .npy file or a zip archive (.npz and PyTorch). If the
# first quotation mark is escaped, the key is longer, but the value is a string in this case as
# well.
_ARRAY_START = re.compile(rb'"(?:array|tensor)"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"(?=k05VTVBZ|UEsDB)')
_LONGEST_START = 8 + 64 + 1 + 64 + 1 + 8

_SHORT = 1024
"""Arrays of less text than this stay in the document: deferring them costs more than it saves."""

_BLOCK_BYTES = 1 << 20
_AHEAD_BYTES = 1 << 18

_TEXT_START = re.compile(rb'(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\0 \t\r\n]*(?:[\[{"\-0-9tfnNI]|\Z)')
"""Perhaps a byte order mark, perhaps white space, and the first character of a value."""

# Matches the end of a text that was cut off in a literal, a number or an escape.
_UNFINISHED_TOKEN = re.compile(
    r"|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|Na?|-?I(?:n(?:f(?:i(?:n(?:it?)?)?)?)?)?|-|\.|[eE][+-]?"
)
_UNFINISHED_ESCAPE = re.compile(r"\\?u?[0-9a-fA-F]{0,4}")


def _seek_and_read(descriptor: int, count: int, position: int) -> bytes:
    """Return bytes of a file from a position."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, count)


_read_at = getattr(os, "pread", _seek_and_read)  # Windows lacks `pread`.


class _File:
    """A file that stays open while it is referenced, and is read at any position."""

    def __init__(self, path: Path) -> None:
        """Open a file."""
        # A descriptor instead of a file object, because Python could report an unclosed file before
        # this object closes it.
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.size = os.fstat(self._descriptor).st_size
        # The data that was read ahead: its position in the file, and its bytes.
        self._ahead = (0, b"")

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`, or to the end of the file."""
        if stop - start < _AHEAD_BYTES // 4:  # Small arrays are read one after the other.
            first, ahead = self._ahead
            if not first <= start <= stop <= first + len(ahead):
                first, ahead = start, _read_at(self._descriptor, _AHEAD_BYTES, start)
                self._ahead = (first, ahead)
            if stop <= first + len(ahead):
                return ahead[start - first : stop - first]
        piece = _read_at(self._descriptor, stop - start, start)
        if len(piece) == stop - start:  # Nearly all reads return the complete piece.
            return piece
        pieces = []
        while piece:
            pieces.append(piece)
            start += len(piece)
            piece = _read_at(self._descriptor, stop - start, start)
        return b"".join(pieces)

    def __del__(self) -> None:
        """Close the file."""
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


class _FileText(DeferredText):
    """Part of a file."""

    def __init__(self, file: _File, start: int, stop: int) -> None:
        """Set the range of the file."""
        self._file = file
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self._stop - self._start

    def __getitem__(self, part: slice, /) -> bytes:
        """Return a slice of the text, read from the file."""
        start, stop, _ = part.indices(len(self))
        text = self._file.read(self._start + start, self._start + stop)
        if len(text) != stop - start:
            raise ContentError("the file was truncated while it was read")
        return text


class _HasEscapes(Exception):
    """Raised if the text of an array contains a backslash, which only a full parser can handle."""


def parse_text(text: str | bytes) -> Any:
    """Return the tree of dictionaries, lists and scalars that JSON text describes.

    Raises:
        ContentError: it is truncated, damaged or not JSON.
    """
    return _parse_json(text, {})


def parse_file(path: Path, block_bytes: int = _BLOCK_BYTES) -> Any:
    """Return the tree that the JSON text in a file describes; large arrays are `DeferredText`.

    The file stays open as long as the tree or a part of it is referenced.

    Args:
        path: the file.
        block_bytes: the size of the blocks that are searched.

    Raises:
        ContentError: it is truncated, damaged or not JSON.
        OSError: it cannot be read.
    """
    file = _File(path)
    start = file.read(0, _LONGEST_START)
    if not _TEXT_START.match(start):
        # Do not read further, because the file may be a model of several gigabytes.
        cause = json.JSONDecodeError("not JSON", start.decode(errors="replace"), 0)
        raise ContentError("it is not JSON text") from cause
    nonce = token_hex(16)
    text: list[bytes] = []
    deferred: dict[str, DeferredText] = {}
    try:
        for part in _parts(file, block_bytes):
            if isinstance(part, bytes):
                text.append(part)
            else:
                name = f"{nonce}{len(deferred)}"
                deferred[name] = part
                text.append(name.encode("ascii"))
    except _HasEscapes:
        return parse_text(file.read(0, file.size))
    return _parse_json(b"".join(text), deferred)


def _parts(file: _File, block_bytes: int) -> Iterator[bytes | DeferredText]:
    """Yield the text of a file, in order: bytes to parse, and the texts of arrays."""
    # Text that was read but not yielded.
    buffer = b""
    position = 0  # Position in the file where the buffer starts.
    # Position where the current array starts; None outside of arrays.
    array_start: int | None = None
    while block := file.read(position + len(buffer), position + len(buffer) + block_bytes):
        buffer += block
        parsed_end = 0
        while True:
            if array_start is None:
                match = _ARRAY_START.search(buffer, parsed_end)
                if match is None:
                    break
                yield buffer[parsed_end : match.end()]
                parsed_end = match.end()
                array_start = position + parsed_end
            end = buffer.find(b'"', parsed_end)
            if buffer.find(b"\\", parsed_end, len(buffer) if end < 0 else end) >= 0:
                raise _HasEscapes
            if end < 0:
                parsed_end = len(buffer)
                break
            is_at_hand = position <= array_start and position + end - array_start < _SHORT
            yield (
                buffer[parsed_end:end]
                if is_at_hand
                else _FileText(file, array_start, position + end)
            )
            parsed_end = end
            array_start = None
        if array_start is None:  # The start of an array may cross the end of the block.
            ready = max(parsed_end, len(buffer) - _LONGEST_START)
            yield buffer[parsed_end:ready]
            parsed_end = ready
        position += parsed_end
        buffer = buffer[parsed_end:]
    yield buffer


def _parse_json(text: str | bytes, deferred: dict[str, DeferredText]) -> Any:
    """Return the value of a JSON text, with each placeholder in `deferred` replaced by its deferred
    text; raise ContentError if it is damaged.
    """

    def restore_fields(fields: dict[str, Any]) -> dict[str, Any]:
        """Return a JSON object with placeholders replaced by their deferred texts."""
        for key, value in fields.items():
            if type(value) is str and value in deferred:
                fields[key] = deferred[value]
        return fields

    try:
        return json.loads(text, object_hook=restore_fields if deferred else None)
    except json.JSONDecodeError as error:
        raise ContentError(_damage_description(error)) from error
    except UnicodeDecodeError as error:
        raise ContentError("it is not JSON text, which is Unicode") from error
    except RecursionError as error:
        raise ContentError("it is nested too deeply") from error
    except ValueError as error:  # The integer has more digits than Python reads.
        raise ContentError(f"it is damaged: {error}") from error


def _damage_description(error: json.JSONDecodeError) -> str:
    """Return a description of the damage to a JSON text: empty, cut off, or invalid in a line."""
    if not error.doc.strip():
        return "it is empty"
    remaining_name = error.doc[error.pos :].strip()
    in_escape = error.msg.startswith("Invalid \\u")
    unfinished = _UNFINISHED_ESCAPE if in_escape else _UNFINISHED_TOKEN
    # Do not report columns: the parser saw short names where the file has arrays.
    if error.msg.startswith("Unterminated string") or unfinished.fullmatch(remaining_name):
        last_line = error.doc.count("\n") + 1
        return f"it is truncated: it ends within a value, in line {last_line}"
    if error.pos == 0:
        return "it is not JSON text"
    return f"it is damaged in line {error.lineno}: {error.msg[0].lower()}{error.msg[1:]}"


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
    object: "a known object; it may be from a different version",
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
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}

_HINTS = {
    (_RESULTS, _INPUTS): "Load it as input data, or use a file of saved outputs.",
    (_INPUTS, _RESULTS): "Load it as inference results, or use a file of saved inputs.",
    (_RESULTS, _VERDICTS): "Use a file of saved outputs.",
    (_VERDICTS, _RESULTS): "Use a file of saved accuracy results.",
}


def description_of(kind: type) -> str:
    """Return the phrase for a file of a kind, for messages."""
    named = (_DESCRIPTIONS[base] for base in kind.__mro__ if base in _DESCRIPTIONS)
    return next(named, kind.__name__)


def expect(value: Any, kind: type[T], tree: Any) -> T:
    """Return `value` if it is of a `kind`; else raise an error about the contents of the tree.

    Args:
        value: the decoded value.
        kind: the required type; `dict` and `list` mean a plain dictionary or list.
        tree: the JSON value it was decoded from.

    Raises:
        ContentError: it is not of the kind; the error names its type and a remedy.
    """
    if type(value) is kind or (kind not in (dict, list) and isinstance(value, kind)):
        return value
    raise kind_error(tree, kind)


def kind_error(tree: Any, kind: type) -> ContentError:
    """Return the error that a tree contains another kind of data."""
    description = _describe_tree(tree)
    expected = _EXPECTED.get(kind, f"an object of type {kind.__name__!r}")
    return ContentError(
        f"it contains {description}, not {expected}", hint=_HINTS.get((expected, description), "")
    )


def _describe_tree(tree: Any) -> str:
    """Return a phrase for the content of a JSON tree."""
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
    """Write `value` to a file, completely or not at all, or to an open file at its position.

    Raises:
        FileError: the file cannot be written, or the value has no form in JSON.
    """
    doing = f"save to {name_of(dest)}"
    if isinstance(dest, (str, PathLike)):
        with translate_content_errors(doing, dest), atomic_file(Path(dest)) as stream:
            write_json(value, stream.write)
    else:
        with translate_content_errors(doing), translate_os_errors(name_of(dest), "write"):
            write_json(value, _write_function(dest))
            dest.flush()


def load(source: PathOrFile, kind: type[T]) -> T:
    """Return the object of a kind from a file, or from an open file from its start.
    `object` stands for any kind.

    Raises:
        FileError: it is missing, empty, truncated, damaged, not JSON, or does not hold a `kind`.
    """
    name = name_of(source)
    with translate_content_errors(f"load {name}", name), translate_os_errors(name, "read"):
        if isinstance(source, (str, PathLike)):
            tree = parse_path(source, kind=kind)
        else:
            tree = parse_text(_whole_text(source))
        return expect(make_lists_lazy(decode_tree(tree)), kind, tree)


def parse_path(path: str | PathLike[str], what: str = "File", kind: type | None = None) -> Any:
    """Return the structure of a file; its arrays are read when they are decoded.

    Args:
        path: the file.
        what: the expected content, for the message if it is missing.
        kind: the required type: arrays whose type a file does not state become results
            where results are wanted.

    Raises:
        FileError: it is missing or empty.
        ContentError: it is truncated, damaged, not JSON, or of a different format than its
            extension.
        OSError: it cannot be read.
    """
    if _is_stream(Path(path)):
        return parse_text(Path(path).read_bytes())
    file = readable_file(Path(path), what)
    if file.suffix.lower() not in SUFFIXES:
        return parse_file(file)
    tree = parse_binary(file)
    is_results = kind is RunResults and isinstance(tree, UnlabeledArrays)
    return tree.as_results(file.name) if is_results else tree


def dumps(value: Any) -> str:
    """Return `value` as JSON text; raise FileError if JSON cannot represent it."""
    stream = io.BytesIO()
    with translate_content_errors("write JSON text"):
        write_json(value, stream.write)
    return str(stream.getbuffer(), "ascii")


def loads(text: str | bytes, kind: type[T]) -> T:
    """Return the object of a kind from JSON text.
    Raise FileError if it is damaged, or of another kind.
    """
    with translate_content_errors("read JSON text"):
        tree = parse_text(text)
        return expect(decode_tree(tree), kind, tree)


def name_of(file: PathOrFile) -> str:
    """Return the name of a file for messages."""
    is_path = isinstance(file, (str, PathLike))
    return str(file if is_path else getattr(file, "name", "an open file"))


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or socket, which cannot be read twice."""
    return path.is_fifo() or path.is_socket()


def _whole_text(file: IO[Any]) -> str | bytes:
    """Return the content of an open file, from its start."""
    if file.seekable():
        file.seek(0)
    try:
        content: str | bytes = file.read()
    except UnicodeDecodeError as error:
        raise ContentError("it is not JSON text, which is Unicode") from error
    return content


def _write_function(file: IO[Any]) -> Write:
    """Return a function that writes ASCII to a file that is open for text or for bytes."""
    if isinstance(file, io.TextIOBase) or not _accepts_bytes(file):
        return lambda text: file.write(text.decode("ascii"))
    return file.write


def _accepts_bytes(file: IO[Any]) -> bool:
    """Return whether an open file is binary."""
    try:
        file.write(b"")
    except TypeError:
        return False
    return True
