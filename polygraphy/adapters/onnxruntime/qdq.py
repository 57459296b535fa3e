"""Puts quantise and dequantise nodes into ONNX models, with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from polygraphy import mod
from polygraphy.adapters.onnx_common.inference import infer_shapes
from polygraphy.adapters.onnxruntime.calibration import Ranges
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


onnx = mod.lazy_import("onnx")
onnxruntime = mod.lazy_import("onnxruntime")
ml_dtypes = mod.lazy_import("ml_dtypes")
quantization = mod.lazy_import("onnxruntime.quantization")
qdq = mod.lazy_import("onnxruntime.quantization.qdq_quantizer")
calibrate = mod.lazy_import("onnxruntime.quantization.calibrate")

QUANTIZED_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What TensorRT computes in 8 bits at a profit; their inputs get Q/DQ nodes."""

_OPTIONS = {
    # TensorRT's scheme: zero points are zero, biases and outputs stay floating-point numbers.
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": list(QUANTIZED_OPS),
}
_LARGEST_FLOAT8 = 448.0  # of the type E4M3FN


@frozen
class Scheme:
    """How a model is quantised to a type.

    Attributes:
        member: the name of the type in ``onnxruntime.quantization.QuantType``.
        opset: the operator set that has what it takes.
        ir_version: the version of the format that has the type.
        is_opset_required: whether there is no such type in earlier operator sets; else weights are
            quantised per tensor there.
        is_per_channel: whether weights have a scale per channel.
    """

    member: str
    opset: int
    ir_version: int
    is_opset_required: bool
    is_per_channel: bool


SCHEMES: Mapping[DataTypeEntry, Scheme] = {
    DataType.INT8: Scheme("QInt8", 13, 3, is_opset_required=False, is_per_channel=True),
    DataType.FLOAT8E4M3FN: Scheme(
        "QFLOAT8E4M3FN", 19, 9, is_opset_required=True, is_per_channel=False
    ),
}
"""What models are quantised to."""

_HALF_OPSET, _HALF_IR = 19, 9  # Before, quantisation takes float32 only.


def scheme_for(model: ModelProto, dtype: DataTypeEntry) -> Scheme:
    """Return how a model is quantised to one of `SCHEMES`: one of float16 needs later operators."""
    scheme = SCHEMES[dtype]
    half = onnx.TensorProto.FLOAT16
    if not any(tensor.data_type == half for tensor in model.graph.initializer):
        return scheme
    return evolve(scheme, opset=_HALF_OPSET, ir_version=_HALF_IR, is_opset_required=True)


def opset_of(model: ModelProto) -> int:
    """Return the version of the standard operators in a model."""
    versions = (one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    return max(versions, default=1)


def is_quantized(node: NodeProto, kept: Collection[str]) -> bool:
    """Return whether a node computes with quantised inputs; `kept` are the names of those that do
    not, although they might.
    """
    return node.op_type in QUANTIZED_OPS and node.name not in kept


def with_qdq(
    model: ModelProto, ranges: Ranges, dtype: DataTypeEntry, kept: Collection[str]
) -> ModelProto:
    """Quantise what a model computes with.

    Args:
        model: each node has a name, and each weight is an initialiser; may be changed.
        ranges: the smallest and the largest value of each activation.
        dtype: one of `SCHEMES`.
        kept: names of nodes that keep their type.

    Raises:
        BackendError: this ONNX Runtime cannot quantise to that type.
        ModelError: the model cannot be quantised.
    """
    scheme = SCHEMES[dtype]
    quantized_type = getattr(quantization.QuantType, scheme.member, None)
    if quantized_type is None:
        raise BackendError(
            f"ONNX Runtime {onnxruntime.__version__} does not quantise to {dtype}.",
            backend="onnxruntime",
            hint="Install ONNX Runtime 1.17 or later.",
        )
    options: dict[str, Any] = dict(_OPTIONS)
    if dtype == DataType.FLOAT8E4M3FN:
        options["TensorQuantOverrides"] = _float8_scales(model, ranges, kept, quantized_type)
    types = _float_types(model)
    data = {
        name: tuple(np.array(end, dtype=types.get(name, np.float32)) for end in ends)
        for name, ends in ranges.items()
    }
    with translated_errors("quantise"):
        try:
            made = qdq.QDQQuantizer(
                model=model,
                per_channel=scheme.is_per_channel and opset_of(model) >= scheme.opset,
                reduce_range=False,
                weight_qType=quantized_type,
                activation_qType=quantized_type,
                tensors_range=calibrate.TensorsData(quantization.CalibrationMethod.MinMax, data),
                nodes_to_quantize=[],
                nodes_to_exclude=sorted(kept),
                op_types_to_quantize=list(QUANTIZED_OPS),
                extra_options=options,
            )
            made.quantize_model()
            made.model.topological_sort()  # New nodes were appended.
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"The model cannot be quantised: {error}") from error
    quantized: ModelProto = made.model.model
    return quantized


def _float8_scales(
    model: ModelProto, ranges: Ranges, kept: Collection[str], quantized_type: Any
) -> dict[str, list[dict[str, Any]]]:
    """Return the scale of each tensor, by which its largest magnitude becomes the largest float8:
    ONNX Runtime's own choice, from the standard deviation, cuts off what is rare.
    """
    types = _float_types(model)
    largest = {name: max(abs(low), abs(high)) for name, (low, high) in ranges.items()}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        for name in node.input[:2]:
            if is_quantized(node, kept) and name in weights and name not in largest:
                largest[name] = _largest(onnx.numpy_helper.to_array(weights[name]))
    return {
        name: [
            {
                "quant_type": quantized_type,
                "scale": np.array(
                    (amount or _LARGEST_FLOAT8) / _LARGEST_FLOAT8,
                    dtype=types.get(name, np.float32),
                ),
                "zero_point": np.zeros((), dtype=ml_dtypes.float8_e4m3fn),
            }
        ]
        for name, amount in largest.items()
    }


def _largest(values: np.ndarray[Any, Any]) -> float:
    """Return the largest finite magnitude; 0 if there is none."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _float_types(model: ModelProto) -> dict[str, Any]:
    """Return the NumPy types of the tensors that are float16, by name: scales are of that type."""
    half = onnx.TensorProto.FLOAT16
    if not any(tensor.data_type == half for tensor in model.graph.initializer):
        return {}
    graph = infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: np.float16 for value in values if value.type.tensor_type.elem_type == half}
