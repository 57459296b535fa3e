"""Reads engines, scripts that create networks, and ONNX models as TensorRT parses them."""

from __future__ import annotations

from typing import Any

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.tensorrt.describe.describe_engine import describe_engine
from polygraphy.adapters.tensorrt.describe.describe_network import describe_network
from polygraphy.adapters.tensorrt.network.network import parts_of
from polygraphy.adapters.tensorrt.network.onnx_network import NetworkFromOnnxPath
from polygraphy.adapters.tensorrt.plan.engine import EngineFromPath
from polygraphy.binding import resolve
from polygraphy.domain.arithmetic import summarize
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model import Detail, ModelSource
from polygraphy.domain.model.engine import EngineDescription, NetworkDescription
from polygraphy.domain.ports import ResultStore
from polygraphy.domain.results.results import RunResults

_NETWORK_FUNCTION = "load_network"


def describe_file(source: ModelSource, detail: Detail) -> EngineDescription | NetworkDescription:
    """Return a description of an engine or a network.

    Raises:
        BackendError: TensorRT is not installed, or cannot load it.
        FileError: a file is missing.
        UsageError: a script does not create a network.
    """
    file = evaluate(source.loader) if source.loader is not None else _load_source(source)
    if hasattr(file, "num_io_tensors"):
        notes = notes_of(source.tensor_info) if detail.layers else {}
        return describe_engine(
            file, layers=detail.layers, attrs=detail.attrs, notes=notes, sizes=detail.sizes
        )
    # The builder and the parser must outlive the network.
    parts = parts_of(file)
    return describe_network(
        parts[1],
        layers=detail.layers,
        attrs=detail.attrs,
        weights=detail.weights,
        sizes=detail.sizes,
    )


def _load_source(source: ModelSource) -> Any:
    """Return the engine or network from a file or script."""
    if source.kind == "engine":
        return EngineFromPath(source.path)()
    if source.kind == "onnx":
        return NetworkFromOnnxPath(source.path)()
    path, colon, symbol = source.path.rpartition(":")
    if not colon or not symbol.isidentifier() or not path.endswith(".py"):
        path, symbol = source.path, ""
    name = source.network_func or symbol or _NETWORK_FUNCTION
    result = mod.import_from_script(path, name)()
    if result is None:
        raise UsageError(
            f"{name} in {path} returns nothing.", hint="It must return (builder, network)."
        )
    return result


def notes_of(path: str | None) -> dict[str, str]:
    """Return a note about each tensor with saved values, from the first iteration of the first
    runner.
    """
    if path is None:
        return {}
    results = resolve(ResultStore).load(path, RunResults)
    notes = {}
    for _, iterations in results[:1]:
        for name, array in iterations[0].items() if iterations else ():
            summary = summarize(array)
            notes[name] = f"min={summary.min:.5g}, max={summary.max:.5g}, avg={summary.mean:.5g}"
    return notes
