"""Replaces Where by If, so that only the chosen operand is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

onnx = mod.lazy_import("onnx")


class _Choice(NamedTuple):
    """The Where nodes that share a condition.

    Attributes:
        flag: the condition.
        nodes: the nodes, each with operands of its own.
    """

    flag: str
    nodes: list[NodeProto]


def replace_where_by_if(graph: GraphProto, flags: Sequence[str]) -> None:
    """Replace each Where with a scalar condition by an If, and move nodes that only one operand
    needs into that branch.

    Args:
        graph: a graph; the order of its nodes is not kept.
        flags: the conditions of these Where nodes, inner ones first.
    """
    choices: dict[str, list[NodeProto]] = {flag: [] for flag in flags}
    for node in graph.node:
        if node.op_type == "Where" and node.input[0] in choices:
            choices[node.input[0]].append(node)
    nodes = {id(node): node for node in graph.node}
    makers = {name: node for node in graph.node for name in node.output if name}
    reads = Counter(name for node in graph.node for name in _reads(node))
    reads.update(value.name for value in graph.output)
    for flag, choice in choices.items():
        if not choice:
            continue
        branches = [_branch([node.input[at] for node in choice], makers, reads) for at in (1, 2)]
        chosen = _if_node(_Choice(flag, choice), branches)
        for old in (*choice, *branches[0], *branches[1]):
            del nodes[id(old)]
        nodes[id(chosen)] = chosen
        makers |= dict.fromkeys(chosen.output, chosen)
        reads[flag] += 1 - len(choice)
    result = [*nodes.values()]
    del graph.node[:]
    graph.node.extend(result)


def _branch(
    names: Sequence[str], makers: Mapping[str, NodeProto], reads: Mapping[str, int]
) -> list[NodeProto]:
    """Return the nodes that only the given tensors need, in order; each name is one read."""
    inside: dict[int, NodeProto] = {}
    order: list[NodeProto] = []
    read_inside = Counter(names)
    pending = [*names]
    while pending:
        node = makers.get(pending.pop())
        if node is None or id(node) in inside:
            continue
        if all(reads[name] == read_inside[name] for name in node.output if name):
            inside[id(node)] = node
            order.append(node)
            names_read = [*_reads(node)]
            read_inside.update(names_read)
            pending += names_read
    return order[::-1]


def _if_node(choice: _Choice, branches: Sequence[Sequence[NodeProto]]) -> NodeProto:
    """Return an If with the given nodes in its branches, for the Where nodes of one condition."""
    outputs = [node.output[0] for node in choice.nodes]
    graphs = {}
    for at, (key, nodes) in enumerate(zip(("then_branch", "else_branch"), branches), 1):
        names = {name for node in nodes for name in node.output}
        results, copies = [], []
        for number, node in enumerate(choice.nodes):
            name = node.input[at]
            if name not in names or name in results:
                copied = f"{outputs[number]}//{key}"
                copies.append(onnx.helper.make_node("Identity", [name], [copied]))
                name = copied
            results.append(name)
        ends = [onnx.ValueInfoProto(name=name) for name in results]
        graphs[key] = onnx.helper.make_graph([*nodes, *copies], f"{outputs[0]}//{key}", [], ends)
    chosen: NodeProto = onnx.helper.make_node(
        "If", [choice.flag], outputs, f"{outputs[0]}//if", **graphs
    )
    return chosen


def _reads(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, including its subgraphs, once for each read."""
    yield from (name for name in node.input if name)
    for graph in graphs_of(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (value.name for value in graph.output)
