"""Reads the structure of a model file and leaves its weights where they are.

Nearly all of a model file is the bytes of its weights. This goes through the file as it is mapped
into memory, and puts together the same model without them: each large weight then refers to its
place in the file, as the format has it for weights in other files. So a model of any size, even
above the 2 GiB at which protobuf ends, is read in the time that its structure takes.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.storage.parsing import translated_errors
from polygraphy.adapters.onnx.storage.wire import (
    BYTES,
    DEEPEST,
    MODEL,
    PARTS,
    RAW_DATA,
    TENSOR,
    MalformedError,
    field,
    fields,
)
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = mod.lazy_import("onnx")

_SMALL_FILE = 8 << 20
_SMALL = 4096
"""Parts up to this many bytes are taken as they are."""


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


def _without_weights(mapped: mmap.mmap, path: Path) -> bytes:
    try:
        return _Rewriting(mapped, path.name).message(0, len(mapped), PARTS[MODEL], 0)
    except (MalformedError, IndexError) as error:
        raise ModelError(
            f"ONNX model is invalid: {path} is truncated, damaged, or no ONNX model at all.",
            path=path,
            hint="Export or download it again.",
        ) from error


class _Rewriting:
    """Puts a message together again; unchanged segments are copied in one piece."""

    def __init__(self, mapped: mmap.mmap, name: str) -> None:
        self._mapped = mapped
        self._name = name

    def message(self, start: int, end: int, parts: Mapping[int, int], depth: int) -> bytes:
        """Return the bytes of a message without the large weights in its `parts`."""
        pieces, copied = [], start
        for number, wire, begin, inner, after in fields(self._mapped, start, end):
            kind = parts.get(number)
            if kind is None or wire != BYTES or after - inner <= _SMALL or depth >= DEEPEST:
                continue
            made = (
                self._tensor(inner, after)
                if kind == TENSOR
                else self.message(inner, after, PARTS[kind], depth + 1)
            )
            pieces += [self._mapped[copied:begin], field(number, made)]
            copied = after
        pieces.append(self._mapped[copied:end])
        return b"".join(pieces)

    def _tensor(self, start: int, end: int) -> bytes:
        for number, wire, begin, inner, after in fields(self._mapped, start, end):
            if number == RAW_DATA and wire == BYTES and after - inner > _SMALL:
                place = {"location": self._name, "offset": inner, "length": after - inner}
                entries = b"".join(
                    field(13, field(1, key.encode()) + field(2, str(value).encode()))
                    for key, value in place.items()
                )
                kept = self._mapped[start:begin] + self._mapped[after:end]
                return kept + entries + b"\x70\x01"  # data_location = EXTERNAL
        return self._mapped[start:end]
