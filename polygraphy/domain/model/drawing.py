"""A model as a drawing: each of its graphs with the places of its nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen

from polygraphy.domain.model.description import Function, Model, TensorFlowGraph
from polygraphy.domain.model.engine import EngineDescription, Layer, NetworkDescription
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
    constant_weight,
)
from polygraphy.domain.tensors.metadata import TensorMetadata

Edge = tuple[int, int]
"""Numbers of the two vertices of an edge."""


def rows_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the row of each vertex, from 0 at the top.

    Every edge leads to a lower row, except those that close a cycle, which a valid model does not
    have.

    Args:
        count: number of vertices.
        edges: pairs of vertices from 0 to `count` - 1; there may be several of the same two.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for start, end in edges:
        if start != end:
            after[start].append(end)
            waiting[end] += 1
    sources = [vertex for vertex in range(count) if not waiting[vertex]]
    rows = _longest_paths(after, waiting, deque(sources))
    for vertex in sources:
        below = min((rows[end] for end in after[vertex]), default=rows[vertex] + 1)
        rows[vertex] = max(rows[vertex], below - 1)
    return rows


def _longest_paths(after: list[list[int]], waiting: list[int], ready: deque[int]) -> list[int]:
    """Return the row of each vertex: the length of the longest path to it."""
    rows = [0] * len(after)
    placed = [False] * len(after)
    next_in_circle = 0
    while True:
        while ready:
            vertex = ready.popleft()
            placed[vertex] = True
            for end in after[vertex]:
                if placed[end]:  # The edge closes a cycle, and points upwards.
                    continue
                rows[end] = max(rows[end], rows[vertex] + 1)
                waiting[end] -= 1
                if not waiting[end]:
                    ready.append(end)
        while next_in_circle < len(after) and placed[next_in_circle]:
            next_in_circle += 1
        if next_in_circle == len(after):
            return rows
        # All remaining vertices are in or after a cycle. Start at the first of them.
        ready.append(next_in_circle)
        waiting[next_in_circle] = -1


LONGEST_ROUTE = 24
"""An edge across more rows than this is drawn straight: bends in all of them cost too much."""

_SWEEPS = 8
_BEND_WIDTH = 0.2  # Relative to the width of a vertex.
_MOST_BENDS = 4  # Limit for the total number of bends, per vertex and edge.


@frozen
class Layout:
    """The positions of vertices and edges.

    Attributes:
        rows: the row of each vertex, from 0 at the top.
        columns: the position of each vertex's center in its row, in widths of a vertex; any real
            number.
        bends: of each edge, where it crosses the rows between its ends, in order from the upper
            one; empty when it is drawn straight.
    """

    rows: tuple[int, ...]
    columns: tuple[float, ...]
    bends: tuple[tuple[float, ...], ...]


def layout_of(count: int, edges: Sequence[Edge]) -> Layout:
    """Return the positions of the vertices and edges of a directed graph.

    Args:
        count: number of vertices.
        edges: pairs of vertices, from 0 to `count` - 1.
    """
    rows = rows_of(count, edges)
    chains = _chains(rows, edges)
    drawn = _Drawing(count, rows, edges, chains)
    for sweep in range(_SWEEPS):
        drawn.sweep(down=sweep % 2 == 0)
    columns = drawn.columns
    return Layout(
        rows=tuple(rows),
        columns=tuple(round(column, 2) for column in columns[:count]),
        bends=tuple(tuple(round(columns[bend], 2) for bend in chain) for chain in chains),
    )


def _chains(rows: Sequence[int], edges: Sequence[Edge]) -> list[list[int]]:
    """Return, for each edge, the numbers of its bends, which follow the vertices."""
    chains: list[list[int]] = [[] for _ in edges]
    budget = _MOST_BENDS * (len(rows) + len(edges))
    lengths = [rows[end] - rows[start] - 1 for start, end in edges]
    number = len(rows)
    for index in sorted(range(len(edges)), key=lengths.__getitem__):
        length = lengths[index]
        if length > min(LONGEST_ROUTE, budget):
            break
        if length > 0:
            chains[index] = list(range(number, number + length))
            number += length
            budget -= length
    return chains


class _Drawing:
    """The vertices and bends of a drawing while they move to their positions; a bend is a narrow
    vertex."""

    def __init__(
        self,
        count: int,
        rows: Sequence[int],
        edges: Sequence[Edge],
        chains: Sequence[Sequence[int]],
    ) -> None:
        """Place the vertices of each row side by side, in the given order."""
        total = count + sum(map(len, chains))
        self._above: list[list[int]] = [[] for _ in range(total)]
        self._below: list[list[int]] = [[] for _ in range(total)]
        self._widths = [1.0] * count + [_BEND_WIDTH] * (total - count)
        self._levels: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
        for vertex, row in enumerate(rows):
            self._levels[row].append(vertex)
        for (start, end), chain in zip(edges, chains):
            for offset, bend in enumerate(chain, 1):
                self._levels[rows[start] + offset].append(bend)
            path = [start, *chain, end]
            for upper, lower in pairwise(path):
                self._below[upper].append(lower)
                self._above[lower].append(upper)
        self.columns = [0.0] * total
        for level in self._levels:
            self._place_level(level, [0.0] * len(level))

    def sweep(self, *, down: bool) -> None:
        """Move every vertex towards its neighbors in the row above (downwards) or below (upwards),
        row by row.
        """
        neighbors = self._above if down else self._below
        columns = self.columns
        for level in self._levels if down else reversed(self._levels):
            wanted = [
                (
                    sum([columns[other_index] for other_index in neighbors[vertex]])
                    / len(neighbors[vertex])
                    if neighbors[vertex]
                    else columns[vertex]
                )
                for vertex in level
            ]
            if len(level) > 1:
                order = sorted(range(len(level)), key=wanted.__getitem__)
                level[:] = [level[position] for position in order]
                wanted = [wanted[position] for position in order]
            self._place_level(level, wanted)

    def _place_level(self, level: Sequence[int], wanted: Sequence[float]) -> None:
        """Set the columns of a level as close to the wanted ones as widths allow."""
        if len(level) == 1:
            self.columns[level[0]] = wanted[0]
            return
        placed = spread_centers(wanted, [self._widths[vertex] for vertex in level])
        for vertex, column in zip(level, placed):
            self.columns[vertex] = column


def spread_centers(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return centers as close as possible to the wanted ones (least squares), in order and without
    overlap, for items of these widths."""
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2)
    # The sum of the wanted positions of a block, and its number of items.
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets):
        total, size = want - offset, 1
        while blocks and blocks[-1][0] * size > total * blocks[-1][1]:
            extra_blocks, members = blocks.pop()
            total, size = total + extra_blocks, size + members
        blocks.append((total, size))
    placed = [total / size for total, size in blocks for _ in range(size)]
    return [column + offset for column, offset in zip(placed, offsets)]


