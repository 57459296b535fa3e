"""Describes engines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from polygraphy.adapters.tensorrt.describe.build_record import BuildRecord, record_of
from polygraphy.adapters.tensorrt.describe.describe_network import tensor_dtype
from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.library.module import mute_log, trt
from polygraphy.adapters.tensorrt.network.network import layers_of
from polygraphy.binding import UnboundPortError
from polygraphy.domain.catalog.compute import CONVOLUTIONS, PRODUCTS, TF32, ComputePrecision
from polygraphy.domain.model.engine import EngineDescription, EngineProfile, Layer, ProfileTensor
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import DeferredFacts, InputHint, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.precision import coarsest_type
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import find_facts

_DTYPES = {
    "FP32": DataType.FLOAT32,
    "FP16": DataType.FLOAT16,
    "BF16": DataType.BFLOAT16,
    "FP8": DataType.FLOAT8E4M3FN,
    "FP4": DataType.FLOAT4,
    "INT64": DataType.INT64,
    "INT32": DataType.INT32,
    "INT8": DataType.INT8,
    "UINT8": DataType.UINT8,
    "INT4": DataType.INT4,
    "BOOL": DataType.BOOL,
    "FLOAT": DataType.FLOAT32,
    "HALF": DataType.FLOAT16,
}
_WORD = re.compile(r"[A-Z]+\d*")
_TENSORS = ("Inputs", "Outputs")
_KNOWN = {"Name", "LayerType", *_TENSORS}
_FIRST = ("NetworkSource", "Tactic")
_SPELLED = {"TacticValue": "Tactic"}


def describe_engine(
    engine: Any,
    context: Any = None,
    *,
    layers: bool = False,
    attrs: bool = False,
    notes: Mapping[str, str] | None = None,
    sizes: bool = False,
) -> EngineDescription:
    """Return a description of an ``ICudaEngine``: its tensors, profiles, memory and layers.

    Args:
        engine: the engine, which is not changed.
        context: an ``IExecutionContext`` of the engine, for the output shapes under the first
            profile (default: a new one).
        layers: whether layers are described; the detail depends on `profiling_verbosity` at the
            build.
        attrs: whether attributes of layers are described.
        notes: notes about tensors of layers, by name.
        sizes: whether the size of the weights is included.
    """
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    shapes = _shapes(engine, names, context)
    inputs, outputs = TensorMetadata(), TensorMetadata()
    for name in names:
        into = inputs if _is_input(engine, name) else outputs
        into.add(name, tensor_dtype(engine.get_tensor_dtype(name)), shapes[name])
    return EngineDescription(
        name=engine.name,
        is_refittable=bool(engine.refittable),
        inputs=inputs,
        outputs=outputs,
        device_memory=device_memory(engine),
        profiles=tuple(
            EngineProfile(tuple(_profile_tensor(engine, name, index, shapes) for name in names))
            for index in range(engine.num_optimization_profiles)
        ),
        layer_count=engine.num_layers,
        layers=tuple(inspect_layers(engine, context, attrs, notes)) if layers else (),
        has_implicit_batch=bool(getattr(engine, "has_implicit_batch_dimension", False)),
        weight_bytes=_weight_bytes(engine) if sizes else None,
    )


def _is_input(engine: Any, name: str) -> bool:
    """Return whether a tensor is an input of an engine."""
    return bool(engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT)


def _weight_bytes(engine: Any) -> int | None:
    """Return the size of the weights in bytes; None if this TensorRT does not report it."""
    if hasattr(engine, "get_engine_stat"):
        with mute_log():
            size = int(engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE))
        return size if size >= 0 else None
    return None


def device_memory(engine: Any) -> int:
    """Return the device memory that an engine needs for activations, in bytes."""
    sizes = (getattr(engine, name, 0) for name in ("device_memory_size_v2", "device_memory_size"))
    return next((int(size) for size in sizes if size), 0)


def _shapes(engine: Any, names: list[str], context: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors under the first profile: dynamic inputs keep their -1."""
    context = context or _context(engine)
    source = engine if context is None else context
    return {
        name: tuple((engine if _is_input(engine, name) else source).get_tensor_shape(name))
        for name in names
    }


def _context(engine: Any) -> Any:
    """Return an execution context without device memory; None if it cannot be created."""
    try:
        if hasattr(engine, "create_execution_context_without_device_memory"):
            return engine.create_execution_context_without_device_memory()
        strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        return engine.create_execution_context(strategy)
    except Exception as error:  # The description is still useful without this information.
        G_LOGGER.verbose(f"Describing the engine without an execution context: {error}")
        return None


