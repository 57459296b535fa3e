"""Ranges and corrected biases of a quantized model, for the same model quantized again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def activation_scales(model: ModelProto) -> dict[str, tuple[Array, Array | None]]:
    """Return scale and zero point of each activation that a model quantizes, by tensor."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    scales = {}
    for node in model.graph.node:
        if node.op_type == _QUANTIZE and node.input[0] not in weights and node.input[1] in weights:
            zero = weights.get(node.input[2]) if len(node.input) > 2 else None
            scales[node.input[0]] = (
                onnx.numpy_helper.to_array(weights[node.input[1]]),
                None if zero is None else onnx.numpy_helper.to_array(zero),
            )
    return scales


def copy_ranges(target: ModelProto, model: ModelProto, reference: ModelProto) -> None:
    """Copy the activation ranges and corrected biases of one quantized model into another.

    Args:
        target: the model, which is changed.
        model: the other.
        reference: the model in floating point: what equals it is not corrected.
    """
    scales = activation_scales(model)
    weights = {weight.name: weight for weight in target.graph.initializer}
    readers: dict[str, list[NodeProto]] = {}
    for node in target.graph.node:
        if node.op_type == _DEQUANTIZE:
            readers.setdefault(node.input[0], []).append(node)
    for node in target.graph.node:
        if node.op_type != _QUANTIZE or node.input[0] not in scales or len(node.input) < 3:
            continue
        scale, zero = scales[node.input[0]]
        own_scale = weights.get(node.input[1])
        if own_scale is None or zero is None or tuple(own_scale.dims) != scale.shape:
            continue
        names = [f"{node.input[0]}//{what}" for what in ("scale", "zero_point")]
        target.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for array, name in zip((scale, zero), names)
        )
        for quantizing_node in (node, *readers.get(node.output[0], ())):
            quantizing_node.input[1:3] = names
    _copy_biases(target, model, reference)


def _copy_biases(target: ModelProto, model: ModelProto, reference: ModelProto) -> None:
    """Copy the biases of a model that differ from the reference into another model."""
    target_weights, model_weights, exact = (
        _constants(source) for source in (target, model, reference)
    )
    floats = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    for name, weight in target_weights.items():
        quantized_weight, exact_weight = model_weights.get(name), exact.get(name)
        if quantized_weight is None or exact_weight is None or weight.data_type not in floats:
            continue
        arrays = [
            onnx.numpy_helper.to_array(tensor)
            for tensor in (weight, quantized_weight, exact_weight)
        ]
        is_alike = all(array.shape == arrays[0].shape for array in arrays)
        is_corrected = is_alike and not numpy.array_equal(arrays[0], arrays[2])
        if is_corrected and arrays[0].dtype == arrays[1].dtype:
            weight.CopyFrom(onnx.numpy_helper.from_array(arrays[1], weight.name))


def _constants(model: ModelProto) -> dict[str, TensorProto]:
    """Return the initializers of a model and the tensors of its Constant nodes, by name."""
    constants = {weight.name: weight for weight in model.graph.initializer}
    for node in model.graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                constants[node.output[0]] = attribute.t
    return constants


def save_in_folder(model: ModelProto, folder: str, name: str) -> str:
    """Save a model in a folder, with weights in another file, and return its path."""
    path = str(Path(folder) / name)
    onnx.save(
        copy_of(model), path, save_as_external_data=True, location=f"{name}.data", size_threshold=0
    )
    return path
