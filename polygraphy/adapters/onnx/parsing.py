"""What is asked of every ONNX model as it is read, and how it is said that one is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING

from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["check_graph", "translated_errors"]

# What protobuf raises; which one follows from the form that the onnx package takes a file for, by
# its extension.
_UNREADABLE = ("DecodeError", "ParseError", "UnicodeDecodeError")
_REASON_WIDTH = 200


@contextmanager
def translated_errors(source: object) -> Iterator[None]:
    """Turn an error of protobuf inside the block into a ModelError that names the source."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _UNREADABLE:
            raise
        reason = shorten(str(error), _REASON_WIDTH)  # It may quote the whole file.
        raise ModelError(
            f"ONNX model is invalid: {source} is truncated, damaged, or no ONNX model at all."
            f" ({reason})",
            path=source,
            hint="Export or download it again.",
        ) from error


def check_graph(model: ModelProto, source: object) -> None:
    """Raise ModelError for a model without a graph: nearly every file is one to protobuf."""
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"ONNX model is invalid: {source} holds no graph.", path=source)