def _profile_tensor(
    engine: Any, name: str, profile: int, shapes: Mapping[str, tuple[int, ...]]
) -> ProfileTensor:
    """Return the minimum, optimum and maximum shapes of a tensor in one profile."""
    if not _is_input(engine, name):
        shape = shapes[name] if profile == 0 else tuple(engine.get_tensor_shape(name))
        return ProfileTensor(name, is_input=False, shape=shape)
    is_value = bool(engine.is_shape_inference_io(name))
    ranges = _shape_values(engine, name, profile) if is_value else None
    if ranges is None:
        is_value, ranges = False, engine.get_tensor_profile_shape(name, profile)
    low, usual, high = (tuple(bounds) for bounds in ranges)
    return ProfileTensor(name, True, shapes[name], (low, usual, high), is_value)


def _shape_values(engine: Any, name: str, profile: int) -> Any:
    """Return the minimum, optimum and maximum values of a shape tensor; None if there are none."""
    if hasattr(engine, "get_tensor_profile_values"):
        tensor_profile_values = engine.get_tensor_profile_values(profile, name)
    else:
        tensor_profile_values = engine.get_profile_shape_input(profile, name)
    return (
        tensor_profile_values if tensor_profile_values and len(tensor_profile_values) == 3 else None
    )


def layer_information(engine: Any, context: Any = None) -> list[Any]:
    """Return the inspector's information about each layer: a dictionary, or only its name."""
    inspector = engine.create_engine_inspector()
    if context is not None:
        inspector.execution_context = context
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        described: list[Any] = json.loads(text).get("Layers", [])
    except ValueError:
        G_LOGGER.warning("The layers of the engine cannot be shown: TensorRT does not list them.")
        return []
    return described


def inspect_layers(
    engine: Any, context: Any = None, attrs: bool = False, notes: Mapping[str, str] | None = None
) -> list[Layer]:
    """Return the layers of an engine, as reported by the engine inspector."""
    described = layer_information(engine, context)
    # An engine with little detail reports only names.
    return [
        _engine_layer(layer, attrs, notes or {}) if isinstance(layer, dict) else Layer(str(layer))
        for layer in described
    ]


def _engine_layer(described: Mapping[str, Any], attrs: bool, notes: Mapping[str, str]) -> Layer:
    """Return one layer from what the engine inspector reports about it."""
    inputs, outputs = (_metadata(described.get(kind, ()), notes) for kind in _TENSORS)
    return Layer(
        name=str(described.get("Name", "")),
        op=str(described.get("LayerType", "")) or "Unknown",
        inputs=inputs,
        outputs=outputs,
        attributes=_attributes(described) if attrs else {},
    )


def _metadata(tensors: Any, notes: Mapping[str, str]) -> TensorMetadata:
    """Return names, data types and shapes of tensors as the engine inspector reports them."""
    metadata = TensorMetadata()
    for entry in tensors:
        if not isinstance(entry, dict):
            metadata.add(str(entry), None, None)
            continue
        name = str(entry.get("Name", ""))
        layout = entry.get("Format/Datatype") or entry.get("Format") or ""
        texts = [f"Format: {layout}" if layout else "", notes.get(name, "")]
        metadata.add(
            name,
            _dtype(str(entry.get("Datatype") or layout)),
            entry.get("Dimensions"),
            docstring=", ".join(filter(None, texts)) or None,
        )
    return metadata


def _dtype(text: str) -> Any:
    """Return the data type in a description such as ``Row major linear FP16 format``."""
    words = (word for word in _WORD.findall(text.upper()) if word in _DTYPES)
    return next((_DTYPES[word] for word in words), None)


