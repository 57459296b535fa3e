"""Quantizes a model again as ONNX Runtime's quantizers do, with the ranges that it has."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.domain.quantization.schemes import STORED, Scheme
from polygraphy.domain.quantization.sites import Site

if TYPE_CHECKING:
    from onnx import ModelProto

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_TYPES = {
    "uint8": "QUInt8",
    "int8": "QInt8",
    "uint16": "QUInt16",
    "int16": "QInt16",
    "int4": "QInt4",
    "uint4": "QUInt4",
    "float8_e4m3fn": "QFLOAT8E4M3FN",
}
"""ONNX Runtime's names of the quantized types."""
_NEVER = {"Cast", "DequantizeLinear", "QuantizeLinear"}
"""Operators that `get_qdq_config` does not quantize."""
_OTHERS = 0.02
"""The share of bytes that may differ if a model is quantized again by the same algorithm: HQQ sums
in a different order on each machine.
"""


def quantize_again(request: Requantization) -> list[ModelProto]:
    """Return a model quantized by ONNX Runtime for each set of excluded nodes.
    The result is empty if unsupported.
    """
    name = request.producer
    quantize = _QUANTIZERS[_quantizer_name(request.sites) if name in _CALLERS else name]
    with _mute_logging():
        return quantize(request)


def _quantizer_name(sites: Sequence[Site]) -> str:
    """Return the name of the ONNX Runtime quantizer that produces such sites."""
    if any(site.scheme is not None and site.scheme.block for site in sites):
        return "nbits"
    return "dynamic" if any(site.kind == "operator" for site in sites) else "static"


