"""Which nodes make the outputs that were compared, so that layers can be named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.naming import one_line
from polygraphy.ports.binding import resolve
from polygraphy.ports.models import ModelReader

if TYPE_CHECKING:
    from polygraphy.domain.model import Graph, Node

_INPUTS = 4
"""Tensors that a node is said to read."""


def graph_of(path: str) -> Graph | None:
    """Return the graph of an ONNX model with its nodes; None where it cannot be read."""
    if format_named(path) != "onnx" or not Path(path).is_file():
        return None
    from polygraphy.domain.model import Detail, ModelSource

    source = ModelSource(path, ignore_external_data=True)
    try:
        graph: Graph = (
            resolve(ModelReader, "onnx").read(source, Detail(layers=True, origins=True)).graph
        )
    except PolygraphyException:  # The rows are shown without them.
        return None
    return graph


def node_words(node: Node) -> str:
    """Return what a node computes of which tensors, and where it comes from."""
    inputs = [one_line(name) for name in node.inputs if name]
    reads = ", ".join(inputs[:_INPUTS]) + (", ..." if len(inputs) > _INPUTS else "")
    of = f" of {reads}" if reads else ""
    origin = "" if node.origin is None else f"; {node.origin}"
    return f"{one_line(node.op)} {node.label!r}{of}{origin}"
