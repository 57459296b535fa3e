"""Events of a profiler, put together to executed nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from polygraphy.domain.model.graph import Node
from polygraphy.domain.profiling.execution import HOST, ExecutedNode, ModelNodes, settings_of


@frozen
class NodeEvent:
    """One execution of a node.

    Attributes:
        name: the name of the node in the backend.
        op: its operator, or type of layer.
        microseconds: duration in microseconds.
        provider: the execution provider, or device.
        kernel: the kernel that ran.
        clock: the source of the time; see `ExecutedNode`.
        inner: the nodes that ran in its bodies.
    """

    name: str
    op: str
    microseconds: float
    provider: str = ""
    kernel: str = ""
    clock: str = HOST
    inner: Sequence[NodeEvent] = ()


def collect_nodes(
    runs: Sequence[Sequence[NodeEvent]], graph: ModelNodes | None = None
) -> list[ExecutedNode]:
    """Return the executed nodes of some runs of one model.

    Args:
        runs: the events of each run, in order.
        graph: the executed graph, which has the inputs and outputs of nodes; None if unknown.
    """
    columns: dict[tuple[str, str, int], list[NodeEvent | None]] = {}
    for number, events in enumerate(runs):
        seen_values: dict[tuple[str, str], int] = {}
        for event in events:
            key = (event.name, event.op)
            count = seen_values[key] = seen_values.get(key, -1) + 1
            column = columns.setdefault((*key, count), [])
            column += [None] * (number - len(column))
            column.append(event)
    nodes = [_join_events(column, len(runs)) for column in columns.values()]
    return nodes if graph is None else place_in_graph(nodes, graph)


def _join_events(column: Sequence[NodeEvent | None], runs: int) -> ExecutedNode:
    """Return the executed node for the events of one position in all runs."""
    events = [event for event in column if event is not None]
    first = events[0]
    times = [0.0 if event is None else event.microseconds for event in column]
    return ExecutedNode(
        first.name,
        first.op,
        [*times, *[0.0] * (runs - len(times))],
        provider=first.provider,
        kernel=next((event.kernel for event in events if event.kernel), ""),
        clock=first.clock,
        inner=_inner_nodes(column, runs),
        calls=len(events) / runs,
    )


def _inner_nodes(column: Sequence[NodeEvent | None], runs: int) -> list[ExecutedNode]:
    """Return the nodes that ran in the bodies of a node, once each,
    with their time in all iterations.
    """
    times: dict[tuple[str, str], list[float]] = {}
    node_events: dict[tuple[str, str], list[NodeEvent]] = {}
    for number, event in enumerate(column):
        for inner in () if event is None else event.inner:
            key = (inner.name, inner.op)
            times.setdefault(key, [0.0] * runs)[number] += inner.microseconds
            node_events.setdefault(key, []).append(inner)
    return [
        ExecutedNode(
            name,
            op,
            times[name, op],
            provider=events[0].provider,
            kernel=events[0].kernel,
            clock=events[0].clock,
            inner=_inner_nodes(events, len(events)) if any(event.inner for event in events) else (),
            calls=len(events) / runs,
        )
        for (name, op), events in node_events.items()
    ]


def place_in_graph(nodes: Sequence[ExecutedNode], graph: ModelNodes) -> list[ExecutedNode]:
    """Return executed nodes with their inputs and outputs, in the order of the executed graph.

    Names find most of them. Nodes without a name are found by operator and order.
    """
    by_name: dict[str, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        by_name.setdefault(node.label, []).append(index)
    positions: dict[int, int] = {}
    for number, executed in enumerate(nodes):
        candidates = by_name.get(executed.name, [])
        match = next((at for at in candidates if _has_op(graph.nodes[at], executed.op)), None)
        if match is not None:
            candidates.remove(match)
            positions[number] = match
    remaining_values: dict[str, list[int]] = {}
    used = set(positions.values())
    for index, candidate in enumerate(graph.nodes):
        if index not in used:
            remaining_values.setdefault(candidate.operator.rpartition(".")[2], []).append(index)
    for number, executed in enumerate(nodes):
        waiting = remaining_values.get(executed.op.rpartition(".")[2])
        if number not in positions and waiting:
            positions[number] = waiting.pop(0)
    executeds = [
        _fill_in(executed, graph.nodes[positions[number]]) if number in positions else executed
        for number, executed in enumerate(nodes)
    ]
    end = len(graph.nodes)
    order = sorted(range(len(executeds)), key=lambda number: positions.get(number, end))
    return [executeds[number] for number in order]


def _has_op(node: Node, op: str) -> bool:
    """Return whether a node has an operator, regardless of its domain."""
    return node.operator.rpartition(".")[2] == op.rpartition(".")[2]


def _fill_in(executed: ExecutedNode, node: Node) -> ExecutedNode:
    """Return an executed node with the operator, inputs and outputs of a graph node."""
    return evolve(
        executed,
        op=node.operator,
        reads=node.inputs,
        makes=node.makes,
        settings=settings_of(node) or "none",
    )


def group_by_shapes(shapes: Iterable[object]) -> list[list[int]]:
    """Return the positions of runs with equal shapes, in the order in which they appear first."""
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(shapes):
        groups.setdefault(repr(key), []).append(number)
    return list(groups.values())
