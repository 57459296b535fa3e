"""A TensorFlow graph as text."""

from __future__ import annotations

from collections.abc import Iterator

from polygraphy.adapters.console.models.onnx_text import graph_lines
from polygraphy.domain.model import Detail
from polygraphy.domain.model.tensorflow import TensorFlowGraph
from polygraphy.domain.tensors.naming import one_line


def tensorflow_lines(described: TensorFlowGraph, detail: Detail) -> Iterator[str]:
    """Yield the lines of the text about a graph."""
    yield "==== TensorFlow Graph ===="
    yield f"Name: {one_line(described.graph.name)} | Type: {described.kind}"
    yield ""
    yield from graph_lines(described.graph, detail)
