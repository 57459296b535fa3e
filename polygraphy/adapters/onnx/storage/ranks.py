"""Finds the inputs of whose rank a model says something, in the bytes of the model: ONNX Runtime
describes an input of unknown rank as it does a scalar.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection
from pathlib import Path
from typing import Any

from polygraphy.adapters.onnx.storage.wire import BYTES, Content, MalformedError, fields

_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR_TYPE, _SHAPE = 7, 11, 1, 2, 1, 2


def ranked_inputs(model: Any) -> Collection[str]:
    """Return the inputs with a shape; none where the model cannot be read.

    Args:
        model: an ``onnx.ModelProto``, its bytes, or its path.
    """
    if hasattr(model, "graph"):
        return {
            value.name for value in model.graph.input if value.type.tensor_type.HasField("shape")
        }
    try:
        if isinstance(model, (bytes, bytearray)):
            return _in_model(bytes(model))
        with (
            Path(model).open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            return _in_model(mapped)
    except (OSError, ValueError, MalformedError, IndexError):
        return ()


def _in_model(content: Content) -> set[str]:
    ranked: set[str] = set()
    for graph in _parts(content, 0, len(content), _GRAPH):
        for start, end in _parts(content, *graph, _INPUT):
            if _has(content, start, end, (_TYPE, _TENSOR_TYPE, _SHAPE)):
                names = _parts(content, start, end, _NAME)
                ranked.update(content[at:stop].decode("utf-8", "replace") for at, stop in names)
    return ranked


def _parts(content: Content, start: int, end: int, number: int) -> list[tuple[int, int]]:
    """Return where the fields of one number begin and end."""
    return [
        (inner, after)
        for found, wire, _, inner, after in fields(content, start, end)
        if found == number and wire == BYTES
    ]


def _has(content: Content, start: int, end: int, numbers: tuple[int, ...]) -> bool:
    """Return whether a message has a field, given by the numbers on the way to it."""
    if not numbers:
        return True
    found = _parts(content, start, end, numbers[0])
    return any(_has(content, inner, after, numbers[1:]) for inner, after in found)
