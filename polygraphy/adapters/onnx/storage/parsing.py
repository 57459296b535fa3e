"""What is asked of every ONNX model as it is read, damaged texts and sizes included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from polygraphy.domain.errors import ModelError, NotFetchedError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

# What protobuf raises; which one follows from the form that the onnx package takes a file for, by
# its extension.
_UNREADABLE = ("DecodeError", "ParseError", "UnicodeDecodeError")
_REASON_WIDTH = 200
_TOO_DEEP = "MaxDepth"
_LFS = b"version https://git-lfs"


@contextmanager
def translated_errors(source: object) -> Iterator[None]:
    """Turn an error of protobuf inside the block into a ModelError that names the source."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _UNREADABLE:
            raise
        if _TOO_DEEP in str(error):
            raise ModelError(
                f"{source} holds graphs in graphs more deeply nested than protobuf reads: 100"
                " messages, which are about 30 graphs.",
                path=source,
                hint="Export it with its branches and loops beside each other, or as functions.",
            ) from error
        if _is_pointer(source):
            raise NotFetchedError(
                f"{source} is a pointer of Git LFS to a model, which was not fetched.",
                path=source,
                hint="Fetch it: git lfs pull.",
            ) from error
        reason = shorten(str(error), _REASON_WIDTH)  # It may quote the whole file.
        raise ModelError(
            f"ONNX model is invalid: {source} is truncated, damaged, or no ONNX model at all."
            f" ({reason})",
            path=source,
            hint="Export or download it again.",
        ) from error


def _is_pointer(source: object) -> bool:
    """Return whether a file only says where Git LFS has the file that is meant."""
    try:
        with Path(str(source)).open("rb") as stream:
            return stream.read(len(_LFS)) == _LFS
    except (OSError, ValueError):  # It may have no file.
        return False


def check_graph(model: ModelProto, source: object) -> None:
    """Look at a model that was just read.

    Raises:
        ModelError: it has no graph - nearly every file is a model to protobuf - or a name in it is
            no text, which protobuf does not ask for.
    """
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"ONNX model is invalid: {source} holds no graph.", path=source)
    names: list[str] = []
    _collect_names(model.graph, names)
    for function in model.functions:
        names += (function.name, function.domain, *function.input, *function.output)
        _collect_node_names(function.node, names)
    texts(names)


def _collect_names(graph: GraphProto, names: list[str]) -> None:
    for listed in (graph.input, graph.output, graph.value_info, graph.initializer):
        names.extend(each.name for each in listed)
    names.extend(each.values.name for each in graph.sparse_initializer)
    _collect_node_names(graph.node, names)


def _collect_node_names(nodes: Any, names: list[str]) -> None:
    for node in nodes:
        names += (node.name, node.op_type, node.domain)
        names.extend(node.input[:])
        names.extend(node.output[:])
        for attribute in node.attribute[:]:
            names.append(attribute.name)
            if attribute.HasField("g"):
                _collect_names(attribute.g, names)
            for inner in attribute.graphs:
                _collect_names(inner, names)


def text(value: str) -> str:
    """Return a text of a message; ModelError when it is none."""
    return value if isinstance(value, str) else texts((value,))[0]


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return texts of a message; ModelError when one is none."""
    made = tuple(values)
    check_texts(made)
    return made


def check_texts(values: tuple[str | bytes, ...]) -> None:
    """Look at texts of a message.

    Raises:
        ModelError: one is none.
    """
    try:
        "".join(values)  # type: ignore[arg-type]
    except TypeError:
        wrong = next(one for one in values if isinstance(one, bytes))
        raise ModelError(
            f"ONNX model is invalid: the name {wrong!r} is no UTF-8, so the model is damaged.",
            hint="Export or download it again.",
        ) from None
