"""In which data types the outputs of an ONNX model are computed.

Weights and inputs are the same for everybody who runs the model, however coarse they are. What
counts is what nodes make of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.storage.datatype import OnnxDataTypes
from polygraphy.adapters.onnx_common.messages import attribute_named, graphs_of
from polygraphy.domain.tensors.precision import coarsest, precision_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


_QUANTIZED = "int8"
_TYPES_BY_ATTRIBUTE = {
    "Cast": "to",
    "RandomNormal": "dtype",
    "RandomNormalLike": "dtype",
    "RandomUniform": "dtype",
    "RandomUniformLike": "dtype",
}
_TYPE_OF_INPUT = {"CastLike": 1, "DequantizeLinear": 1}


def compute_dtypes(model: ModelProto) -> dict[str, str]:
    """Return for each output the coarsest data type of what nodes compute on the way to it; outputs
    of which none is known are left out.
    """
    walk = _Walk({function.name: function.node for function in model.functions})
    walk.graph(model.graph)
    return {
        output.name: walk.coarsest[output.name]
        for output in model.graph.output
        if output.name in walk.coarsest
    }


class _Walk:
    """Goes through nodes in order; they are sorted in the file."""

    def __init__(self, functions: Mapping[str, object]) -> None:
        self.types: dict[str, str] = {}  # Of each tensor its own data type,
        self.coarsest: dict[str, str] = {}  # and the coarsest of those that led to it.
        self._functions = functions

    def graph(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._remember(tensor.name, tensor.data_type)
        for value in (*graph.input, *graph.value_info, *graph.output):
            self._remember(value.name, value.type.tensor_type.elem_type)
        for node in graph.node:
            self._node(node)

    def _remember(self, name: str, elem_type: int) -> None:
        if elem_type:
            self.types[name] = _name_of(elem_type)

    def _node(self, node: NodeProto) -> None:
        passed = [self.coarsest[name] for name in node.input if name in self.coarsest]
        for body in graphs_of(node):
            self.graph(body)
            passed += [self.coarsest[out.name] for out in body.output if out.name in self.coarsest]
        made = self._made_by(node)
        for name in node.output:
            own = self.types.setdefault(name, made) if made else self.types.get(name, "")
            if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
                own = made or own
            found = coarsest([*passed, own] if _is_rounded(own, node) else passed)
            if found is not None:
                self.coarsest[name] = found.name

    def _made_by(self, node: NodeProto) -> str:
        """Return the data type that a node makes, as far as it follows from the node alone."""
        if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
            zero_point = self.types.get(node.input[2], "") if len(node.input) > 2 else ""
            return zero_point or _QUANTIZED
        attribute = attribute_named(node, _TYPES_BY_ATTRIBUTE.get(node.op_type, ""))
        if attribute is not None:
            return _name_of(attribute.i)
        if node.op_type in ("Constant", "ConstantOfShape"):
            value = attribute_named(node, "value")
            return _name_of(value.t.data_type) if value is not None else ""
        if node.op_type in _TYPE_OF_INPUT:
            index = _TYPE_OF_INPUT[node.op_type]
            return self.types.get(node.input[index], "") if len(node.input) > index else ""
        known = (self.types.get(name, "") for name in node.input)
        return next((name for name in known if name.startswith(("float", "bfloat"))), "")


def _is_rounded(dtype: str, node: NodeProto) -> bool:
    """Return whether a node rounds what it computes to a data type; integers only count where they
    stand for quantised numbers.
    """
    if node.op_type in ("Constant", "ConstantOfShape"):
        return False
    if dtype.startswith(("float", "bfloat")):
        return precision_of(dtype) is not None
    return node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear")


def _name_of(elem_type: int) -> str:
    found = OnnxDataTypes().from_native(elem_type)
    return "" if found is None else found.name
