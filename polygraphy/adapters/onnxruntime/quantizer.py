"""Quantises ONNX models with ONNX Runtime: value ranges from data, then Q/DQ nodes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx_common.inference import hidden, restore
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of
from polygraphy.adapters.onnxruntime.calibration import METHODS, Ranges, measure
from polygraphy.adapters.onnxruntime.qdq import (
    QUANTIZED_OPS,
    SCHEMES,
    is_quantized,
    opset_of,
    scheme_for,
    with_qdq,
)
from polygraphy.adapters.os.paths import atomic_file, translated_os_errors
from polygraphy.domain.errors import (
    FileError,
    InputError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import CalibrationCache

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_LARGEST_INT8 = 127
_TABLE_HEAD = b"TRT-"
_TABLE_LINE = re.compile(r"(.+): ([0-9a-fA-F]{8})")


def load_ranges(cache: CalibrationCache) -> dict[str, tuple[float, float]] | None:
    """Return the ranges in a cache; None where there is no cache yet, or an empty one.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    content = _content(cache)
    if not content:
        return None
    try:
        ranges = _table(content) if content.startswith(_TABLE_HEAD) else _document(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{_name(cache)} is no calibration cache: {error}.",
            path=_name(cache),
            hint="Remove it, or name another file.",
        ) from error
    G_LOGGER.info(f"Reading calibration cache from {_name(cache)}")
    return ranges


def save_ranges(
    cache: CalibrationCache, ranges: dict[str, tuple[float, float]], method: str
) -> None:
    """Write ranges to a cache, whole or not at all; FileError when it cannot be written."""
    if cache is None:
        return
    document = {
        "calibration": method,
        "ranges": {name: [float(low), float(high)] for name, (low, high) in ranges.items()},
    }
    text = (json.dumps(document, indent=4, allow_nan=False) + "\n").encode()
    if isinstance(cache, (str, Path)):
        G_LOGGER.info(f"Writing calibration cache to {cache}")
        with atomic_file(cache) as stream:
            stream.write(text)
        return
    cache.seek(0)
    cache.write(text)
    cache.truncate()
    cache.flush()


def _content(cache: CalibrationCache) -> bytes:
    if cache is None:
        return b""
    if not isinstance(cache, (str, Path)):
        cache.seek(0)
        return bytes(cache.read())
    path = Path(cache)
    if not path.exists():
        return b""
    with translated_os_errors(path, "read"):
        content = path.read_bytes()
    if not content:
        G_LOGGER.warning(f"The calibration cache {path} is empty: calibrating again.")
    return content


def _document(content: bytes) -> dict[str, tuple[float, float]]:
    document: Any = json.loads(content)
    ranges = {}
    for name, (low, high) in document["ranges"].items():
        if not float(low) <= float(high):
            raise ValueError(f"the range of {name!r} is from {low} to {high}")
        ranges[name] = (float(low), float(high))
    return ranges


def _table(content: bytes) -> dict[str, tuple[float, float]]:
    ranges = {}
    for line in content.decode().splitlines()[1:]:
        match = _TABLE_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"the line {line!r} is not of the form name: scale")
        [scale] = struct.unpack("!f", bytes.fromhex(match[2]))
        largest = abs(scale) * _LARGEST_INT8
        ranges[match[1]] = (-largest, largest)
    return ranges


def _name(cache: CalibrationCache) -> str:
    return str(cache if isinstance(cache, (str, Path)) else getattr(cache, "name", "memory"))


onnx = mod.lazy_import("onnx")

_MADE_UP = "polygraphy:node:"  # what names start with that nodes get while they are quantised


def quantize(
    model: Any,
    calibration: Iterable[Mapping[str, Any]] | None,
    dtype: DataTypeEntry,
    *,
    method: str = "entropy",
    cache: CalibrationCache = None,
    keep_nodes: Collection[str] = (),
) -> Any:
    """Quantise the inputs and weights of convolutions and matrix products.

    The range of a tensor that becomes float8 is everything that was seen unless `method` is
    ``percentile``: ``entropy`` chooses where to cut off for the even steps of an integer.
    """
    if dtype not in SCHEMES:
        raise UsageError(
            f"A model cannot be quantised to {dtype}.",
            hint=f"Available: {', '.join(str(known) for known in SCHEMES)}.",
        )
    if method not in METHODS:
        raise UnknownNameError("Calibration method", method, METHODS)
    if dtype != DataType.INT8 and method == "entropy":
        method = "minmax"
    prepared, kept = _prepared(model, dtype, keep_nodes)
    chosen = [node for node in prepared.graph.node if is_quantized(node, kept)]
    wanted = _activations(prepared, chosen)
    # A cache serves builds that keep other nodes, too: layers are tried one after the other.
    everything = [node for node in prepared.graph.node if is_quantized(node, ())]
    measured = wanted if cache is None else _activations(prepared, everything)
    ranges = _ranges(prepared, wanted, measured, calibration, method, cache)
    if not wanted:
        but = " but those that keep their type" if kept else ""
        G_LOGGER.warning(
            f"Nothing is quantised: the model has no {', '.join(QUANTIZED_OPS)} nodes{but}."
        )
        return _unnamed(prepared)
    made = with_qdq(prepared, {name: ranges[name] for name in wanted}, dtype, kept)
    return _unnamed(made)


