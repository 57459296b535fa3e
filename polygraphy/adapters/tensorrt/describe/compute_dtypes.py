"""In which data types the outputs of an engine are computed, and how that is known.

The builder knows at build time which types it may use, so what was built here is known exactly
enough: the types of the network, and those that flags allow. A plan without a record is asked
through the engine inspector, which tells only as much as was kept in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from polygraphy.adapters.tensorrt.describe.build_record import BuildRecord, record_of
from polygraphy.adapters.tensorrt.describe.describe_engine import inspected_layers
from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.network.network import layers_of
from polygraphy.binding import Unbound
from polygraphy.domain.model.engine import Layer
from polygraphy.domain.tensors.facts import DeferredFacts, InputHint, ModelFacts
from polygraphy.domain.tensors.precision import coarsest
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import find_facts

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
"""Layers that many were compiled into: what they compute in does not show from outside."""


def network_dtypes(network: Any, flags: Collection[str]) -> dict[str, str]:
    """Return for each output of a network the coarsest data type of what layers compute on the way
    to it, and of what builder flags allow; outputs of which none is known are left out.

    Args:
        network: the `tensorrt.INetworkDefinition`.
        flags: names of the `tensorrt.BuilderFlag` members that are on.
    """
    allowed = [dtype for flag, dtype in _BY_FLAG.items() if flag in flags]
    passed: dict[str, str] = {}
    for layer in layers_of(network):
        if layer.type.name == "CONSTANT":  # Weights are the same for everybody.
            continue
        names = _names(layer.get_input(index) for index in range(layer.num_inputs))
        before = [passed[name] for name in names if name in passed]
        for index in range(layer.num_outputs):
            tensor = layer.get_output(index)
            if tensor is None:
                continue
            own = _own(tensor, is_quantized=layer.type.name in _QUANTIZES)
            found = coarsest([*before, own])
            if found is not None:
                passed[tensor.name] = found.name
    outputs = _names(network.get_output(index) for index in range(network.num_outputs))
    found_of = {name: coarsest([passed.get(name, ""), *allowed]) for name in outputs}
    return {name: found.name for name, found in found_of.items() if found is not None}


def _names(tensors: Iterable[Any]) -> list[str]:
    return [tensor.name for tensor in tensors if tensor is not None]


def _own(tensor: Any, *, is_quantized: bool) -> str:
    """Return the data type of a tensor if numbers are rounded to it; integers stand for rounded
    numbers only where they are quantised.
    """
    dtype = TensorrtDataTypes().from_native(tensor.dtype)
    if dtype is None or not (dtype.is_floating or is_quantized):
        return ""
    return str(dtype.name)


def inspected_dtype(engine: Any) -> str:
    """Return the coarsest data type in which layers of an engine compute; an empty text where the
    engine does not tell.
    """
    try:
        layers = inspected_layers(engine, attrs=True)
    except Exception as error:  # Facts are an extra: an engine that tells nothing still runs.
        G_LOGGER.verbose(f"The engine inspector tells nothing: {error}")
        return ""
    if any(word in f"{layer.op} {layer.name}".lower() for layer in layers for word in _OPAQUE):
        return ""
    found = coarsest(dtype for layer in layers for dtype in _types_of(layer))
    return "" if found is None else found.name


def _types_of(layer: Layer) -> list[str]:
    types = [str(entry.dtype.name) for entry in layer.outputs.values() if entry.dtype is not None]
    if "tf32" in str(layer.attributes.get("TacticName", "")).lower():
        types.append("tf32")
    return types


def engine_facts(engine: Any) -> DeferredFacts:
    """Return what is known of an engine, found out when it is first asked for."""
    return DeferredFacts(lambda: _facts(engine))


def _facts(engine: Any) -> ModelFacts:
    record = record_of(engine)
    if record is not None and record.compute_dtypes:
        _tell(record.compute_dtypes.values(), "so the network and the flags of its build say")
        return ModelFacts(record.compute_dtypes, _input_hints(record))
    dtype = inspected_dtype(engine)
    if not dtype:
        G_LOGGER.verbose(
            "The engine does not tell in which data types it computes: build it with detailed"
            " profiling verbosity, or keep the .build.json that was saved with it beside it."
        )
        return ModelFacts()
    _tell([dtype], "so the engine inspector says")
    return ModelFacts({"": dtype})


def _tell(dtypes: Iterable[str], reason: str) -> None:
    G_LOGGER.verbose(f"The engine computes in {', '.join(sorted(set(dtypes)))}: {reason}.")


def _input_hints(record: BuildRecord) -> dict[str, InputHint]:
    """Return which values inputs may take, from the model that the engine was built from."""
    model = record.model
    if model is None or not Path(model.path).is_file() or model.has_changed():
        return {}
    try:
        return dict(find_facts(model.path).input_hints)
    except Unbound:
        return {}
