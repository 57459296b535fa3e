"""What ONNX messages hold: the attributes of nodes, the graphs inside them (the branches of an If,
the body of a Loop), and the shape of a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def graphs_of(node: Any) -> list[Any]:
    """Return the graphs directly inside an ``onnx.NodeProto``."""
    found: list[Any] = []
    for attribute in node.attribute[:]:  # A copy: several times quicker than going through it.
        if attribute.HasField("g"):
            found.append(attribute.g)
        else:
            found.extend(attribute.graphs)
    return found


def attribute_named(node: Any, name: str) -> Any | None:
    """Return the ``onnx.AttributeProto`` of a node that has a name; None where it is left out."""
    return next((each for each in node.attribute if name and each.name == name), None)


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or function, and of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def shape_of(tensor_type: Any) -> list[Any] | None:
    """Return the shape in an ``onnx.TypeProto.Tensor``: a number, a name or None per dimension;
    None where it has none.
    """
    if not tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor_type.shape.dim
    ]
