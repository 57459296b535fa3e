"""Tells in brief what an ONNX model in memory consists of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.describe.reading import described
from polygraphy.adapters.onnx.storage.parsing import texts
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.domain.model import Detail
from polygraphy.domain.model.edits import Outline

if TYPE_CHECKING:
    from onnx import ModelProto


class OnnxModelOutlines:
    """Outlines ONNX models."""

    def outline(self, model: ModelProto) -> Outline:
        """Return the parts of a model, of the graphs inside it, too."""
        nodes: Counter[tuple[str, str]] = Counter()
        weights: Counter[str] = Counter()
        for graph in all_graphs(model.graph):
            ops = texts(node.op_type for node in graph.node)
            names = texts(node.name or next(iter(node.output), "") for node in graph.node)
            nodes.update(zip(ops, names))
            weights.update(texts(tensor.name for tensor in graph.initializer))
        return Outline(described(model, "", Detail()), nodes, weights)
