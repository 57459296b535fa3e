"""JSON text, written piece by piece.

It is ASCII, indented by four spaces, with NaN and the infinities as bare words.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring_ascii
from math import inf, isnan
from typing import Any, Protocol, Union

from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    Encoder,
    encode_value,
    marker_key,
)

# A chunk has 64 KiB of text, which fits into the processor's cache. Larger chunks take twice the
# time, because malloc maps new memory for them. Sizes are multiples of 3 and of 4.
_BYTES_PER_CHUNK = 48 * 1024
_CHARACTERS_PER_CHUNK = 64 * 1024

Piece = Union[bytes, memoryview]


class SlicedText(Protocol):
    """Base64 text that can be sliced: a string, or a part of a file."""

    def __len__(self) -> int:
        """Return the number of characters."""

    def __getitem__(self, part: slice, /) -> str | bytes:
        """Return a slice of the characters."""


class Base64Text:
    """A placeholder in a document for the base64 text of bytes that are read only when they are
    written.

    Args:
        pieces: the bytes, in order.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        """Set the pieces of bytes, which are read once."""
        self._pieces = pieces

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in ASCII that needs no escaping in JSON."""
        remaining_piece = b""
        for piece in self._pieces:
            start = 0
            if remaining_piece:  # Only complete groups of three bytes can be encoded separately.
                start = -len(remaining_piece) % 3
                remaining_piece += piece[:start]
                if len(remaining_piece) % 3:
                    continue
                yield binascii.b2a_base64(remaining_piece, newline=False)
            stop = len(piece) - (len(piece) - start) % 3
            for first in range(start, stop, _BYTES_PER_CHUNK):
                chunk = piece[first : min(first + _BYTES_PER_CHUNK, stop)]
                yield binascii.b2a_base64(chunk, newline=False)
            remaining_piece = bytes(piece[stop:])
        if remaining_piece:
            yield binascii.b2a_base64(remaining_piece, newline=False)


def base64_size(text: SlicedText) -> int:
    """Return the number of bytes in base64 text; raise ContentError if its length is invalid."""
    if len(text) % 4:
        raise ContentError("base64 text ends in the middle of a group of four characters")
    return len(text) // 4 * 3 - _padding(text[max(len(text) - 2, 0) :])


def decode_pieces(text: SlicedText, first: int = 0) -> Iterator[bytes]:
    """Yield the bytes in base64 text, from a position on.

    Raises:
        ContentError: it is not base64.
    """
    skip = first % 3
    for start in range(first // 3 * 4, len(text), _CHARACTERS_PER_CHUNK):
        stop = min(start + _CHARACTERS_PER_CHUNK, len(text))
        characters = text[start:stop]
        padding = _padding(characters) if stop == len(text) else 0
        try:
            piece = binascii.a2b_base64(characters)
        except ValueError as error:
            raise ContentError(f"base64 text is damaged: {error}") from error
        # The decoder skips characters outside its alphabet, so the result has too few bytes.
        if len(piece) != len(characters) // 4 * 3 - padding:
            raise ContentError("base64 text contains invalid characters")
        yield piece[skip:] if skip else piece
        skip = 0


def _padding(characters: str | bytes) -> int:
    """Return the number of padding characters at the end, at most two."""
    end = characters[-2:]
    rstrip = end.rstrip("=") if isinstance(end, str) else end.rstrip(b"=")
    return len(end) - len(rstrip)


Write = Callable[[bytes], object]

_INDENT = b"    "


def write_json(value: Any, write: Write, depth: int = 0) -> None:
    """Write `value` like the `json` module; objects with an encoder are written as their fields.

    Args:
        value: the value to write.
        write: receives the text, piece by piece; arrays are never in memory as text.
        depth: the nesting depth of the value in the document.

    Raises:
        ContentError: JSON cannot represent the value or a part of it; the error gives its location.
    """
    try:
        _write_value(value, write, depth)
    except RecursionError as error:
        raise ContentError("it is nested too deeply, or contains itself") from error


class JsonList:
    """A list in a JSON document, written one element at a time.

    Args:
        write: receives the text.
        depth: the nesting depth of the list in the document.
    """

    def __init__(self, write: Write, depth: int = 0) -> None:
        """Write the start of a list."""
        self._write = write
        self._depth = depth
        self._is_empty = True
        write(b"[")

    def begin_element(self) -> None:
        """Write the separator before an element, for callers that write the element themselves."""
        self._write((b"\n" if self._is_empty else b",\n") + _INDENT * (self._depth + 1))
        self._is_empty = False

    def add(self, value: Any) -> None:
        """Write one element."""
        self.begin_element()
        write_json(value, self._write, self._depth + 1)

    def close(self) -> None:
        """Write the end of the list."""
        self._write(b"]" if self._is_empty else b"\n" + _INDENT * self._depth + b"]")


def _write_value(value: Any, write: Write, depth: int) -> None:
    """Write a value as JSON, indented by its depth."""
    kind = type(value)
    if kind is dict:
        _write_dictionary(value, write, depth)
    elif kind in (list, tuple):
        _write_list(value, write, depth)
    elif kind is Base64Text:
        _write_base64(value, write)
    elif kind in _SCALARS:
        write(_SCALARS[kind](value).encode("ascii"))
    else:
        _write_object(value, write, depth)


def _write_object(value: Any, write: Write, depth: int) -> None:
    """Write an object that has an encoder, or is of a subclass of a JSON type."""
    if Encoder.find(type(value)) is None:
        for base, as_base in _BASES:
            if isinstance(value, base):
                _write_value(as_base(value), write, depth)
                return
    substitute = encode_value(value)
    if isinstance(substitute, dict):
        _write_members(substitute, write, depth)
    else:
        _write_value(substitute, write, depth)


def _write_dictionary(members: Mapping[Any, Any], write: Write, depth: int) -> None:
    """Write a dictionary; raise ContentError if a key would be read as the mark of a type."""
    key = marker_key(members)
    if key is not None:
        raise ContentError(f"a dictionary with the key {key!r} would be read as a different type")
    _write_members(members, write, depth)


def _write_members(members: Mapping[Any, Any], write: Write, depth: int) -> None:
    """Write the members of a JSON object, one per line."""
    if not members:
        write(b"{}")
        return
    start = b"\n" + _INDENT * (depth + 1)
    separator = b"{"
    for key, value in members.items():
        write(separator + start + encode_basestring_ascii(_key_text(key)).encode("ascii") + b": ")
        _write_child(key, value, write, depth + 1)
        separator = b","
    write(b"\n" + _INDENT * depth + b"}")


def _write_list(elements: Iterable[Any], write: Write, depth: int) -> None:
    """Write a JSON list, one element per line."""
    listed = JsonList(write, depth)
    for index, value in enumerate(elements):
        listed.begin_element()
        _write_child(index, value, write, depth + 1)
    listed.close()


def _write_child(step: str | int, value: Any, write: Write, depth: int) -> None:
    """Write a part of a value; an error names the key or index."""
    try:
        _write_value(value, write, depth)
    except ContentError as error:
        error.add_location(step)
        raise


def _write_base64(text: Base64Text, write: Write) -> None:
    """Write bytes as a JSON string in base64."""
    write(b'"')
    for chunk in text.chunks():
        write(chunk)
    write(b'"')


def _key_text(key: Any) -> str:
    """Return the text of a key; like the `json` module, let scalars pass for strings."""
    for base in (str, bool, int, float):
        if isinstance(key, base):
            return str.__str__(key) if base is str else _SCALARS[base](key)
    if key is None:
        return "null"
    raise ContentError(f"a dictionary with the key {key!r} cannot be written as JSON")


def _float_text(value: float) -> str:
    """Return the JSON text of a float, with NaN and Infinity."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    return float.__repr__(value)


_SCALARS: dict[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: _float_text,
    type(None): lambda value: "null",
}

# Subclasses without an encoder are written like their base class.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (Mapping, dict),
    (list, list),
    (tuple, list),
)
