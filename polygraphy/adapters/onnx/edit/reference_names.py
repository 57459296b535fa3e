"""The form of a reference that a quantizer read, and its names of a model's tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.edit.float_graph import FloatGraph

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_TWINS = {
    "MatMulNBits": (0, ("MatMul",)),
    "MatMulBnb4": (0, ("MatMul",)),
    "MatMulFpQ4": (0, ("MatMul",)),
    "GatherBlockQuantized": (1, ("Gather",)),
}
"""Operators that read a weight in few bits, by the position of the operand that is in floating
point (or the indices), with the operators that they replace.
"""
_INTEGER_PRODUCTS = {"ConvInteger": ("Conv",), "MatMulInteger": ("MatMul", "Gemm")}
"""Operators whose product of integers later nodes scale, with the operators that they replace."""
_ADDED = re.compile(r"(_QuantizeLinear_Input|_quantized|_Q\d+)$")
"""Suffixes that quantizers append to tensor names."""


def sort_forms(model: ModelProto, forms: Sequence[ModelProto]) -> list[ModelProto]:
    """Return the forms of a reference, sorted by the share of model tensors they contain:
    the model may have been optimized before it was quantized."""
    return sorted(forms, key=lambda form: common_share(model.graph, form.graph), reverse=True)


def common_share(graph: GraphProto, reference: GraphProto) -> float:
    """Return the share of the reference's computed tensors that a graph has by the same names."""
    names = {name for node in graph.node for name in (*node.input, *node.output)}
    names |= {_ADDED.sub("", name) for name in names}
    nodes = [node for node in reference.node if node.op_type != "Constant"]
    makes = [name for node in nodes for name in node.output if name]
    return sum(name in names for name in makes) / max(len(makes), 1)


def rename_nodes(graph: GraphProto, reference: FloatGraph) -> None:
    """Give nodes that a quantizer renamed the names of the reference's nodes that compute the same
    tensors with the same operator.
    """
    names = {node.name for node in graph.node}
    for node in graph.node:
        twin = reference.makers.get(node.output[0])
        if twin is None or twin.op_type != node.op_type or twin.name in names:
            continue
        if twin.name and node.name.startswith(twin.name):
            node.name = twin.name


def rename_operators(graph: GraphProto, reference: FloatGraph) -> None:
    """Rename the outputs of operators with low-bit weights to the reference's names,
    because Olive and others add suffixes."""
    outputs = {value.name for value in graph.output}
    names = {name for node in graph.node for name in node.output}
    new_names: dict[str, str] = {}
    for node in graph.node:
        node.input[:] = [new_names.get(name, name) for name in node.input]
        if node.op_type not in _TWINS or node.output[0] in reference.makers.keys() | outputs:
            continue
        twins = [
            twin for twin in _twins(node, reference) if twin.output[0] not in names
        ]  # fmt: skip
        named = [twin for twin in twins if twin.name and node.name.startswith(twin.name)]
        if len(twins) > 1:
            twins = sorted(named, key=lambda twin: -len(twin.name))[:1]
        if twins:
            new_names[node.output[0]] = node.output[0] = twins[0].output[0]
            names.add(node.output[0])


def name_scaled_products(graph: GraphProto, reference: FloatGraph) -> None:
    """Give the scaled product of integers the name of the reference's product. If someone other
    than ONNX Runtime wrote the nodes, the integers may have that name, or nothing has it."""
    makers = {name: node for node in graph.node for name in node.output}
    outputs = {value.name for value in graph.output}
    for node in [node for node in graph.node if node.op_type in _INTEGER_PRODUCTS]:
        source = makers.get(node.input[0])
        if source is None or source.op_type != "DynamicQuantizeLinear":
            continue
        twins = [
            twin
            for twin in reference.readers(source.input[0])
            if twin.op_type in _INTEGER_PRODUCTS[node.op_type]
        ]
        result = _scaled_product(graph, node, source, makers)
        if len(twins) != 1 or result is None or result in reference.makers.keys() | outputs:
            continue
        [wanted] = twins[0].output[:1]
        if wanted in makers and makers[wanted] is not node:
            continue
        new_names = {wanted: f"{wanted}//integers", result: wanted}
        for other in graph.node:
            other.input[:] = [new_names.get(name, name) for name in other.input]
            other.output[:] = [new_names.get(name, name) for name in other.output]


def _scaled_product(
    graph: GraphProto, node: NodeProto, source: NodeProto, makers: Mapping[str, NodeProto]
) -> str | None:
    """Return the product of an operator in floating point, multiplied by the scales of its data and
    of its weight; None if no nodes compute it."""
    weights = {weight.name for weight in graph.initializer}
    name, result, scale = node.output[0], None, source.output[1]
    while True:
        readers = [other for other in graph.node if name in other.input]
        if len(readers) != 1 or readers[0].op_type not in ("Cast", "Mul"):
            return result
        factor = next((each for each in readers[0].input if each != name), "")
        name = readers[0].output[0]
        if readers[0].op_type == "Cast":
            continue
        if result is None and factor == scale:
            result = name  # The scale of the weight follows, unless it is 1.
            continue
        is_product = factor in makers and scale in makers[factor].input
        is_last = factor in weights if result is not None else is_product
        return name if is_last else result


def _twins(node: NodeProto, reference: FloatGraph) -> Iterator[NodeProto]:
    """Yield the nodes of a reference that an operator may replace."""
    at, ops = _TWINS[node.op_type]
    for twin in reference.readers(node.input[at]):
        if twin.op_type in ops and twin.input[at] == node.input[at]:
            yield twin
