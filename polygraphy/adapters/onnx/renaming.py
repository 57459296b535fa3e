"""Lets nodes take another tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.element_types import graphs_of
from polygraphy.adapters.onnx.graph import captured

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["rename_uses"]


def rename_uses(graph: GraphProto, before: str, after: str) -> None:
    """Let every node of a graph, and of those inside it, that takes one tensor take another."""
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name == before:
                node.input[position] = after
        if before in captured(node):
            for inner in graphs_of(node):
                if before not in _own_names(inner):
                    rename_uses(inner, before, after)
                    for value in inner.output:
                        if value.name == before:
                            value.name = after


def _own_names(graph: GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output)
    return names
