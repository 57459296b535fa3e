"""Which initialisers and Constants of an ONNX model are weights that may be pruned or left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.describe.reading import described
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.element_types import domain_of, signature_of, versions_of
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.model import Detail
from polygraphy.domain.model.sparsity import prunable_weights

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


_OPERANDS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "LSTM": (1, 2, 3),
    "MatMul": (0, 1),
    "RNN": (1, 2, 3),
    "Slice": (0,),
}
"""Which operands of an operator are weights."""
_LEAST_ELEMENTS = {"Gather": 1024, "Slice": 1024}
"""How many elements a weight has at least; smaller ones may be shapes."""
_PASSED_THROUGH = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear", "Transpose"})
_UINT8 = 2


def prunable_axes(model: ModelProto) -> dict[str, int]:
    """Return the weights that may be 2:4 sparse, and along which axis."""
    graph = described(model, "", Detail(layers=True, attrs=True)).graph
    return {found.weight.name: found.axis for found in prunable_weights(graph)}


def strippable(model: ModelProto) -> set[str]:
    """Return the names of the weights that an engine can be refitted with."""
    versions = versions_of(model.opset_import)
    return set(_in_graph(model.graph, versions, {}, {}))


def _in_graph(
    graph: GraphProto,
    versions: dict[str, int],
    outer_weights: Mapping[str, TensorProto],
    outer_makers: Mapping[str, NodeProto],
) -> Iterator[str]:
    """Yield the weights that the nodes of a graph use, and those of the graphs inside it: they see
    what is around them.
    """
    weights = {**outer_weights, **graph_weights(graph)}
    makers = {**outer_makers, **{name: node for node in graph.node for name in node.output}}
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _in_graph(inner, versions, weights, makers)
        for operand in _weight_operands(node, versions):
            name = _origin(operand, makers)
            tensor = weights.get(name)
            if tensor is None or tensor.data_type == _UINT8:
                continue
            if prod(tensor.dims) >= _LEAST_ELEMENTS.get(node.op_type, 1):
                yield name


def _origin(name: str, makers: Mapping[str, NodeProto]) -> str:
    """Follow an operand back to what is only reordered or cast on the way."""
    for _ in makers:  # There may be a circle.
        node = makers.get(name)
        if node is None or node.op_type not in _PASSED_THROUGH or not node.input:
            break
        name = node.input[0]
    return name


def _weight_operands(node: NodeProto, versions: dict[str, int]) -> list[str]:
    domain = domain_of(node.domain)
    if not domain and node.op_type in _OPERANDS:
        return [node.input[i] for i in _OPERANDS[node.op_type] if i < len(node.input)]
    if signature_of(node.op_type, domain, versions.get(domain, 1)) is None:
        return list(node.input)  # A plugin decides itself what its weights are.
    return []