def _data(calibration: Any) -> Any:
    """Return feed dictionaries, which a function may make."""
    is_iterable = hasattr(calibration, "__iter__") or hasattr(calibration, "__getitem__")
    return calibration if is_iterable else evaluate(calibration)


def _prepared(
    model: ModelProto, dtype: DataTypeEntry, keep_nodes: Collection[str]
) -> tuple[ModelProto, set[str]]:
    """Return a copy in which every node has a name and every weight is an initialiser, of an
    operator set that has what quantisation takes; and how nodes that are kept are called there.

    Raises:
        ModelError: it cannot be brought to an operator set without which there is no such type.
    """
    kept = {
        name
        for node in model.graph.node
        if identity_of(node) in keep_nodes
        for name in node.output
        if name
    }
    copy: ModelProto = copy_of(model)
    _lift_constants(copy)  # Of which type weights are decides what the model is brought to.
    copy = _lifted(copy, dtype)
    for index, node in enumerate(copy.graph.node):
        node.name = node.name or f"{_MADE_UP}{index}"
    return copy, {node.name for node in copy.graph.node if kept.intersection(node.output)}


def _unnamed(model: ModelProto) -> ModelProto:
    """Take away the names that nodes got here: what a node without a name is called elsewhere
    follows from what it computes.
    """
    for node in model.graph.node:
        if node.name.startswith(_MADE_UP):
            node.name = ""
    return model


def _lifted(model: ModelProto, dtype: DataTypeEntry) -> ModelProto:
    """Return a model of a late enough operator set."""
    scheme, version = scheme_for(model, dtype), opset_of(model)
    model.ir_version = max(model.ir_version, scheme.ir_version)
    if version >= scheme.opset:
        return model
    try:
        lifted: ModelProto = onnx.version_converter.convert_version(hidden(model), scheme.opset)
    except Exception as error:  # of whichever class: it is C++ that gives up
        said = (
            f"the model (opset {version}) cannot be brought to opset {scheme.opset}:"
            f" {' '.join(str(error).split())}"
        )
        if scheme.is_opset_required:
            raise ModelError(
                f"The model cannot be quantised to {dtype}: {said}",
                hint=f"Export it with opset {scheme.opset} or later.",
            ) from error
        G_LOGGER.warning(f"Weights are quantised per tensor: {said}")
        return model
    restore(lifted)
    lifted.ir_version = max(lifted.ir_version, scheme.ir_version)
    return lifted


def _lift_constants(model: ModelProto) -> None:
    """Make initialisers of the Constant nodes that hold weights: ONNX Runtime looks for ranges of
    what nodes compute.
    """
    weights = {
        name for node in model.graph.node if node.op_type in QUANTIZED_OPS for name in node.input
    }
    for node in list(model.graph.node):
        if node.op_type != "Constant" or node.output[0] not in weights:
            continue
        [value] = node.attribute
        if value.name == "value":
            tensor = model.graph.initializer.add()
            tensor.CopyFrom(value.t)
            tensor.name = node.output[0]
            model.graph.node.remove(node)


def _activations(model: ModelProto, chosen: Iterable[NodeProto]) -> list[str]:
    """Return the tensors whose ranges are needed, in order: what is quantised and is no weight."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = (name for node in chosen for name in node.input[:2] if name not in weights)
    return list(dict.fromkeys(names))


def _ranges(
    model: ModelProto,
    wanted: Collection[str],
    measured: Collection[str],
    data: Any,
    method: str,
    cache: CalibrationCache,
) -> Ranges:
    """Return the ranges of the tensors that are wanted: from the cache if it has all of them, else
    measured, among others, which fills the cache.
    """
    known = load_ranges(cache)
    if known is not None:
        missing = [name for name in wanted if name not in known]
        if not missing:
            return known
        said = f"The calibration cache lacks ranges of {', '.join(map(repr, missing))}"
        if data is None:
            raise FileError(f"{said}.", hint="Calibrate again, with data.")
        G_LOGGER.warning(f"{said}: calibrating again.")
    if data is None:
        raise InputError("There are no calibration data, and no cache that replaces them.")
    ranges = measure(model, list(measured), _data(data), method)
    save_ranges(cache, ranges, method)
    return ranges
