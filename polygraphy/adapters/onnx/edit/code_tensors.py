"""The tensors of codes in a quantized model, as outputs or as inputs of the nodes that read
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.integer_operators import replace_by_pairs
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of
from polygraphy.domain.quantization.code_tensors import CodeTensor
from polygraphy.domain.quantization.sites import FloatNode

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_ZERO_POINT: Mapping[str, int] = {
    "QuantizeLinear": 2,
    "DynamicQuantizeLinear": 99,
    "QLinearConv": 7,
    "QLinearMatMul": 7,
    "QLinearAdd": 7,
    "QLinearMul": 7,
    "QGemm": 8,
    "QLinearWhere": 8,
    "QLinearConcat": 1,
    "QLinearSigmoid": 4,
    "QLinearLeakyRelu": 4,
    "QLinearSoftmax": 4,
    "QLinearAveragePool": 4,
    "QLinearGlobalAveragePool": 4,
}
"""Operators that compute codes, with the position of the zero point, whose type codes have."""
_GIVEN = "//given"
_QUANTIZE = "QuantizeLinear"
_ENDS = {*_ZERO_POINT, "DequantizeLinear"}
"""Operators that compute quantized tensors, or read them."""


class CodeTensors:
    """The tensors of quantized integers (codes) in a model; implements the port `CodeTensors`.

    Attributes:
        tensors: the tensors of codes, in the order of their nodes.
    """

    def __init__(self, model: ModelProto) -> None:
        """Find the tensors of codes in a model."""
        self._model = model
        self._types: dict[str, int] = {}
        self.tensors: list[CodeTensor] = []
        weights = {initializer.name: initializer for initializer in model.graph.initializer}
        makers = {name: node for node in model.graph.node for name in node.output}
        for node in model.graph.node:
            at = _ZERO_POINT.get(node.op_type)
            if at is None or (node.input and node.input[0] in weights):
                continue
            zero = weights.get(node.input[at]) if at < len(node.input) else None
            if at < len(node.input) and node.input[at] and zero is None:
                continue
            kind = onnx.TensorProto.UINT8 if zero is None else zero.data_type
            dtype = numpy.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            if not numpy.issubdtype(dtype, numpy.integer):
                continue
            self._types[node.output[0]] = kind
            self.tensors.append(_code_tensor(node, makers, dtype))

    def with_codes(self) -> ModelProto:
        """Return the model with all tensors of integer codes as outputs."""
        copy: ModelProto = copy_of(self._model)
        names = {value.name for value in copy.graph.output}
        copy.graph.output.extend(
            onnx.helper.make_tensor_value_info(name, kind, None)
            for name, kind in self._types.items()
            if name not in names
        )
        return copy

    def split(
        self, codes: Mapping[str, Any], marked: Sequence[str] = ()
    ) -> tuple[ModelProto, dict[str, Any]]:
        """Return the model in which nodes read given codes, and the inputs for them."""
        copy = self.with_codes()
        for node in copy.graph.node:
            node.input[:] = [f"{name}{_GIVEN}" if name in codes else name for name in node.input]
        copy.graph.input.extend(
            onnx.helper.make_tensor_value_info(f"{name}{_GIVEN}", self._types[name], array.shape)
            for name, array in codes.items()
        )
        output_names = {value.name for value in copy.graph.output}
        copy.graph.output.extend(
            onnx.ValueInfoProto(name=name) for name in {*marked} - output_names
        )
        return copy, {f"{name}{_GIVEN}": array for name, array in codes.items()}

    def split_into_pairs(self, codes: Mapping[str, Any], marked: Sequence[str] = ()) -> ModelProto:
        """Return the same model with Q/DQ pairs instead of operators on codes."""
        copy, _ = self.split(codes, marked)
        replace_by_pairs(copy)
        return copy

    def float_nodes(self, name: str) -> Sequence[FloatNode]:
        """Return the float nodes between quantized tensors and the QuantizeLinear behind them,
        in order; none if another operator computes what it quantizes."""
        makers = {output: node for node in self._model.graph.node for output in node.output}
        maker = makers.get(name)
        pending = [*maker.input][:1] if maker is not None and maker.op_type == _QUANTIZE else []
        names: set[str] = set()
        while pending:
            current = pending.pop()
            node = makers.get(current)
            if node is None or node.op_type in _ENDS or current in names:
                continue
            names.update(node.output)
            pending += node.input
        return [
            FloatNode(identity_of(node), node.op_type, [*node.input], [*node.output])
            for node in self._model.graph.node
            if not names.isdisjoint(node.output) and node.op_type != "Constant"
        ]


def _code_tensor(node: NodeProto, makers: Mapping[str, NodeProto], dtype: Any) -> CodeTensor:
    """Return the codes that a node computes; for a QuantizeLinear, those of the node before it."""
    limits = numpy.iinfo(dtype)
    before = makers.get(node.input[0]) if node.op_type.endswith("QuantizeLinear") else node
    blamed = before if before is not None and before.op_type != "DequantizeLinear" else node
    ends = float(limits.min), float(limits.max)
    return CodeTensor(node.output[0], identity_of(blamed), blamed.op_type, *ends)


def find_code_tensors(model: ModelProto) -> CodeTensors:
    """Return the tensors of integer codes in a model; see the port."""
    return CodeTensors(model)
