"""Quantizes a model again as ONNX Runtime's quantizers do, with the ranges that it has."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.quantization.sites import Site

if TYPE_CHECKING:
    from onnx import ModelProto

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_TYPES = {"uint8": "QUInt8", "int8": "QInt8", "uint16": "QUInt16", "int16": "QInt16"}
"""What ONNX Runtime calls types."""


def quantize_again(
    producer: str, reference: ModelProto, sites: Sequence[Site], without: Sequence[str]
) -> ModelProto | None:
    """Return a model that is quantized without some nodes; see the port."""
    quantize = _QUANTIZERS.get(_called_quantizer(sites) if producer in _CALLERS else producer)
    if quantize is None:
        return None
    try:
        with _mute_logging():
            model: ModelProto | None = quantize(copy_of(reference), sites, list(without))
            return model
    except Exception:
        # A quantizer of another release, or options that cannot be seen: nothing is tried then.
        return None


def _called_quantizer(sites: Sequence[Site]) -> str:
    """Return the name of the ONNX Runtime quantizer that produces such sites."""
    if any(site.packing is not None for site in sites):
        return "nbits"
    return "dynamic" if any(site.kind == "operator" for site in sites) else "static"


@contextlib.contextmanager
def _mute_logging() -> Iterator[None]:
    """Mute the logging of other packages in a block."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _tensor(name: str) -> str:
    """Return the tensor of the reference that a site has another name for, as outputs do."""
    if name.endswith("//float"):
        name = name.removesuffix("//float").removesuffix("_quantized")
    return name.removesuffix("_QuantizeLinear_Input")


def _quantize_static(
    reference: ModelProto, sites: Sequence[Site], without: Sequence[str]
) -> ModelProto | None:
    """Return the model quantized again with static ranges; None if the sites do not allow it."""
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from onnxruntime.quantization.calibrate import TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    activations = [site for site in sites if site.kind == "activation" and site.scheme is not None]
    weights = [site for site in sites if site.kind == "weight" and site.scheme is not None]
    if not activations:
        return None
    schemes = {_tensor(site.name): site.scheme for site in activations if site.scheme is not None}
    kinds = {scheme.dtype for scheme in schemes.values()}
    sizes: Counter[str] = Counter()
    for site in weights:
        if site.scheme is not None and site.codes is not None:
            sizes[site.scheme.dtype] += site.codes.size
    if len(kinds) > 1 or not kinds <= _TYPES.keys():
        return None
    kind = kinds.pop()
    own_kind = sizes.most_common(1)[0][0] if sizes else kind
    symmetric = all(
        float(scheme.zero_point.reshape(-1)[0]) == scheme.stored.middle
        for scheme in schemes.values()
    )
    ranges, overrides = {}, {}
    for name, scheme in schemes.items():
        low, high = (numpy.float32(limit.reshape(-1)[0]) for limit in scheme.limits())
        ranges[name] = TensorData(lowest=numpy.array(low), highest=numpy.array(high))
        overrides[name] = [
            {
                "scale": numpy.array(scheme.scale.reshape(-1)[0], numpy.float32),
                "zero_point": numpy.array(scheme.zero_point.reshape(-1)[0], scheme.dtype),
                "quant_type": getattr(QuantType, _TYPES[kind]),
            }
        ]
    for node in reference.graph.node:  # What a Relu or Clip reads has the range of what it makes.
        if node.op_type in ("Relu", "Clip") and node.output[0] in ranges:
            ranges.setdefault(node.input[0], ranges[node.output[0]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(reference, str(path))
        inferred = load_model_with_shape_infer(path)
    quantizer = QDQQuantizer(
        inferred,
        any(site.scheme is not None and not site.scheme.is_per_tensor for site in weights),
        False,
        getattr(QuantType, _TYPES[own_kind]),
        getattr(QuantType, _TYPES[kind]),
        TensorsData(CalibrationMethod.MinMax, ranges),
        [],
        list(without),
        sorted({*QLinearOpsRegistry, *QDQRegistry}),
        {"ActivationSymmetric": symmetric, "TensorQuantOverrides": overrides},
    )
    quantizer.quantize_model()
    model: ModelProto = quantizer.model.model
    return model


def _quantize_dynamic(
    reference: ModelProto, sites: Sequence[Site], without: Sequence[str]
) -> ModelProto | None:
    """Return the model quantized again with dynamic ranges; None if the sites do not allow it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    schemes = [site.scheme for site in sites if site.scheme is not None]
    kinds = {scheme.dtype for scheme in schemes}
    if len(kinds) != 1:
        return None
    kind = _TYPES[kinds.pop()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantize_dynamic(
            reference,
            path,
            nodes_to_exclude=list(without),
            per_channel=any(not scheme.is_per_tensor for scheme in schemes),
            weight_type=getattr(QuantType, kind),
        )
        return onnx.load(str(path))  # type: ignore[no-any-return]


def _quantize_blocks(
    reference: ModelProto, sites: Sequence[Site], without: Sequence[str]
) -> ModelProto | None:
    """Return the model quantized again in blocks; None if the sites do not allow it."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    schemes = [site.scheme for site in sites if site.scheme is not None]
    packed = [site.packing for site in sites if site.packing is not None]
    if not schemes or not packed:
        return None
    quantizer = MatMulNBitsQuantizer(
        reference,
        bits=packed[0].bits,
        block_size=schemes[0].block,
        is_symmetric=not packed[0].has_zero_points,
        nodes_to_exclude=list(without),
    )
    quantizer.process()
    model: ModelProto = quantizer.model.model
    return model


_QUANTIZERS: Mapping[str, Callable[[ModelProto, Sequence[Site], Sequence[str]], Any]] = {
    "static": _quantize_static,
    "dynamic": _quantize_dynamic,
    "nbits": _quantize_blocks,
}
"""The quantizers that are part of ONNX Runtime, by the name of `QuantizedModel.producer`."""
_CALLERS = ("genai", "olive")
"""Tools that call these quantizers."""
