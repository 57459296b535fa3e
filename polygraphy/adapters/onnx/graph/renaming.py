"""Lets nodes take other tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.graph.element_types import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto


def rename_uses(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Let every node of a graph, and of those inside it, that takes some tensors take others."""
    for node in graph.node:
        for position, name in enumerate(node.input[:]):
            if name in names:
                node.input[position] = names[name]
        for inner in graphs_of(node):
            own = _own_names(inner)
            seen = {name: after for name, after in names.items() if name not in own}
            rename_uses(inner, seen)
            for value in inner.output:
                value.name = seen.get(value.name, value.name)


def _own_names(graph: GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output)
    return names
