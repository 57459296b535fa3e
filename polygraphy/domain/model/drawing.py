"""A model as a drawing: each of its graphs with the places of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from polygraphy.domain.model.description import (
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    Tensor,
    TensorFlowGraph,
    held_weight,
)
from polygraphy.domain.model.engine import EngineDescription, Layer, NetworkDescription
from polygraphy.domain.model.layout import Layout, lay_out
from polygraphy.domain.tensors.metadata import TensorMetadata

Wire = tuple[int, int, str]
"""From one vertex to another, and the tensor that it stands for."""


@frozen
class GraphDrawing:
    """One graph; its vertices are its inputs, its nodes and its outputs, numbered in this order.

    Attributes:
        graph: what is drawn.
        wires: who gives a tensor to whom; a node takes what the graphs inside it take from outside.
        layout: places of the vertices and, in the order of the wires, of these.
        parent: the number of the drawing of the graph around it; None for the main graph and for
            functions.
        function: name of the function, for the body of one, and its domain.
    """

    graph: Graph
    wires: tuple[Wire, ...]
    layout: Layout
    parent: int | None = None
    function: tuple[str, str] | None = None


def draw(model: Model) -> list[GraphDrawing]:
    """Return the drawings of all graphs of a model that was read with layers and attributes.

    Weights are not vertices, be they initialisers or the values of Constant nodes. The main graph
    is the first; the graphs inside a node follow behind the graph that it is in, in
    the order of `Graph.walk`, and the bodies of functions with theirs come last.
    """
    made: list[GraphDrawing] = []
    _draw_graph(_without_constants(model.graph), None, None, made)
    for function in model.functions:
        body = _without_constants(_body(function))
        _draw_graph(body, None, (function.domain, function.name), made)
    return made


def drawn_model(description: Any) -> Model | None:
    """Return what a reader described as a model of graphs; None where it has none.

    Of an engine, the layers of the first optimisation profile are drawn: the others have the same.
    """
    if isinstance(description, Model):
        return description
    if isinstance(description, TensorFlowGraph):
        return Model(path=description.path, graph=description.graph)
    if isinstance(description, (NetworkDescription, EngineDescription)):
        layers = description.layers
        if isinstance(description, EngineDescription):
            layers = layers[: description.layers_per_profile]
        return Model(path=description.name, graph=_network(description, layers))
    return None


def drawn_graph(
    graph: Graph, parent: int | None = None, function: tuple[str, str] | None = None
) -> GraphDrawing:
    """Return the drawing of one graph."""
    wires = tuple(_wires(graph))
    count = len(graph.inputs) + len(graph.nodes) + len(graph.outputs)
    layout = lay_out(count, [(start, end) for start, end, _ in wires])
    return GraphDrawing(graph, wires, layout, parent, function)


def _draw_graph(
    graph: Graph,
    parent: int | None,
    function: tuple[str, str] | None,
    made: list[GraphDrawing],
) -> None:
    number = len(made)
    made.append(drawn_graph(graph, parent, function))
    for node in graph.nodes:
        for inner in node.graphs:
            _draw_graph(inner, number, None, made)


def _without_constants(graph: Graph) -> Graph:
    """Return a graph whose Constant nodes are weights, as are those of the graphs inside it."""
    shown = [node for node in graph.nodes if held_weight(node) is None]
    return evolve(
        graph,
        weights=graph.all_weights,
        nodes=tuple(
            evolve(node, attributes=_replaced(node)) if any(node.graphs) else node for node in shown
        ),
    )


def _replaced(node: Node) -> tuple[Attribute, ...]:
    """Return the attributes of a node, the graphs inside it without Constant nodes."""
    return tuple(evolve(one, value=_shown(one.kind, one.value)) for one in node.attributes)


def _shown(kind: str, value: Any) -> Any:
    if kind == "graph":
        return _without_constants(value)
    return tuple(map(_without_constants, value)) if kind == "graphs" else value


def _body(function: Function) -> Graph:
    return Graph(
        name=function.name,
        inputs=tuple(map(Tensor, function.inputs)),
        outputs=tuple(map(Tensor, function.outputs)),
        node_count=function.node_count,
        nodes=function.nodes,
    )


def _wires(graph: Graph) -> Iterator[Wire]:
    first_node = len(graph.inputs)
    producers = {tensor.name: vertex for vertex, tensor in enumerate(graph.inputs)}
    for position, node in enumerate(graph.nodes, first_node):
        producers.update((name, position) for name in node.outputs if name)
    for position, node in enumerate(graph.nodes, first_node):
        for name in dict.fromkeys(node.reads()):
            producer = producers.get(name)
            if producer is not None and producer != position:
                yield producer, position, name
    for position, tensor in enumerate(graph.outputs, first_node + len(graph.nodes)):
        if tensor.name in producers:
            yield producers[tensor.name], position, tensor.name


def _network(
    description: NetworkDescription | EngineDescription, layers: tuple[Layer, ...]
) -> Graph:
    inputs, outputs = _tensors(description.inputs), _tensors(description.outputs)
    known = {tensor.name: tensor for tensor in (*inputs, *outputs)}
    nodes = []
    for layer in layers:
        for tensors in (layer.inputs, layer.outputs):
            known.update((tensor.name, tensor) for tensor in _tensors(tensors))
        attributes = tuple(
            Attribute(name, "string", str(value)) for name, value in layer.attributes.items()
        )
        node = Node(layer.name, layer.op or "Layer", attributes=attributes)
        nodes.append(evolve(node, inputs=tuple(layer.inputs), outputs=tuple(layer.outputs)))
    return Graph(
        name=description.name,
        inputs=inputs,
        outputs=outputs,
        node_count=len(nodes),
        nodes=tuple(nodes),
        tensors=known,
    )


def _tensors(metadata: TensorMetadata) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(
            name,
            None if meta.dtype is None else str(meta.dtype),
            None if meta.shape is None else tuple(meta.shape),
        )
        for name, meta in metadata.items()
    )
