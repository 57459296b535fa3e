"""What the outputs of an ONNX model are, as far as that says how precise they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.diagnosis.regions import BOUNDED, MOVES

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


_CHOOSES = MOVES | {
    "AveragePool", "Clip", "Compress", "DepthToSpace", "Dropout", "Expand", "Gather",
    "GatherElements", "GatherND", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Neg",
    "ReduceMax", "ReduceMean", "ReduceMin", "Resize", "SpaceToDepth", "Split", "Tile", "TopK",
    "ZipMap",
}  # fmt: skip
"""Operators whose numbers are within the range of those of their first input."""
_JOINS = frozenset({"Concat", "Max", "Mean", "Min", "Mul"})
"""The same of all their inputs."""
_PROBABILITIES = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
_SORTS = frozenset({"NonMaxSuppression", "TopK"})


class OutputKinds:
    """Which outputs of a model are bounded, and which are in an order.

    Attributes:
        bounded: those whose elements lie between -1 and 1 by nature, such as probabilities.
        ordered: those that are made of what was sorted by a score.
    """

    def __init__(self, model: ModelProto) -> None:
        self._bounded: set[str] = set()
        self._ordered: set[str] = set()
        self._graph(model.graph)
        names = [value.name for value in model.graph.output]
        self.bounded = frozenset(name for name in names if name in self._bounded)
        self.ordered = frozenset(name for name in names if name in self._ordered)

    def _graph(self, graph: GraphProto) -> None:
        for node in graph.node:
            for body in graphs_of(node):
                self._graph(body)
            if self._is_bounded(node):
                self._bounded.update(filter(None, node.output))
            if node.op_type in _SORTS or not self._ordered.isdisjoint(node.input):
                self._ordered.update(filter(None, node.output))

    def _is_bounded(self, node: NodeProto) -> bool:
        if node.op_type == "If":
            made = [value.name for body in graphs_of(node) for value in body.output]
            return self._bounded.issuperset(made)
        if node.op_type in _JOINS:
            return self._bounded.issuperset(filter(None, node.input))
        handed_on = node.op_type in _CHOOSES and node.input[0] in self._bounded
        return handed_on or node.op_type in BOUNDED or node.op_type in _PROBABILITIES
