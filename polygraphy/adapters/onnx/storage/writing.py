"""Writes the bytes of a model, those of stored weights straight from the files that they are in."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import IO, TYPE_CHECKING, Union

from polygraphy import mod
from polygraphy.adapters.onnx.storage.model import serialized
from polygraphy.adapters.onnx.storage.stored import MARK, copy_stored, is_stored
from polygraphy.adapters.onnx.storage.weights import byte_size
from polygraphy.adapters.onnx.storage.wire import (
    BYTES,
    MODEL,
    PARTS,
    RAW_DATA,
    TENSOR,
    as_varint,
    fields,
)
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    Piece = Union[bytes, TensorProto]


onnx = mod.lazy_import("onnx")

_LARGEST = (1 << 31) - 1
"""Bytes of the largest message that protobuf reads."""


def write_model(model: ModelProto, stream: IO[bytes]) -> None:
    """Write a model as one message, into which stored weights are put.

    Raises:
        ModelError: it would be larger than the format allows.
        FileError: the file of a stored weight has changed, or cannot be read any more.
    """
    content = serialized(model)
    marks = [found.start() for found in re.finditer(re.escape(MARK.encode()), content)]
    if not marks:
        stream.write(content)
        return
    pieces, size = _Filling(content, marks).message(0, len(content), MODEL)
    if size > _LARGEST:
        raise ModelError(
            f"The model cannot be serialised: it would take {size} bytes.",
            hint="Above 2 GiB, save it with external weights.",
        )
    for piece in pieces:
        if isinstance(piece, bytes):
            stream.write(piece)
        else:
            copy_stored(piece, stream)


class _Filling:
    """Puts stored weights into the bytes of a message, which get longer, as do all around them."""

    def __init__(self, content: bytes, marks: list[int]) -> None:
        self._content = content
        self._marks = marks

    def message(self, start: int, end: int, kind: int) -> tuple[list[Piece], int]:
        """Return the pieces of a message, and how long they are together."""
        if kind == TENSOR:
            return self._tensor(start, end)
        pieces: list[Piece] = []
        copied, size, parts = start, end - start, PARTS[kind]
        for number, wire, begin, inner, after in fields(self._content, start, end):
            if number not in parts or wire != BYTES or not self._has_mark(inner, after):
                continue
            made, length = self.message(inner, after, parts[number])
            head = as_varint(number << 3 | BYTES) + as_varint(length)
            pieces += [self._content[copied:begin] + head, *made]
            size += len(head) + length - (after - begin)
            copied = after
        pieces.append(self._content[copied:end])
        return pieces, size

    def _has_mark(self, start: int, end: int) -> bool:
        at = bisect_left(self._marks, start)
        return at < len(self._marks) and self._marks[at] < end

    def _tensor(self, start: int, end: int) -> tuple[list[Piece], int]:
        tensor: TensorProto = onnx.TensorProto.FromString(self._content[start:end])
        if not is_stored(tensor):  # Something else in it reads like a mark.
            return [self._content[start:end]], end - start
        bare = copy_of(tensor)
        bare.ClearField("external_data")
        bare.ClearField("data_location")
        content = bare.SerializeToString()
        # Where protobuf would put it, so that the bytes are those of a model that was never taken
        # apart.
        place = next(
            (
                begin
                for number, _, begin, _, _ in fields(content, 0, len(content))
                if number > RAW_DATA
            ),
            len(content),
        )
        length = byte_size(tensor)
        head = content[:place] + as_varint(RAW_DATA << 3 | BYTES) + as_varint(length)
        return [head, tensor, content[place:]], len(head) + length + len(content) - place
