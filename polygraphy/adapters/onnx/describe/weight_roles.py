"""Which initialisers and Constants of an ONNX model are weights that may be pruned or left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.describe.reading import described
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.element_types import domain_of, signature_of
from polygraphy.adapters.onnx.graph.graph import producers
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.domain.model import Detail
from polygraphy.domain.model.sparsity import prunable_weights

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


_OPERANDS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gather": (0,),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
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
    versions = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    found: set[str] = set()
    for graph in all_graphs(model.graph):
        found.update(_in_graph(graph, versions))
    return found


def _in_graph(graph: GraphProto, versions: dict[str, int]) -> Iterator[str]:
    weights = graph_weights(graph)
    made_by = producers(graph)
    nodes = list(graph.node)
    for node in nodes:
        for operand in _weight_operands(node, versions):
            name = _origin(operand, nodes, made_by)
            tensor = weights.get(name)
            if tensor is None or tensor.data_type == _UINT8:
                continue
            if prod(tensor.dims) >= _LEAST_ELEMENTS.get(node.op_type, 1):
                yield name


def _origin(name: str, nodes: Sequence[NodeProto], made_by: Mapping[str, int]) -> str:
    """Follow an operand back to what is only reordered or cast on the way."""
    for _ in nodes:  # There may be a circle.
        node = nodes[made_by[name]] if name in made_by else None
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
