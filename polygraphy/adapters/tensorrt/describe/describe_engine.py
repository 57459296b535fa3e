"""Describes engines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from polygraphy.adapters.tensorrt.describe.describe_network import tensor_dtype
from polygraphy.adapters.tensorrt.library.logger import mute_log
from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.domain.model.engine import EngineDescription, EngineProfile, Layer, ProfileTensor
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER

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
    """Describe an ``ICudaEngine``.

    Args:
        engine: stays as it is.
        context: an ``IExecutionContext`` of the engine, which tells the shapes of outputs under the
            first profile (default: one is made).
        layers: whether layers are described, as far as the engine keeps that: how much was decided
            by `profiling_verbosity` when it was built.
        attrs: whether their attributes are.
        notes: what else is said of tensors of layers, by name.
        sizes: whether the engine is asked how large its weights are.
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
        layers=tuple(inspected_layers(engine, context, attrs, notes)) if layers else (),
        has_implicit_batch=bool(getattr(engine, "has_implicit_batch_dimension", False)),
        weight_bytes=_weight_bytes(engine) if sizes else None,
    )


def _is_input(engine: Any, name: str) -> bool:
    return bool(engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT)


def _weight_bytes(engine: Any) -> int | None:
    """Return how many bytes the weights take; None where that is unknown."""
    if hasattr(engine, "get_engine_stat"):
        with mute_log():
            found = int(engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE))
        return found if found >= 0 else None
    return None


def device_memory(engine: Any) -> int:
    """Return the bytes for activations; the later property is 0 for engines of old versions."""
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
    """Return an execution context that takes no memory on the device; None if there is none."""
    try:
        if hasattr(engine, "create_execution_context_without_device_memory"):
            return engine.create_execution_context_without_device_memory()
        strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
        return engine.create_execution_context(strategy)
    except Exception as error:  # a description without it is still one
        G_LOGGER.verbose(f"Describing the engine without an execution context: {error}")
        return None


def _profile_tensor(
    engine: Any, name: str, profile: int, shapes: Mapping[str, tuple[int, ...]]
) -> ProfileTensor:
    if not _is_input(engine, name):
        shape = shapes[name] if profile == 0 else tuple(engine.get_tensor_shape(name))
        return ProfileTensor(name, is_input=False, shape=shape)
    is_value = bool(engine.is_shape_inference_io(name))
    ranges = _values(engine, name, profile) if is_value else None
    if ranges is None:
        is_value, ranges = False, engine.get_tensor_profile_shape(name, profile)
    low, usual, high = (tuple(one) for one in ranges)
    return ProfileTensor(name, True, shapes[name], (low, usual, high), is_value)


def _values(engine: Any, name: str, profile: int) -> Any:
    """Return the range of the elements of an input that is a shape; None if it is unknown."""
    if hasattr(engine, "get_tensor_profile_values"):
        found = engine.get_tensor_profile_values(profile, name)
    else:
        found = engine.get_profile_shape_input(profile, name)
    return found if found and len(found) == 3 else None


def inspected_layers(
    engine: Any, context: Any = None, attrs: bool = False, notes: Mapping[str, str] | None = None
) -> list[Layer]:
    """Return the layers of an engine, as far as it keeps that; see `describe_engine`."""
    inspector = engine.create_engine_inspector()
    if context is not None:
        inspector.execution_context = context
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        described = json.loads(text).get("Layers", [])
    except ValueError:
        G_LOGGER.warning("The layers of the engine cannot be shown: TensorRT does not tell them.")
        return []
    # An engine of little detail tells names only.
    return [
        _layer(layer, attrs, notes or {}) if isinstance(layer, dict) else Layer(str(layer))
        for layer in described
    ]


def _layer(described: Mapping[str, Any], attrs: bool, notes: Mapping[str, str]) -> Layer:
    inputs, outputs = (_metadata(described.get(kind, ()), notes) for kind in _TENSORS)
    return Layer(
        name=str(described.get("Name", "")),
        op=str(described.get("LayerType", "")) or "Unknown",
        inputs=inputs,
        outputs=outputs,
        attributes=_attributes(described) if attrs else {},
    )


def _metadata(tensors: Any, notes: Mapping[str, str]) -> TensorMetadata:
    metadata = TensorMetadata()
    for tensor in tensors:
        if not isinstance(tensor, dict):
            metadata.add(str(tensor), None, None)
            continue
        name = str(tensor.get("Name", ""))
        layout = tensor.get("Format/Datatype") or tensor.get("Format") or ""
        texts = [f"Format: {layout}" if layout else "", notes.get(name, "")]
        metadata.add(
            name,
            _dtype(str(tensor.get("Datatype") or layout)),
            tensor.get("Dimensions"),
            docstring=", ".join(filter(None, texts)) or None,
        )
    return metadata


def _dtype(text: str) -> Any:
    """Return the data type that a description such as ``Row major linear FP16 format`` names."""
    words = (word for word in _WORD.findall(text.upper()) if word in _DTYPES)
    return next((_DTYPES[word] for word in words), None)


def _attributes(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else is known of a layer: first where it comes from, and its tactic."""
    found = {_SPELLED.get(name, name): value for name, value in known.items() if name not in _KNOWN}
    first = {name: found.pop(name) for name in _FIRST if name in found}
    return {**first, **found}
