"""The nodes of a model that a fused node of the executed graph replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from polygraphy.domain.model.graph import Graph, Node

BOUNDED = frozenset(
    {
        "Cos", "Erf", "HardSigmoid", "QLinearSigmoid", "QLinearSoftmax", "Sigmoid", "Sin",
        "Softmax", "Softsign", "Tanh",
    }
)  # fmt: skip
"""Operators whose results lie between -1 and 1; backends approximate them as precisely as 1 is."""

MOVES = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators that hand on the numbers that they read."""


def computing_op(graph: Graph, tensor: str) -> str:
    """Return the operator that computed a tensor, past operators that only move data;
    "" if no node did.
    """
    nodes, makers = graph.nodes, graph.producers
    index = makers.get(tensor)
    while index is not None and nodes[index].operator in MOVES and nodes[index].reads:
        index = makers.get(nodes[index].reads[0])
    return "" if index is None else nodes[index].operator


def region_before(graph: Graph, tensor: str, surviving: Collection[str]) -> list[int]:
    """Return, in order, the nodes that compute a tensor from surviving tensors."""
    nodes, makers = graph.nodes, graph.producers
    region: set[int] = set()
    pending = [tensor]
    while pending:
        index = makers.get(pending.pop())
        if index is None or index in region:
            continue
        region.add(index)
        pending += [name for name in nodes[index].reads if name not in surviving]
    return sorted(region)


def nodes_after_inputs(graph: Graph, inputs: Collection[str]) -> set[int]:
    """Return the positions of the nodes that depend on inputs, not on weights alone."""
    fed = set(inputs)
    positions: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if not fed.isdisjoint(node.reads):
            fed.update(node.makes)
            positions.add(index)
    return positions


def read_by_region(graph: Graph, tensor: str, surviving: Collection[str]) -> set[str]:
    """Return the surviving tensors that a tensor is computed from."""
    region = region_before(graph, tensor, surviving)
    return {name for index in region for name in graph.nodes[index].reads if name in surviving}


def missing_nodes(graph: Graph, region: Sequence[int], executed: Graph, tensor: str) -> list[int]:
    """Return the nodes of a region that are missing from the executed graph.
    A last node that remains and only reads a different tensor was not replaced.
    """
    nodes, makers = graph.nodes, executed.producers
    if len(region) < 2 or tensor not in makers:
        return list(region)
    last = graph.producers[tensor]
    kept_node, own_node = executed.nodes[makers[tensor]], nodes[last]
    out = {
        i for i in region if i != last and any(_is_kept(nodes[i], node) for node in executed.nodes)
    }
    if (
        kept_node.operator == own_node.operator
        and kept_node.settings == own_node.settings
        and len(kept_node.reads) == len(own_node.reads)
    ):
        out.add(last)
    return [index for index in region if index not in out] or list(region)


def _is_kept(node: Node, other_node: Node) -> bool:
    """Return whether two nodes are the same operation; one of them may omit default attributes."""
    alike = node.operator == other_node.operator and list(node.reads) == list(other_node.reads)
    return alike and node.settings in ("", other_node.settings)


def nodes_around(graph: Graph, region: Iterable[int], hops: int) -> list[int]:
    """Return a region with the nodes at most `hops` steps before and after it."""
    nodes, makers, readers = graph.nodes, graph.producers, graph.consumers
    found_region = set(region)
    edge = set(found_region)
    for _ in range(hops):
        near = {makers[name] for i in edge for name in nodes[i].reads if name in makers}
        near |= {j for i in edge for name in nodes[i].makes for j in readers.get(name, ())}
        edge = near - found_region
        found_region |= near
    return sorted(_close_region(graph, found_region))


def _close_region(graph: Graph, chosen: Collection[int]) -> set[int]:
    """Return nodes with all nodes on paths between them,
    so that the part does not feed itself from outside.
    """
    nodes, makers = graph.nodes, graph.producers
    first = min(chosen, default=0)
    after: set[int] = set()
    for index in range(first, len(nodes)):
        before = (makers.get(name) for name in nodes[index].reads)
        if index in chosen or any(index in after for index in before if index is not None):
            after.add(index)
    pending = list(chosen)
    seen_indices: set[int] = set()
    before_any: set[int] = set()
    while pending:
        index = pending.pop()
        if index in seen_indices:
            continue
        seen_indices.add(index)
        for name in nodes[index].reads:
            maker = makers.get(name)
            if maker is not None and maker in after:
                before_any.add(maker)
                pending.append(maker)
    return set(chosen) | before_any