Wire = tuple[int, int, str]
"""Numbers of the two vertices, and the tensor between them."""


@frozen
class GraphDrawing:
    """The drawing of one graph; its vertices are inputs, nodes and outputs, numbered in this order.

    Attributes:
        graph: the graph to draw.
        wires: the connections; a node also takes the outer tensors that its subgraphs take.
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

    Weights, whether initializers or values of Constant nodes, are not vertices. The main graph is
    first; the graphs inside a node follow the graph that contains it, in the order of `Graph.walk`,
    and the bodies of functions come last, with their subgraphs.
    """
    drawings: list[GraphDrawing] = []
    _draw_graphs(_without_constants(model.graph), None, None, drawings)
    for function in model.functions:
        body = _without_constants(_body(function))
        _draw_graphs(body, None, (function.domain, function.name), drawings)
    return drawings


def model_to_draw(description: Any) -> Model | None:
    """Return the model in a description for drawing; None if it has no graph.

    For an engine, the layers of the first optimization profile are drawn, because the others have
    the same layers.
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


def draw_graph(
    graph: Graph, parent: int | None = None, function: tuple[str, str] | None = None
) -> GraphDrawing:
    """Return the drawing of one graph."""
    wires = tuple(_wires(graph))
    count = len(graph.inputs) + len(graph.nodes) + len(graph.outputs)
    layout = layout_of(count, [(start, end) for start, end, _ in wires])
    return GraphDrawing(graph, wires, layout, parent, function)


def _draw_graphs(
    graph: Graph,
    parent: int | None,
    function: tuple[str, str] | None,
    drawings: list[GraphDrawing],
) -> None:
    """Draw a graph and its subgraphs, and append the drawings to a list."""
    number = len(drawings)
    drawings.append(draw_graph(graph, parent, function))
    for node in graph.nodes:
        for inner in node.graphs:
            _draw_graphs(inner, number, None, drawings)


def _without_constants(graph: Graph) -> Graph:
    """Return a graph whose Constant nodes, including those in subgraphs, are weights."""
    nodes = [node for node in graph.nodes if constant_weight(node) is None]
    return evolve(
        graph,
        weights=graph.all_weights,
        nodes=tuple(
            evolve(node, attributes=_attributes_to_draw(node)) if any(node.graphs) else node
            for node in nodes
        ),
    )


def _attributes_to_draw(node: Node) -> tuple[Attribute, ...]:
    """Return the attributes of a node, with Constant nodes removed from subgraphs."""
    return tuple(
        evolve(attribute, value=_value_to_show(attribute.kind, attribute.value))
        for attribute in node.attributes
    )


def _value_to_show(kind: str, value: Any) -> Any:
    """Return the value of an attribute as the drawing shows it: graphs without their constants."""
    if kind == "graph":
        return _without_constants(value)
    return tuple(map(_without_constants, value)) if kind == "graphs" else value


def _body(function: Function) -> Graph:
    """Return the body of a function as a graph."""
    return Graph(
        name=function.name,
        inputs=tuple(map(Tensor, function.inputs)),
        outputs=tuple(map(Tensor, function.outputs)),
        node_count=function.node_count,
        nodes=function.nodes,
    )


def _wires(graph: Graph) -> Iterator[Wire]:
    """Yield the wires of a graph: producer, consumer and tensor."""
    first_node = len(graph.inputs)
    producers = {tensor.name: vertex for vertex, tensor in enumerate(graph.inputs)}
    for position, node in enumerate(graph.nodes, first_node):
        producers.update((name, position) for name in node.outputs if name)
    for position, node in enumerate(graph.nodes, first_node):
        for name in node.reads:
            producer = producers.get(name)
            if producer is not None and producer != position:
                yield producer, position, name
    for position, tensor in enumerate(graph.outputs, first_node + len(graph.nodes)):
        if tensor.name in producers:
            yield producers[tensor.name], position, tensor.name


def _network(
    description: NetworkDescription | EngineDescription, layers: tuple[Layer, ...]
) -> Graph:
    """Return a network of layers as a graph."""
    inputs, outputs = _tensors_of(description.inputs), _tensors_of(description.outputs)
    network = {tensor.name: tensor for tensor in (*inputs, *outputs)}
    nodes = []
    for layer in layers:
        for tensors in (layer.inputs, layer.outputs):
            network.update((tensor.name, tensor) for tensor in _tensors_of(tensors))
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
        tensors=network,
    )


def _tensors_of(metadata: TensorMetadata) -> tuple[Tensor, ...]:
    """Return the tensors of metadata."""
    return tuple(
        Tensor(
            name,
            None if meta.dtype is None else str(meta.dtype),
            None if meta.shape is None else tuple(meta.shape),
        )
        for name, meta in metadata.items()
    )