def _attributes(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the additional attributes of a layer, with its origin and its tactic first."""
    values = {
        _SPELLED.get(name, name): value for name, value in described.items() if name not in _KNOWN
    }
    first = {name: values.pop(name) for name in _FIRST if name in values}
    return {**first, **values}


_BY_FLAG = {
    "TF32": "tf32",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP8": "float8e4m3fn",
    "INT8": "int8",
    "INT4": "int4",
    "FP4": "float4",
}
_QUANTIZES = ("QUANTIZE", "DYNAMIC_QUANTIZE")
_OPAQUE = ("myelin", "foreignnode")
"""Layers compiled from many others, whose compute type is not visible from outside."""


def network_dtypes(network: Any, flags: Collection[str]) -> dict[str, str]:
    """Return, by output of a network, the least precise data type in its computation.
    Outputs with unknown types are missing.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        flags: names of the `tensorrt.BuilderFlag` members that are on.
    """
    allowed = [dtype for flag, dtype in _BY_FLAG.items() if flag in flags]
    passed: dict[str, str] = {}
    for layer in layers_of(network):
        if layer.type.name == "CONSTANT":
            # Constants are omitted, because weights are equal in every backend.
            continue
        names = _tensor_names(layer.get_input(index) for index in range(layer.num_inputs))
        before = [passed[name] for name in names if name in passed]
        for index in range(layer.num_outputs):
            tensor = layer.get_output(index)
            if tensor is None:
                continue
            rounded_dtype = _dtype_after_rounding(
                tensor, is_quantized=layer.type.name in _QUANTIZES
            )
            precision = coarsest_type([*before, rounded_dtype])
            if precision is not None:
                passed[tensor.name] = precision.name
    outputs = _tensor_names(network.get_output(index) for index in range(network.num_outputs))
    dtype_of = {name: coarsest_type([passed.get(name, ""), *allowed]) for name in outputs}
    return {name: precision.name for name, precision in dtype_of.items() if precision is not None}


def _tensor_names(tensors: Iterable[Any]) -> list[str]:
    """Return the names of tensors; None is skipped."""
    return [tensor.name for tensor in tensors if tensor is not None]


def _dtype_after_rounding(tensor: Any, *, is_quantized: bool) -> str:
    """Return the data type that the numbers of a tensor are rounded to.
    The result is empty if they are not rounded."""
    dtype = TensorrtDataTypes().from_native(tensor.dtype)
    if dtype is None or not (dtype.is_floating or is_quantized):
        return ""
    return str(dtype.name)


def least_precise_layer_dtype(engine: Any) -> str:
    """Return the least precise data type that layers of an engine compute in; empty if unknown."""
    try:
        layers = inspect_layers(engine, attrs=True)
    except Exception as error:  # Facts are optional: an engine that reports none still runs.
        G_LOGGER.verbose(f"The engine inspector failed: {error}")
        return ""
    if any(word in f"{entry.op} {entry.name}".lower() for entry in layers for word in _OPAQUE):
        return ""
    precision = coarsest_type(dtype for layer in layers for dtype in _types_of(layer))
    return "" if precision is None else precision.name


def _types_of(described: Layer) -> list[str]:
    """Return the data types of the outputs of a layer, by name."""
    types = [
        str(entry.dtype.name) for entry in described.outputs.values() if entry.dtype is not None
    ]
    if "tf32" in str(described.attributes.get("TacticName", "")).lower():
        types.append("tf32")
    return types


def engine_facts(engine: Any) -> DeferredFacts:
    """Return the facts about an engine, computed on first use."""
    return DeferredFacts(lambda: _facts(engine))


def _facts(engine: Any) -> ModelFacts:
    """Return the facts about an engine: input ranges, data types and compute precision."""
    record = record_of(engine)
    if record is not None and record.compute_dtypes:
        _log_dtypes(
            record.compute_dtypes.values(), "according to the network and the flags of its build"
        )
        lowered = _compute_precision(record.compute_dtypes.values())
        return ModelFacts(record.compute_dtypes, _input_hints(record), lowered=lowered)
    dtype = least_precise_layer_dtype(engine)
    if not dtype:
        G_LOGGER.verbose(
            "The engine does not report its data types: build it with detailed profiling"
            " verbosity, or keep the .build.json of the build next to it."
        )
        return ModelFacts()
    _log_dtypes([dtype], "according to the engine inspector")
    return ModelFacts({"": dtype}, lowered=_compute_precision([dtype]))


def tensorrt_tf32() -> ComputePrecision:
    """Return the precision of operators that TensorRT may compute in TF32."""
    return ComputePrecision(TF32, (*CONVOLUTIONS, *PRODUCTS), "trt", "omit --tf32")


def _compute_precision(dtypes: Iterable[str]) -> ComputePrecision | None:
    """Return the TF32 precision of an engine if data types of its outputs show it; else None."""
    unique_dtypes = set(dtypes)
    return tensorrt_tf32() if TF32 in unique_dtypes and unique_dtypes <= {TF32, "float32"} else None


def _log_dtypes(dtypes: Iterable[str], reason: str) -> None:
    """Log the data types that an engine computes in, and their source."""
    G_LOGGER.verbose(f"The engine computes in {', '.join(sorted(set(dtypes)))}: {reason}.")


def _input_hints(record: BuildRecord) -> dict[str, InputHint]:
    """Return the values that inputs accept, read from the model that the engine was built from."""
    model = record.model
    if model is None or not Path(model.path).is_file() or model.has_changed():
        return {}
    try:
        return dict(find_facts(model.path).input_hints)
    except UnboundPortError:
        return {}
