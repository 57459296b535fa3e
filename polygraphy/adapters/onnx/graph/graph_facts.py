"""What edits look up about a graph: who makes and takes each tensor, and of which shape it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.value_infos import described
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx_common.messages import used_by

if TYPE_CHECKING:
    from onnx import GraphProto


@frozen(eq=False)
class GraphFacts:
    """What is looked up about a graph.

    Attributes:
        weights: its weights by name, initialisers and those of Constant nodes.
        index: the node that makes each tensor, by number.
        consumers: the nodes that take each tensor, or graphs inside them, by number.
        infos: what is stated about tensors, by name.
        nodes: its nodes.
        outputs: names of its outputs.
    """

    weights: dict[str, Any]
    index: dict[str, int]
    consumers: dict[str, list[int]]
    infos: dict[str, Any]
    nodes: Any
    outputs: tuple[str, ...]

    @staticmethod
    def of(graph: GraphProto) -> GraphFacts:
        """Return the facts about a graph, which must not be changed as long as they are used."""
        consumers: dict[str, list[int]] = {}
        for index, node in enumerate(graph.node):
            for name in dict.fromkeys(used_by(node)):
                consumers.setdefault(name, []).append(index)
        return GraphFacts(
            weights=graph_weights(graph),
            index={name: i for i, node in enumerate(graph.node) for name in node.output if name},
            consumers=consumers,
            infos={v.name: v for v in (*graph.input, *graph.value_info, *graph.output)},
            nodes=graph.node,
            outputs=tuple(value.name for value in graph.output),
        )

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """Return the dimensions of a tensor: numbers, names or None; None if even their number is
        not known.
        """
        if name in self.weights:
            return tuple(self.weights[name].dims)
        shape = described(self.infos.get(name)).shape
        return None if shape is None else tuple(shape)

    def constant(self, name: str) -> list[int] | None:
        """Return the elements of a constant list of integers; None where it is none."""
        if name not in self.weights:
            return None
        return [int(one) for one in elements(self.weights[name]).reshape(-1)]
