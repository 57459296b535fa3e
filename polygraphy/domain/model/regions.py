"""Which nodes of a model a fused node of the graph that is really run stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from polygraphy.domain.model.graph import Node

BOUNDED = frozenset({"Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Softsign", "Tanh"})
"""Operators whose results lie between -1 and 1; backends approximate them as precisely as 1 is."""

MOVES = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators that hand on the numbers that they read."""


def producers(nodes: Iterable[Node]) -> dict[str, int]:
    """Return, by tensor, the position of the node that computes it."""
    return {name: index for index, node in enumerate(nodes) for name in node.makes}


def consumers(nodes: Iterable[Node]) -> dict[str, list[int]]:
    """Return by tensor the positions of the nodes that read it."""
    found_consumers: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in dict.fromkeys(node.reads):
            found_consumers.setdefault(name, []).append(index)
    return found_consumers


def computing_op(nodes: Sequence[Node], makers: Mapping[str, int], tensor: str) -> str:
    """Return the operator that computed a tensor, past operators that only move data; "" if no node
    did.

    Args:
        nodes: the nodes of a graph.
        makers: what `producers` returns about them.
        tensor: its name.
    """
    index = makers.get(tensor)
    while index is not None and nodes[index].operator in MOVES and nodes[index].reads:
        index = makers.get(nodes[index].reads[0])
    return "" if index is None else nodes[index].operator


def region_before(nodes: Sequence[Node], tensor: str, surviving: Collection[str]) -> list[int]:
    """Return, in order, the nodes that compute a tensor from surviving tensors."""
    makers = producers(nodes)
    region: set[int] = set()
    pending = [tensor]
    while pending:
        index = makers.get(pending.pop())
        if index is None or index in region:
            continue
        region.add(index)
        pending += [name for name in nodes[index].reads if name not in surviving]
    return sorted(region)


def nodes_after_inputs(nodes: Sequence[Node], inputs: Collection[str]) -> set[int]:
    """Return the positions of the nodes that depend on inputs, not on weights alone."""
    fed = set(inputs)
    found_indices: set[int] = set()
    for index, node in enumerate(nodes):
        if not fed.isdisjoint(node.reads):
            fed.update(node.makes)
            found_indices.add(index)
    return found_indices


def read_by_region(nodes: Sequence[Node], tensor: str, surviving: Collection[str]) -> set[str]:
    """Return the surviving tensors that a tensor is computed from."""
    region = region_before(nodes, tensor, surviving)
    return {name for index in region for name in nodes[index].reads if name in surviving}


def missing_nodes(
    nodes: Sequence[Node], region: Sequence[int], executed: Sequence[Node], tensor: str
) -> list[int]:
    """Return the nodes of a region that are missing from the executed graph. A last node that
    remains and only reads a different tensor was not replaced.
    """
    makers = producers(executed)
    if len(region) < 2 or tensor not in makers:
        return list(region)
    last = producers(nodes)[tensor]
    kept_node, own_node = executed[makers[tensor]], nodes[last]
    out = {i for i in region if i != last and any(_is_kept(nodes[i], node) for node in executed)}
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


def nodes_around(nodes: Sequence[Node], region: Iterable[int], hops: int) -> list[int]:
    """Return a region with the nodes at most `hops` steps before and after it."""
    makers, readers = producers(nodes), consumers(nodes)
    found_region = set(region)
    edge = set(found_region)
    for _ in range(hops):
        near = {makers[name] for i in edge for name in nodes[i].reads if name in makers}
        near |= {j for i in edge for name in nodes[i].makes for j in readers.get(name, ())}
        edge = near - found_region
        found_region |= near
    return sorted(_close_region(nodes, found_region))


def _close_region(nodes: Sequence[Node], chosen: Collection[int]) -> set[int]:
    """Return nodes with all nodes on paths between them, so that the part does not feed itself from
    outside.
    """
    makers = producers(nodes)
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
