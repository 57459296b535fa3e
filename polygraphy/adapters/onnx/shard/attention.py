"""Finds the attention layers of ONNX models: ``softmax(scale * Q K + mask) V``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import field, frozen

from polygraphy.adapters.onnx.graph.open_model import OpenGraph

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


_BETWEEN = frozenset({"Add", "Cast", "Div", "Identity", "Mul", "Where"})
"""What may be between the first product and Softmax: scaling and masking."""
_AFTER = frozenset({"Cast", "Dropout", "Identity", "Where"})
"""What may be between Softmax and the second product."""


@frozen(eq=False)
class Attention:
    """One attention layer.

    Attributes:
        nodes: its nodes in order: the first is the product of Q and K, the last that with V; or a
            single node of the standard's Attention.
        scores: the tensors from the first product to Softmax, for each of `between`.
        between: the nodes between the first product and Softmax.
    """

    nodes: tuple[NodeProto, ...]
    scores: tuple[str, ...] = ()
    between: tuple[NodeProto, ...] = field(default=())

    @property
    def is_single(self) -> bool:
        """Whether it is one node of the standard's Attention, whose K is not transposed."""
        return len(self.nodes) == 1

    @property
    def q(self) -> str:
        """The tensor Q."""
        return str(self.nodes[0].input[0])

    @property
    def k(self) -> str:
        """The tensor K, as it is multiplied."""
        return str(self.nodes[0].input[1])

    @property
    def v(self) -> str:
        """The tensor V."""
        return str(self.nodes[0].input[2] if self.is_single else self.nodes[-1].input[1])

    @property
    def output(self) -> str:
        """What it makes."""
        return str(self.nodes[-1].output[0])


def attentions(graph: GraphProto, *, scale_is_computed: bool = False) -> Iterator[Attention]:
    """Yield the attention layers of a graph, in its order; those in inner graphs are not found.

    Args:
        graph: the graph.
        scale_is_computed: whether what scales and masks may be computed by nodes; otherwise it has
            to be a weight, a constant or an input.
    """
    opened = OpenGraph(graph)
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "Attention" and len(node.input) >= 3:
            yield Attention((node,))
        elif node.op_type == "Softmax":
            before = _before(node, opened, scale_is_computed=scale_is_computed)
            after = _after(node, opened)
            if before and after:
                scores = tuple(str(one.output[0]) for one in before)
                yield Attention((*before, node, *after), scores, tuple(before[1:]))


def _before(softmax: NodeProto, graph: OpenGraph, *, scale_is_computed: bool) -> list[NodeProto]:
    """Return the first product and what is between it and Softmax; nothing where there is none."""
    chain: list[NodeProto] = []
    name = softmax.input[0]
    while (node := graph.maker(name)) is not None:
        chain.insert(0, node)
        if node.op_type == "MatMul":
            return chain
        if node.op_type not in _BETWEEN:
            return []
        computed = [n for n in node.input if n in graph.makers and n not in graph.constant_nodes]
        kinds = {each: graph.protos[graph.makers[each]].op_type for each in computed}
        ways = [each for each in computed if kinds[each] in (*_BETWEEN, "MatMul")]
        others = [each for each in computed if each not in ways]
        if len(ways) != 1 or (others and not scale_is_computed):
            return []
        name = ways[0]
    return []


def _after(softmax: NodeProto, graph: OpenGraph) -> list[NodeProto]:
    """Return what is between Softmax and the second product, and that; nothing where there is
    none.
    """
    chain: list[NodeProto] = []
    name = softmax.output[0]
    while True:
        following = graph.readers.get(name, [])
        if len(following) != 1:
            return []
        node = graph.protos[following[0]]
        chain.append(node)
        if node.op_type == "MatMul":
            return chain if node.input[0] == name else []
        if node.op_type not in _AFTER:
            return []
        name = node.output[0]
