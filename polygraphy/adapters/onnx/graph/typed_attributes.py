"""Nodes that decide themselves of which type their result is: by an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import FLOAT, TYPE_ATTRIBUTES
from polygraphy.adapters.onnx_common.messages import attribute_named

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


onnx = mod.lazy_import("onnx")

CONSTANTS = frozenset({"Constant", "ConstantOfShape"})
"""Operators whose attribute is their value."""

_FIRST_TYPED_DEQUANTIZE = 23
"""Before this opset, DequantizeLinear makes what its scale is of."""


def state_type(
    node: NodeProto,
    elem_type: int,
    version: int,
    convert: Callable[[TensorProto, TensorProto, str, Sequence[str]], None],
) -> None:
    """Let a node that makes float32 make another type, if an attribute says what it makes.

    Args:
        node: the node, of the standard's domain.
        elem_type: the number of the type.
        version: the opset.
        convert: converts a tensor; see `cast_rules.CastSettings`.
    """
    if node.op_type in CONSTANTS:
        _convert_value(node, convert)
        return
    if node.op_type not in TYPE_ATTRIBUTES:
        return
    name, default = TYPE_ATTRIBUTES[node.op_type]
    stated = attribute_named(node, name)
    can_state = node.op_type != "DequantizeLinear" or version >= _FIRST_TYPED_DEQUANTIZE
    if stated is not None:
        stated.i = elem_type
    elif default is not None or can_state:
        node.attribute.append(onnx.helper.make_attribute(name, elem_type))


def _convert_value(
    node: NodeProto, convert: Callable[[TensorProto, TensorProto, str, Sequence[str]], None]
) -> None:
    value = onnx.TensorProto(data_type=FLOAT)
    for attribute in node.attribute:
        if attribute.name == "value":
            value.CopyFrom(attribute.t)
        elif attribute.name == "value_float":
            value.float_data.append(attribute.f)
        elif attribute.name == "value_floats":
            value.float_data.extend(attribute.floats)
            value.dims.append(len(attribute.floats))
    if not node.attribute:  # ConstantOfShape without a value makes zeros.
        value.float_data.append(0.0)
        value.dims.append(1)
    made = onnx.TensorProto(name=value.name)
    convert(value, made, node.output[0], ())
    del node.attribute[:]
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(made)
