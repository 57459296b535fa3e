"""What ONNX messages hold: the attributes of nodes, the graphs inside them (the branches of an If,
the body of a Loop), what these read from around them, the shape of a type, and which results are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from polygraphy.domain.errors import UsageError

_Message = TypeVar("_Message")


def copy_of(message: _Message) -> _Message:
    """Return a copy of a protobuf message."""
    result: Any = type(message)()
    result.CopyFrom(message)
    return result  # type: ignore[no-any-return]


def graphs_of(node: Any) -> list[Any]:
    """Return the graphs directly inside an ``onnx.NodeProto``."""
    graphs: list[Any] = []
    for attribute in node.attribute[:]:  # Copying is several times faster than iterating.
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        else:
            graphs.extend(attribute.graphs)
    return graphs


def attribute_named(node: Any, name: str) -> Any | None:
    """Return the ``onnx.AttributeProto`` of a node with a name; None if it is missing."""
    return next(
        (attribute for attribute in node.attribute if name and attribute.name == name), None
    )


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or function, and of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def tensors_read(node: Any, inner: Iterable[Any] | None = None) -> list[str]:
    """Return the names of all tensors that a node reads, also in its subgraphs.
    `inner` are the subgraphs if they are known.
    """
    names = [name for name in node.input[:] if name]
    for graph in graphs_of(node) if inner is None else inner:
        names.extend(outer_names(graph))
    return names


def outer_names(graph: Any) -> Iterator[str]:
    """Yield the names of outer tensors that a subgraph reads."""
    names = tensor_names(graph)
    for node in graph.node:
        yield from (name for name in tensors_read(node) if name not in names)
    yield from (value.name for value in graph.output if value.name not in names)


def tensor_names(graph: Any) -> set[str]:
    """Return the names of the tensors of a graph, without those of its subgraphs."""
    names = {value.name for value in graph.input} | weight_names(graph)
    names.update(name for node in graph.node for name in node.output)
    return names


def weight_names(graph: Any) -> set[str]:
    """Return the names of the initializers of a graph, including sparse ones."""
    names = {tensor.name for tensor in graph.initializer}
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    return names


def inputs_of(graph: Any) -> list[Any]:
    """Return the inputs of a graph, without the initializers that older models list there."""
    weights = weight_names(graph)
    return [value for value in graph.input if value.name not in weights]


def identity_of(node: Any) -> str:
    """Return the name of a node, or else that of its first output."""
    return str(node.name or next(filter(None, node.output), ""))


def shape_of(tensor_type: Any) -> list[Any] | None:
    """Return the shape in an ``onnx.TypeProto.Tensor``: a number, a name or None per dimension.
    The result is None without a shape.
    """
    if not tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor_type.shape.dim
    ]


NUMBERED = frozenset({"If", "Loop", "Scan", "Split"})
"""Operators of the standard with any number of results."""


def omits_results(node: Any) -> bool:
    """Return whether a node, or one in its subgraphs, is an If, Loop, Scan or Split that omits an
    output.
    """
    if node.op_type in NUMBERED and not all(node.output):
        return True
    return any(omits_results(inner) for graph in graphs_of(node) for inner in graph.node)


def with_all_results(model: Any) -> Any:
    """Return an ``onnx.ModelProto`` in which all omitted results have names: the model itself,
    unchanged, if none are omitted.
    """
    owners = (model.graph, *model.functions)
    if not any(omits_results(node) for owner in owners for node in owner.node):
        return model
    all_results = type(model)()
    all_results.CopyFrom(model)
    numbers = count()
    for owner in (all_results.graph, *all_results.functions):
        for node in all_nodes(owner):
            if node.op_type in NUMBERED:
                for position, name in enumerate(node.output):
                    if not name:
                        node.output[position] = f"polygraphy_left_out_{next(numbers)}"
    return all_results


def refuse_inner_name(graph: Any, name: str, functions: Iterable[Any] = ()) -> None:
    """Raise an error with the location of a tensor or node if it is inside a subgraph or a function
    of the model.

    Raises:
        UsageError: it is.
    """
    for function in functions:
        nodes = [node for node in all_nodes(function) if name in (node.name, *node.output)]
        if nodes or name in function.input:
            key = (function.domain, function.name)
            calls = [node for node in all_nodes(graph) if (node.domain, node.op_type) == key]
            outputs = [output for call in calls for output in call.output]
            raise UsageError(
                f"{name!r} is in the function {function.name!r}, which can only be selected as a"
                " whole.",
                hint=f"The nodes that call it compute {', '.join(map(repr, outputs))}.",
            )
    for node in graph.node:
        for inner in (part for graph in graphs_of(node) for part in all_nodes(graph)):
            if name not in (inner.name, *inner.output):
                continue
            text = "Tensor" if name in inner.output else "Node"
            label = node.name or next(iter(node.output), "")
            raise UsageError(
                f"{text} {name!r} is in a subgraph of the {node.op_type} node {label!r},"
                " which can only be selected as a whole.",
                hint=f"The outputs of that node are {', '.join(map(repr, node.output))}.",
            )
