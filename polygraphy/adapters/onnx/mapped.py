"""Reads the structure of a model file and leaves its weights where they are.

Nearly all of a model file is the bytes of its weights. This goes through the file as it is mapped
into memory, and puts together the same model without them: each large weight then refers to its
place in the file, as the format has it for weights in other files. So a model of any size, even
above the 2 GiB at which protobuf ends, is read in the time that its structure takes.

The numbers are those of the fields in onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.common.paths import readable_file, translated_os_errors
from polygraphy.adapters.onnx.model import translated_errors
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["load_structure"]

onnx = mod.lazy_import("onnx")

_SMALL_FILE = 1 << 20
_SMALL = 4096
"""Parts up to this many bytes are taken as they are."""
_DEEPEST = 100  # As deep as protobuf goes.
_BYTES = 2
"""The wire type of what has a length in front of it."""
_FIXED = {1: 8, 5: 4}
_GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION = range(6)
_PARTS = {
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH},
    _TENSOR: {},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE},
}
_MODEL_PARTS = {7: _GRAPH, 25: _FUNCTION}
_RAW_DATA = 9


def load_structure(path: str | Path) -> ModelProto:
    """Load a model without its large weights, and without those in other files.

    Raises:
        FileError: the file is missing, a folder, empty or cannot be read.
        ModelError: the file is no ONNX model, or a truncated one.
    """
    path = readable_file(path, "Model")
    with translated_os_errors(path, "read"), path.open("rb") as stream:
        if path.stat().st_size <= _SMALL_FILE:
            content = stream.read()
        else:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                content = _without_weights(mapped, path)
    with translated_errors(path):
        model: ModelProto = onnx.load_from_string(content)
    if not model.graph.node and not model.graph.output and not model.graph.initializer:
        raise ModelError(f"ONNX model is invalid: {path} holds no graph.", path=path)
    return model


class _Malformed(Exception):
    """The bytes are no message."""


def _without_weights(mapped: mmap.mmap, path: Path) -> bytes:
    try:
        return _Rewriting(mapped, path.name).message(0, len(mapped), _MODEL_PARTS, 0)
    except (_Malformed, IndexError) as error:
        raise ModelError(
            f"ONNX model is invalid: {path} is truncated, damaged, or no ONNX model at all.",
            path=path,
            hint="Export or download it again.",
        ) from error


class _Rewriting:
    """Puts a message together anew; unchanged stretches are copied in one piece."""

    def __init__(self, mapped: mmap.mmap, name: str) -> None:
        self._mapped = mapped
        self._name = name

    def message(self, start: int, end: int, parts: dict[int, int], depth: int) -> bytes:
        """Return the bytes of a message without the large weights in its `parts`."""
        pieces, copied = [], start
        for number, wire, begin, inner, after in self._fields(start, end):
            kind = parts.get(number)
            if kind is None or wire != _BYTES or after - inner <= _SMALL or depth >= _DEEPEST:
                continue
            made = (
                self._tensor(inner, after)
                if kind == _TENSOR
                else self.message(inner, after, _PARTS[kind], depth + 1)
            )
            pieces += [self._mapped[copied:begin], _field(number, made)]
            copied = after
        pieces.append(self._mapped[copied:end])
        return b"".join(pieces)

    def _tensor(self, start: int, end: int) -> bytes:
        for number, wire, begin, inner, after in self._fields(start, end):
            if number == _RAW_DATA and wire == _BYTES and after - inner > _SMALL:
                place = {"location": self._name, "offset": inner, "length": after - inner}
                entries = b"".join(
                    _field(13, _field(1, key.encode()) + _field(2, str(value).encode()))
                    for key, value in place.items()
                )
                kept = self._mapped[start:begin] + self._mapped[after:end]
                return kept + entries + b"\x70\x01"  # data_location = EXTERNAL
        return self._mapped[start:end]

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield number, wire type, and where the field, its content and the next field start."""
        mapped, at = self._mapped, start
        while at < end:
            begin = at
            tag, at = _varint(mapped, at)
            number, wire = tag >> 3, tag & 7
            content = at
            if wire == 0:
                _, at = _varint(mapped, at)
            elif wire == _BYTES:
                length, content = _varint(mapped, at)
                at = content + length
            elif wire in _FIXED:
                at += _FIXED[wire]
            else:
                raise _Malformed
            if at > end or number == 0:
                raise _Malformed
            yield number, wire, begin, content, at


def _varint(mapped: mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    byte = mapped[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = mapped[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise _Malformed


def _field(number: int, content: bytes) -> bytes:
    """Return a field that holds bytes."""
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