@contextlib.contextmanager
def _mute_logging() -> Iterator[None]:
    """Mute the logging and standard output of other packages inside the block."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _tensor(name: str) -> str:
    """Return the reference's name of a tensor, for which a site may have another name,
    as outputs do."""
    if name.endswith("//float"):
        name = name.removesuffix("//float").removesuffix("_quantized")
    return name.removesuffix("_QuantizeLinear_Input")


def _quantize_statically(request: Requantization) -> list[ModelProto]:
    """Return models quantized again with static ranges,
    by the options that quantize the same tensors; empty if the sites do not allow it."""
    constants = {
        node.output[0] for node in request.reference.graph.node if node.op_type == "Constant"
    }
    names = {
        _tensor(site.name)
        for site in request.sites
        if site.kind == "activation" or site.name in constants
    }
    best: tuple[int, Mapping[str, Any], ModelProto] | None = None
    for options in _static_options(request):
        try:
            quantized = _quantize_static(request.reference, request.sites, [], options)
        except (AttributeError, RuntimeError, ValueError):
            # The quantizer needs a range that the model does not contain.
            continue
        if quantized is None:
            return []
        different = len(names ^ _quantized_names(quantized))
        if best is None or different < best[0]:
            best = different, options, quantized
        if not different:
            break
    if best is None:
        return []
    models = [
        _quantize_static(request.reference, request.sites, names, best[1]) if names else best[2]
        for names in request.excluded
    ]
    return [model for model in models if model is not None]


def _static_options(request: Requantization) -> Iterator[dict[str, Any]]:
    """Yield options that decide which tensors are quantized:
    the default, and those of `get_qdq_config`, which Olive calls.
    """
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    ops = sorted({node.op_type for node in request.reference.graph.node} - _NEVER)
    choices = [(sorted({*QLinearOpsRegistry, *QDQRegistry}), False), (ops, True)]
    choices = [
        *choices[:: -1 if request.producer == "olive" else 1],
        (_quantized_ops(request), False),
    ]
    for types, is_forced in choices:
        for keeps in (False, True):
            yield {
                "types": types,
                "extra": {
                    "ForceQuantizeNoInputCheck": is_forced,
                    "QDQKeepRemovableActivations": keeps,
                },
            }


def _quantized_ops(request: Requantization) -> list[str]:
    """Return the operators whose nodes all read and compute quantized tensors,
    as those of the argument `op_types_to_quantize` do.
    """
    names = {_tensor(site.name) for site in request.sites if site.kind == "activation"}
    nodes = [node for node in request.reference.graph.node if node.input]
    # The quantizer removes a Relu or Clip, and quantizes the tensor after it.
    before = {node.input[0] for node in nodes if node.op_type in ("Clip", "Relu")
              and node.output[0] in names}  # fmt: skip
    left_out = {
        node.op_type
        for node in nodes
        if node.input[0] not in names or node.output[0] not in names | before
    }
    return sorted({node.op_type for node in nodes} - left_out)


def _zero_point_of(scheme: Scheme) -> Any:
    """Return the first zero point of a scheme as an array of its type."""
    kind = scheme.stored_type.minifloat or numpy.dtype(scheme.dtype)
    return numpy.array(scheme.zero_point.reshape(-1)[0]).astype(kind)


def _quantized_names(model: ModelProto) -> set[str]:
    """Return the names of the activations that a model quantizes."""
    weights = {weight.name for weight in model.graph.initializer}
    return {
        _tensor(node.input[0])
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] not in weights
    }


def _quantize_static(
    reference: ModelProto,
    sites: Sequence[Site],
    without: Sequence[str],
    options: Mapping[str, Any],
) -> ModelProto | None:
    """Return the model quantized again with static ranges; None if the sites do not allow it."""
    from onnxruntime.quantization import CalibrationMethod, QuantType, quant_utils
    from onnxruntime.quantization.calibrate import TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    constants = {node.output[0] for node in reference.graph.node if node.op_type == "Constant"}
    activations = [
        site
        for site in sites
        if site.scheme is not None
        and (site.kind == "activation" or (site.kind == "weight" and site.name in constants))
    ]
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
        float(scheme.zero_point.reshape(-1)[0]) == scheme.stored_type.middle
        for scheme in schemes.values()
    )
    ranges, overrides = {}, {}
    for name, scheme in schemes.items():
        low, high = (numpy.float32(limit.reshape(-1)[0]) for limit in scheme.limits())
        ranges[name] = TensorData(lowest=numpy.array(low), highest=numpy.array(high))
        overrides[name] = [
            {
                "scale": numpy.array(scheme.scale.reshape(-1)[0], numpy.float32),
                "zero_point": _zero_point_of(scheme),
                "quant_type": getattr(QuantType, _TYPES[kind]),
            }
        ]
    for node in reference.graph.node:  # The input of a Relu or Clip has the range of its output.
        is_copied = node.op_type in ("Relu", "Clip") and not STORED[kind].minifloat
        if is_copied and node.output[0] in ranges:
            ranges.setdefault(node.input[0], ranges[node.output[0]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(copy_of(reference), str(path))
        inferred = quant_utils.load_model_with_shape_infer(path)
    if STORED[kind].minifloat:  # Pairs in eight-bit floats need a later opset.
        inferred = quant_utils.update_opset_version(inferred, getattr(QuantType, _TYPES[kind]))
    quantizer = QDQQuantizer(
        inferred,
        any(site.scheme is not None and not site.scheme.is_per_tensor for site in weights),
        False,
        getattr(QuantType, _TYPES[own_kind]),
        getattr(QuantType, _TYPES[kind]),
        TensorsData(CalibrationMethod.MinMax, ranges),
        [],
        list(without),
        options["types"],
        {
            "ActivationSymmetric": symmetric,
            "TensorQuantOverrides": overrides,
            **options["extra"],
        },
    )
    quantizer.quantize_model()
    model: ModelProto = quantizer.model.model
    return model


def _quantize_dynamically(request: Requantization) -> list[ModelProto]:
    """Return models quantized again with dynamic ranges; empty if weights have several types."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    schemes = [site.scheme for site in request.sites if site.scheme is not None]
    # Without stored weights (those in Constant nodes are quantized at run time), assume the
    # default.
    kinds = {scheme.dtype for scheme in schemes} or {"int8"}
    if len(kinds) > 1:
        return []
    models = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for names in request.excluded:
            quantize_dynamic(
                copy_of(request.reference),
                path,
                nodes_to_exclude=list(names),
                per_channel=any(not scheme.is_per_tensor for scheme in schemes),
                weight_type=getattr(QuantType, _TYPES[next(iter(kinds))]),
            )
            models.append(onnx.load(str(path)))
    return models


