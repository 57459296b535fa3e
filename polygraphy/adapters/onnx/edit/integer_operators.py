"""Rewrites operators that read and compute integers, as QLinearConv, as the operator in floating
point between DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import sort
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.quantization.sites import DEQUANTIZED

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_MICROSOFT, _OPSET_OF_AXIS = "com.microsoft", 13


@frozen
class _Operator:
    """The positions of the operands of an integer operator.

    Attributes:
        op: the operator in floating point.
        inputs: the positions of quantized inputs, each followed by its scale and zero point.
        output: the position of the scale of the output, followed by its zero point.
        plain: the positions of inputs that are not quantized, before the others.
        bias: the position of a bias in units of the product of the first two scales.
        dropped: attributes that the operator in floating point lacks.
    """

    op: str
    inputs: tuple[int, ...]
    output: int
    plain: tuple[int, ...] = ()
    bias: int | None = None
    dropped: tuple[str, ...] = ()


def _unary_operator(op: str, *dropped: str) -> _Operator:
    """Return the description of an operator with one quantized operand."""
    return _Operator(op, (0,), 3, dropped=dropped)


_OPERATORS = {
    "QLinearConv": _Operator("Conv", (0, 3), 6, bias=8),
    "QLinearMatMul": _Operator("MatMul", (0, 3), 6),
    "QGemm": _Operator("Gemm", (0, 3), 7, bias=6),
    "QLinearAdd": _Operator("Add", (0, 3), 6),
    "QLinearMul": _Operator("Mul", (0, 3), 6),
    "QLinearSigmoid": _unary_operator("Sigmoid"),
    "QLinearLeakyRelu": _unary_operator("LeakyRelu"),
    "QLinearGlobalAveragePool": _unary_operator("GlobalAveragePool", "channels_last"),
    "QLinearAveragePool": _unary_operator("AveragePool", "channels_last"),
    "QLinearSoftmax": _unary_operator("Softmax", "opset"),
    "QLinearReduceMean": _unary_operator("ReduceMean"),
    "QLinearWhere": _Operator("Where", (1, 4), 7, plain=(0,)),
}
"""Integer operators by name; QLinearConcat takes any number of inputs, and is added by hand."""


def replace_by_pairs(model: ModelProto) -> bool:
    """Replace the integer operators of a model with Q/DQ pairs; return whether there were any."""
    if not any(node.op_type in _OPERATORS or node.op_type == "QLinearConcat"
               for node in model.graph.node):  # fmt: skip
        return False
    _Rewriter(model.graph).rewrite()
    opset = {entry.domain: entry.version for entry in model.opset_import}
    if opset.get("", 1) < _OPSET_OF_AXIS:
        _set_domain_of_channels(model, has_domain=_MICROSOFT in opset)
    return True


def _set_domain_of_channels(model: ModelProto, *, has_domain: bool) -> None:
    """Use ONNX Runtime's DequantizeLinear for scales by channel, which older operator sets lack."""
    nodes = [node for node in model.graph.node if node.op_type == _DEQUANTIZE and node.attribute]
    for node in nodes:
        node.domain = _MICROSOFT
    if nodes and not has_domain:
        model.opset_import.append(onnx.helper.make_opsetid(_MICROSOFT, 1))


_WITH_BIAS = {"DynamicQuantizeMatMul": 4, "MatMulIntegerToFloat": 6}
"""Operators into which ONNX Runtime's optimizer puts the bias that an Add adds, and its
position."""


def split_biases(graph: GraphProto, makers: Mapping[str, NodeProto]) -> None:
    """Add the biases of fused integer products in nodes of their own, if the reference does.

    Args:
        graph: the quantized graph, which is changed.
        makers: the nodes of the reference, by what they compute.
    """
    names = {name for node in graph.node for name in node.output}
    added = []
    for node in graph.node:
        at = _WITH_BIAS.get(node.op_type, len(node.input))
        twin = makers.get(node.output[0]) if at < len(node.input) and node.input[at] else None
        if twin is None or twin.op_type != "Add":
            continue
        products = [
            name for name in twin.input if name in makers and makers[name].op_type == "MatMul"
        ]
        if len(products) != 1 or products[0] in names:
            continue
        reads = [products[0], node.input[at]]
        added.append(onnx.helper.make_node("Add", reads, node.output, twin.name))
        node.input[at], node.output[0] = "", products[0]
    graph.node.extend(added)
    if added:
        sort(graph)


