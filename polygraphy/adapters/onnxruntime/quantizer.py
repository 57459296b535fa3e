"""Quantises ONNX models with ONNX Runtime: value ranges from data, then Q/DQ nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.loader import evaluate
from polygraphy.adapters.onnxruntime.calibration import METHODS, Ranges, measure
from polygraphy.adapters.onnxruntime.calibration_cache import load_ranges, save_ranges
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.domain.datatype import DataType, DataTypeEntry
from polygraphy.domain.errors import (
    FileError,
    InputError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.precision import CalibrationCache

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OnnxrtQuantizer"]

onnx = mod.lazy_import("onnx")
quantization = mod.lazy_import("onnxruntime.quantization")
qdq = mod.lazy_import("onnxruntime.quantization.qdq_quantizer")
calibrate = mod.lazy_import("onnxruntime.quantization.calibrate")

# What TensorRT computes in 8 bits at a profit; their inputs get Q/DQ nodes.
_QUANTIZED_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_PER_CHANNEL_OPSET = 13
_OPTIONS = {
    # TensorRT's scheme: zero points are zero, biases and outputs stay floating-point numbers.
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": list(_QUANTIZED_OPS),
}


class OnnxrtQuantizer:
    """Implements the port `Quantizer`: static, symmetric, per channel, to int8."""

    def quantize(
        self,
        model: Any,
        calibration: Iterable[Mapping[str, Any]] | None,
        dtype: DataTypeEntry,
        *,
        method: str = "entropy",
        cache: CalibrationCache = None,
    ) -> Any:
        """Quantise the inputs and weights of convolutions and matrix products."""
        if dtype != DataType.INT8:
            raise UsageError(f"A model cannot be quantised to {dtype}.", hint="There is: int8.")
        if method not in METHODS:
            raise UnknownNameError("Calibration method", method, METHODS)
        prepared = _prepared(model)
        wanted = _activations(prepared)
        ranges = _ranges(prepared, wanted, calibration, method, cache)
        if not wanted:
            G_LOGGER.warning(
                f"Nothing is quantised: the model has no {', '.join(_QUANTIZED_OPS)} nodes."
            )
            return prepared
        return _with_qdq(prepared, ranges)


def _data(calibration: Any) -> Any:
    """Return feed dictionaries, which a function may make."""
    is_iterable = hasattr(calibration, "__iter__") or hasattr(calibration, "__getitem__")
    return calibration if is_iterable else evaluate(calibration)


def _prepared(model: ModelProto) -> ModelProto:
    """Return a copy in which every node has a name, of an operator set that has per-channel
    quantisation where the model can be brought to it.
    """
    copy: ModelProto = onnx.ModelProto()
    copy.CopyFrom(model)
    version = _opset(copy)
    if version < _PER_CHANNEL_OPSET:
        try:
            copy = onnx.version_converter.convert_version(copy, _PER_CHANNEL_OPSET)
        except Exception as error:  # of whichever class: it is C++ that gives up
            G_LOGGER.warning(
                f"Weights are quantised per tensor: the model (opset {version}) cannot be brought"
                f" to opset {_PER_CHANNEL_OPSET}: {' '.join(str(error).split())}"
            )
    for index, node in enumerate(copy.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    return copy


def _opset(model: ModelProto) -> int:
    versions = (one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    return max(versions, default=1)


def _activations(model: ModelProto) -> list[str]:
    """Return the tensors whose ranges are needed, in order: what is quantised and is no weight."""
    weights = {tensor.name for tensor in model.graph.initializer}
    weights |= {
        name for node in model.graph.node if node.op_type == "Constant" for name in node.output
    }
    names = (
        name
        for node in model.graph.node
        if node.op_type in _QUANTIZED_OPS
        for name in node.input[:2]
        if name not in weights
    )
    return list(dict.fromkeys(names))


def _ranges(
    model: ModelProto,
    wanted: Collection[str],
    data: Any,
    method: str,
    cache: CalibrationCache,
) -> Ranges:
    """Return the range of each tensor: from the cache if it has all of them, else measured, which
    fills the cache.
    """
    known = load_ranges(cache)
    if known is not None:
        missing = [name for name in wanted if name not in known]
        if not missing:
            return known
        said = f"The calibration cache lacks ranges of {', '.join(map(repr, missing))}"
        if data is None:
            raise FileError(f"{said}.", hint="Calibrate anew, with data.")
        G_LOGGER.warning(f"{said}: calibrating anew.")
    if data is None:
        raise InputError("There are no calibration data, and no cache that replaces them.")
    ranges = measure(model, list(wanted), _data(data), method)
    save_ranges(cache, ranges, method)
    return ranges


def _with_qdq(model: ModelProto, ranges: Ranges) -> ModelProto:
    data = {name: (_float32(low), _float32(high)) for name, (low, high) in ranges.items()}
    with translated_errors("quantise"):
        try:
            made = qdq.QDQQuantizer(
                model=model,
                per_channel=_opset(model) >= _PER_CHANNEL_OPSET,
                reduce_range=False,
                weight_qType=quantization.QuantType.QInt8,
                activation_qType=quantization.QuantType.QInt8,
                tensors_range=calibrate.TensorsData(quantization.CalibrationMethod.MinMax, data),
                nodes_to_quantize=[],
                nodes_to_exclude=[],
                op_types_to_quantize=list(_QUANTIZED_OPS),
                extra_options=dict(_OPTIONS),
            )
            made.quantize_model()
            made.model.topological_sort()  # New nodes were appended.
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"The model cannot be quantised: {error}") from error
    quantized: ModelProto = made.model.model
    return quantized


def _float32(value: float) -> Any:
    import numpy as np

    return np.array(value, dtype=np.float32)