def _quantize_blocks(request: Requantization) -> list[ModelProto]:
    """Return models quantized again in blocks, by the algorithm that reproduces the codes of the
    model; empty if none does."""
    own_codes = _block_codes(request.model)
    for configure in _block_algorithms(request):
        models: list[ModelProto] = []
        for names in request.excluded:
            try:
                quantized = configure(copy_of(request.reference), list(names))
            except (ImportError, ValueError, TypeError, AttributeError):
                break  # This release does not offer the algorithm, or a package is missing.
            if not models and not _has_codes(quantized, own_codes):
                break
            models.append(quantized)
        if len(models) == len(request.excluded):
            return models
    return []


def _block_algorithms(
    request: Requantization,
) -> Iterator[Callable[[ModelProto, list[str]], ModelProto]]:
    """Yield functions that quantize in blocks, by each algorithm that needs no data."""
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    site = next(
        (site for site in request.sites if site.scheme is not None and site.scheme.block), None
    )
    if site is None or site.scheme is None:
        return
    packing, nodes = site.packing, request.model.graph.node
    levels = [
        attribute.i
        for node in nodes
        for attribute in node.attribute
        if attribute.name == "accuracy_level" and attribute.i
    ]
    ops = {node.op_type for node in nodes}
    bits = packing.bits if packing is not None else int("8" in site.scheme.dtype) * 4 + 4
    options: dict[str, Any] = {"bits": bits, "block_size": site.scheme.block}
    if levels:
        options["accuracy_level"] = levels[0]
    if packing is None:
        options["quant_format"] = QuantFormat.QDQ
    elif "GatherBlockQuantized" in ops:
        options["op_types_to_quantize"] = tuple({"MatMul", "Gather"})
    is_symmetric = bool((site.scheme.zero_point == site.scheme.stored_type.middle).all())

    def quantizer(**more: Any) -> Callable[[ModelProto, list[str]], ModelProto]:
        """Return a function that quantizes without some nodes."""

        def quantize(model: ModelProto, without: list[str]) -> ModelProto:
            """Return a model quantized in blocks."""
            quantizer = nbits.MatMulNBitsQuantizer(
                model, nodes_to_exclude=without, is_symmetric=is_symmetric, **options, **more
            )
            quantizer.process()
            quantized: ModelProto = quantizer.model.model
            return quantized

        return quantize

    yield quantizer()
    for name, needs in (
        ("HQQWeightOnlyQuantConfig", {"bits": bits, "block_size": site.scheme.block}),
        ("RTNWeightOnlyQuantConfig", {}),
        ("KQuantWeightOnlyQuantConfig", {}),
    ):
        if hasattr(nbits, name):
            yield quantizer(algo_config=getattr(nbits, name)(**needs))


def _block_codes(model: ModelProto) -> dict[str, Any]:
    """Return the codes of weights in blocks by their names, in the order of their nodes."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    operands = {"MatMulNBits": 1, "GatherBlockQuantized": 0, "DequantizeLinear": 0}
    names = [
        node.input[operands[node.op_type]] for node in model.graph.node if node.op_type in operands
    ]
    return {name: onnx.numpy_helper.to_array(weights[name]) for name in names if name in weights}


def _has_codes(model: ModelProto, codes: Mapping[str, Any]) -> bool:
    """Return whether a model has (nearly) the given codes, by name or by position.
    Additional unused ones are allowed.
    """
    own_codes = _block_codes(model)
    if codes.keys() <= own_codes.keys():
        pairs = [(own_codes[name], array) for name, array in codes.items()]
    elif len(own_codes) == len(codes):
        pairs = [*zip(own_codes.values(), codes.values())]
    else:
        return False
    return all(
        own_array.shape == array.shape and numpy.mean(own_array != array) < _OTHERS
        for own_array, array in pairs
    )


_QUANTIZERS: Mapping[str, Callable[[Requantization], list[Any]]] = {
    "static": _quantize_statically,
    "dynamic": _quantize_dynamically,
    "nbits": _quantize_blocks,
}
"""The quantizers that are part of ONNX Runtime, by the name of `QuantizedModel.producer`."""
_CALLERS = ("genai", "olive")
"""Tools that call these quantizers."""
