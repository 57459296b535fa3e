"""The bytes of protobuf messages: going through the fields of one, and making fields.

The numbers of `PARTS` are those of the fields in onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    import mmap

__all__ = [
    "BYTES",
    "DEEPEST",
    "MODEL",
    "PARTS",
    "RAW_DATA",
    "TENSOR",
    "MalformedError",
    "as_varint",
    "field",
    "fields",
]

BYTES = 2
"""The wire type of what has a length in front of it."""
DEEPEST = 100  # As deep as protobuf goes.
_FIXED = {1: 8, 5: 4}
_GRAPH, _NODE, _ATTRIBUTE, TENSOR, _SPARSE, _FUNCTION, MODEL = range(7)
PARTS: Mapping[int, Mapping[int, int]] = {
    _GRAPH: {1: _NODE, 5: TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: TENSOR, 6: _GRAPH, 10: TENSOR, 11: _GRAPH},
    TENSOR: {},
    _SPARSE: {1: TENSOR, 2: TENSOR},
    _FUNCTION: {7: _NODE},
    MODEL: {7: _GRAPH, 25: _FUNCTION},
}
"""Which fields of which kind of message hold, or are, tensors: the kind of each."""
RAW_DATA = 9

Content = Union["mmap.mmap", bytes]


class MalformedError(Exception):
    """The bytes are no message."""


def fields(content: Content, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield number, wire type, and where the field, its content and the next field start."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        inner = at
        if wire == 0:
            _, at = _varint(content, at)
        elif wire == BYTES:
            length, inner = _varint(content, at)
            at = inner + length
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise MalformedError
        if at > end or number == 0:
            raise MalformedError
        yield number, wire, begin, inner, at


def _varint(content: Content, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    byte = content[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = content[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise MalformedError


def field(number: int, content: bytes) -> bytes:
    """Return a field that holds bytes."""
    return as_varint(number << 3 | BYTES) + as_varint(len(content)) + content


def as_varint(value: int) -> bytes:
    """Return a number as the format writes it."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
