"""Rewrites weights that are stored as integers, and read through Cast, Sub and Mul, as weights that
DequantizeLinear reads: some exporters and compilers take that operator apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import add_weight, constant_tensor
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_LEAST_OPSET = {"int8": 13, "uint8": 13, "int4": 21, "uint4": 21, "int16": 21, "uint16": 21}
"""First opset in which DequantizeLinear reads a type along an axis, by type."""


def replace_products(model: ModelProto) -> bool:
    """Return whether Cast, Sub and Mul of stored integers were replaced with DequantizeLinear."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = max(versions, default=1)
    graph = model.graph
    weights = _constants(graph)
    makers = {name: node for node in graph.node for name in node.output}
    replaced_any = False
    for node in graph.node:
        if node.op_type != "Mul":
            continue
        parts = _parts(node, makers, weights)
        if parts is None or opset < _LEAST_OPSET.get(parts[0].dtype.name, opset + 1):
            continue
        codes, zero, scale = parts
        axis = _channel_axis(codes, scale)
        if axis is None:
            continue
        shape = scale.reshape(-1) if scale.size > 1 else scale.reshape(())
        zeros = numpy.broadcast_to(zero.reshape(-1), shape.shape or (1,)).reshape(shape.shape)
        names = [f"{node.output[0]}//{what}" for what in ("codes", "scale", "zero_point")]
        for name, array in zip(names, (codes, shape, zeros.astype(codes.dtype))):
            add_weight(model, onnx.numpy_helper.from_array(array), name)
        output = node.output[0]
        node.Clear()
        node.op_type, node.name = "DequantizeLinear", f"{output}/DequantizeLinear"
        node.input[:], node.output[:] = names, [output]
        if scale.size > 1:
            node.attribute.append(onnx.helper.make_attribute("axis", axis))
        replaced_any = True
    return replaced_any


def _constants(graph: GraphProto) -> dict[str, Any]:
    """Return initializers and Constant nodes by name."""
    weights = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and (tensor := constant_tensor(node)) is not None:
            weights[node.output[0]] = tensor
    return weights


def _parts(
    node: NodeProto, makers: Mapping[str, NodeProto], constants: Mapping[str, Any]
) -> tuple[Array, Array, Array] | None:
    """Return codes, zero point and scale whose product a node computes, or None.
    The result is None if it computes something else.
    """
    for first, second in (node.input, node.input[::-1]):
        before, scale = makers.get(first), _array(second, makers, constants)
        if before is None or scale is None or not is_float(scale):
            continue
        zero: Array | None = numpy.zeros((), scale.dtype)
        if before.op_type == "Sub":
            zero = _array(before.input[1], makers, constants)
            before = makers.get(before.input[0])
        if before is None or before.op_type != "Cast" or zero is None:
            continue
        tensor = constants.get(before.input[0])
        codes = None if tensor is None else elements(tensor)
        if codes is None or codes.dtype.name not in _LEAST_OPSET or codes.size < 2:
            continue
        stored = numpy.rint(zero).astype(codes.dtype).astype(zero.dtype)
        if zero.size in (1, scale.size) and numpy.array_equal(zero, stored):
            return codes, zero, scale
    return None


def _array(
    name: str, makers: Mapping[str, NodeProto], constants: Mapping[str, Any]
) -> Array | None:
    """Return a constant, or a constant behind a Cast, in floating point; None if it is computed."""
    maker = makers.get(name)
    if maker is not None and maker.op_type == "Cast":
        name = maker.input[0]
    tensor = constants.get(name)
    if tensor is None:
        return None
    array: Array = elements(tensor)
    return array if is_float(array) else array.astype(numpy.float32)


def _channel_axis(codes: Array, scale: Array) -> int | None:
    """Return the axis along which a scale varies, 0 for a single one, or None.
    The result is None if it varies along several."""
    if scale.size == 1:
        return 0
    aligned = (1,) * (codes.ndim - scale.ndim) + scale.shape
    axes = [at for at, size in enumerate(aligned) if size > 1]
    if len(axes) != 1 or len(aligned) != codes.ndim or codes.shape[axes[0]] != scale.size:
        return None
    return axes[0]