class _Rewriter:
    """Rewrites a graph, given the scale and zero point of each integer tensor.

    Args:
        graph: the graph to change.
    """

    def __init__(self, graph: GraphProto) -> None:
        """Index a graph."""
        self._graph = graph
        self._parameters: dict[str, tuple[str, str]] = {}
        self._taken = {name for node in graph.node for name in node.output}
        self._weights = {weight.name: weight for weight in graph.initializer}
        for name in self._weights:
            # ONNX Runtime names a quantized weight so, for example one that a Gather reads.
            stem = name.removesuffix("_quantized")
            scale, zero = f"{stem}_scale", f"{stem}_zero_point"
            if stem != name and scale in self._weights and zero in self._weights:
                self._parameters[name] = scale, zero

    def rewrite(self) -> None:
        """Rewrite all nodes, in order."""
        nodes = [node for old in list(self._graph.node) for node in self._rewrite_node(old)]
        del self._graph.node[:]
        self._graph.node.extend(nodes)

    def _rewrite_node(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield the nodes that replace one."""
        operator = _OPERATORS.get(node.op_type)
        if node.op_type == "QLinearConcat":
            operator = _Operator("Concat", tuple(range(2, len(node.input), 3)), 0)
        if node.op_type == _QUANTIZE:
            self._parameters[node.output[0]] = node.input[1], (*node.input, "", "")[2]
            yield node
        elif operator is not None:
            yield from self._rewrite_operator(node, operator)
        elif node.op_type != _DEQUANTIZE and node.input and node.input[0] in self._parameters:
            yield from self._rewrite_moving_node(node)
        else:
            yield node

    def _rewrite_operator(self, node: NodeProto, operator: _Operator) -> Iterator[NodeProto]:
        """Yield the Q/DQ pairs and the floating-point operator that replace an integer operator."""
        inputs = [*node.input, *("",) * 10]
        reads = [inputs[at] for at in operator.plain]
        for at in operator.inputs:
            text = f"{node.output[0]}//{at}"
            axis = self._axis(operator.op, at, node)
            yield _make_node(_DEQUANTIZE, inputs[at : at + 3], text, axis)
            reads.append(text)
        if operator.bias is not None and inputs[operator.bias]:
            yield self._rewrite_bias(node, inputs, operator, reads)
        result = self._float_name(node.output[0])
        rewritten = onnx.NodeProto()
        rewritten.op_type, rewritten.name = operator.op, _original_name(node.name)
        rewritten.input[:], rewritten.output[:] = reads, [result]
        rewritten.attribute.extend(
            attribute for attribute in node.attribute if attribute.name not in operator.dropped
        )
        yield rewritten
        scale, zero = inputs[operator.output : operator.output + 2]
        if not zero and not scale:
            return
        self._parameters[node.output[0]] = scale, zero
        yield _make_node(_QUANTIZE, [result, scale, zero], node.output[0])

    def _rewrite_moving_node(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield a node that moves dequantized numbers, in place of one that moves integers."""
        scale, zero = self._parameters[node.input[0]]
        for at in (0, 2) if node.op_type == "Pad" else (0,):
            # The padding value of Pad is also quantized.
            if at < len(node.input) and node.input[at]:
                text = f"{node.output[0]}//{at}"
                yield _make_node(_DEQUANTIZE, [node.input[at], scale, zero], text)
                node.input[at] = text
        codes = [*node.output]
        node.output[:] = [self._float_name(name) if name else "" for name in codes]
        yield node
        for name, result in zip(codes, node.output):
            if name:
                self._parameters[name] = scale, zero
                yield _make_node(_QUANTIZE, [result, scale, zero], name)

    def _rewrite_bias(
        self, node: NodeProto, integer_inputs: list[str], operator: _Operator, reads: list[str]
    ) -> NodeProto:
        """Return the DequantizeLinear of a bias, whose scale is the product of both scales."""
        assert operator.bias is not None
        name = f"{node.output[0]}//bias"
        scales = [self._array(integer_inputs[at + 1]) for at in operator.inputs]
        scale = (scales[0].reshape(-1) * scales[1].reshape(-1)).astype(numpy.float32)
        scale = scale.reshape(()) if scale.size == 1 else scale
        self._graph.initializer.append(onnx.numpy_helper.from_array(scale, f"{name}_scale"))
        reads.append(name)
        axis = 0 if scale.size > 1 else None
        return _make_node(_DEQUANTIZE, [integer_inputs[operator.bias], f"{name}_scale"], name, axis)

    def _axis(self, op: str, at: int, node: NodeProto) -> int | None:
        """Return the channel axis of an operand at a position, or None.
        The result is None if it is not a weight, or has one scale."""
        scale = node.input[at + 1]
        if at != 3 or (scale in self._weights and self._array(scale).size == 1):
            return None
        if op == "Gemm":
            return int(
                not any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            )
        weight = self._weights.get(node.input[at])
        return {"Conv": 0, "MatMul": max(len(weight.dims) - 1, 0) if weight else 1}.get(op)

    def _array(self, name: str) -> Any:
        """Return the elements of a weight."""
        return elements(self._weights[name])

    def _float_name(self, name: str) -> str:
        """Return an unused name for the dequantized form of a tensor."""
        plain = name.removesuffix("_quantized")
        chosen = plain if plain != name and plain not in self._taken else f"{name}{DEQUANTIZED}"
        self._taken.add(chosen)
        return chosen


def _original_name(name: str) -> str:
    """Return the name that a tensor had before quantization."""
    return name.removesuffix("_quant")


def _make_node(op: str, reads: list[str], makes: str, axis: int | None = None) -> NodeProto:
    """Return a QuantizeLinear or DequantizeLinear node."""
    node: NodeProto = onnx.NodeProto()
    node.op_type, node.name, node.output[:] = op, f"{makes}/{op}", [makes]
    node.input[:] = reads if reads[-1] else reads[:-1]
    if axis is not None:
        node.attribute.append(onnx.helper.make_attribute("axis", axis))
    return node
