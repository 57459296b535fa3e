"""Quantizes ONNX models with ONNX Runtime: value ranges from data, then Q/DQ nodes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import evaluate
from polygraphy.adapters.onnx_common.inference import (
    hide_crashing_nodes,
    infer_shapes,
    restore_nodes,
)
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of, inputs_of, shape_of
from polygraphy.adapters.onnxruntime.providers import translate_errors
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx, run_terminable
from polygraphy.adapters.os.paths import atomic_file, translate_os_errors
from polygraphy.domain.data.loading import describe_model, fit_feed, iterate_feeds
from polygraphy.domain.errors import (
    BackendError,
    DataTypeConversionException,
    FileError,
    InputError,
    ModelError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import CalibrationCache
from polygraphy.ports.running import find_facts

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto


Ranges = Mapping[str, "tuple[float, float]"]
"""The smallest and the largest value of tensors, by name."""

METHODS = ("entropy", "minmax", "percentile")
"""How a range is chosen from what was seen.

``minmax`` takes everything in; ``percentile`` leaves out the outermost 0.01%; ``entropy`` cuts off
where the distribution of the quantized values tells most about that of the others.
"""

_PERCENTILE = 99.99
_BINS = {"entropy": 1024, "percentile": 2048}
_LEVELS = 128

onnx = mod.lazy_import("onnx")
calibrate = mod.lazy_import("onnxruntime.quantization.calibrate")


def measure_ranges(
    model: ModelProto, tensors: Sequence[str], data: Iterable[Mapping[str, Any]], method: str
) -> dict[str, tuple[float, float]]:
    """Return the ranges of some tensors, measured by running a model on all data.

    Args:
        model: whose tensors; it is not changed.
        tensors: names of tensors of numbers.
        data: feed dictionaries; casts that lose nothing are made. A data loader that does not know
            the inputs (its `input_metadata` is None) is given their metadata.
        method: one of `METHODS`.

    Raises:
        InputError: there are no data, or they do not fit the model.
        BackendError: ONNX Runtime cannot run the model.
    """
    metadata = _input_metadata(model)
    if getattr(data, "input_metadata", metadata) is None:
        describe_model(data, metadata, partial(find_facts, model))
    collector = _MinMax() if method == "minmax" else _Histograms(method)
    count = 0
    session = _measuring_session(model, tensors) if tensors else None
    for feed in _fit_feeds(data, metadata):
        count += 1
        if session is not None:
            with translate_errors("run"):
                values = run_terminable(partial(session.run, list(tensors), feed))
            collector.add(dict(zip(tensors, values)))
    if not count:
        raise InputError(
            "There is no calibration data: the data loader is empty.",
            hint="A generator can be used only once: pass a list, or a function that returns a new"
            " generator.",
        )
    return collector.ranges() if tensors else {}


def _measuring_session(model: ModelProto, tensors: Sequence[str]) -> Any:
    """Return a session that outputs tensors, without optimizations that would remove some."""
    with_outputs = _with_outputs(model, tensors)
    return SessionFromOnnx(with_outputs, graph_optimization_level="disable").call_impl()


def _with_outputs(model: ModelProto, tensors: Sequence[str]) -> ModelProto:
    """Return a copy of a model with additional tensors as outputs."""
    copy: ModelProto = copy_of(model)
    names = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in tensors if name not in names
    )
    return copy


def _fit_feeds(
    data: Iterable[Mapping[str, Any]], metadata: TensorMetadata
) -> Iterator[dict[str, Any]]:
    """Yield calibration feeds in the types and shapes of the inputs; warn of changes."""
    noted: set[str] = set()
    for index, feed_dict in enumerate(iterate_feeds(data)):
        missing = [name for name in metadata if name not in feed_dict]
        if missing:  # Using data with another name for calibration would be a guess.
            raise InputError(
                f"The calibration data of iteration {index} lacks {', '.join(map(repr, missing))};"
                f" found {list(feed_dict)}."
            )
        fitted, notes = fit_feed(feed_dict, metadata)
        for note in (*notes, *getattr(data, "notes", ())):
            if note not in noted:
                noted.add(note)
                G_LOGGER.warning(f"Calibration data: {note}")
        yield fitted


def _input_metadata(model: ModelProto) -> TensorMetadata:
    """Return the metadata of the inputs of a model."""
    metadata = TensorMetadata()
    for value in inputs_of(model.graph):
        metadata.add(value.name, _input_dtype(value), shape_of(value.type.tensor_type))
    return metadata


def _input_dtype(value: ValueInfoProto) -> Any:
    """Return the data type of an input; None if it is unknown."""
    try:
        return DataType.from_dtype(value.type.tensor_type.elem_type, "onnx")
    except DataTypeConversionException:
        return None


class _MinMax:
    """Records the smallest and the largest finite value of each tensor."""

    def __init__(self) -> None:
        """Start without values."""
        self._seen: dict[str, tuple[float, float]] = {}

    def add(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Widen the range of each tensor to its finite values."""
        for name, array in values.items():
            finite = array[np.isfinite(array)]
            low, high = self._seen.get(name, (0.0, 0.0))
            if finite.size:
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            self._seen[name] = (low, high)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Return the smallest and largest value of each tensor."""
        return self._seen


class _Histograms:
    """Records histograms, from which ONNX Runtime chooses the ranges."""

    def __init__(self, method: str) -> None:
        """Start without values; `method` selects the ranges at the end."""
        self._collector = calibrate.HistogramCollector(
            method=method,
            symmetric=True,
            num_bins=_BINS[method],
            num_quantized_bins=_LEVELS,
            percentile=_PERCENTILE,
            scenario="same",
        )

    def add(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Add the finite values of each tensor to its histogram."""
        finite = {
            name: array[np.isfinite(array)].astype(np.float32) for name, array in values.items()
        }
        with redirect_stdout(StringIO()):  # The quantizer prints its progress.
            self._collector.collect(finite)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Return the range of each tensor that the calibration method selects."""
        with redirect_stdout(StringIO()):
            collection_result = self._collector.compute_collection_result()
        return {
            name: (float(chosen[0]), float(chosen[1])) for name, chosen in collection_result.items()
        }


onnxruntime = mod.lazy_import("onnxruntime")
ml_dtypes = mod.lazy_import("ml_dtypes")
quantization = mod.lazy_import("onnxruntime.quantization")
qdq = mod.lazy_import("onnxruntime.quantization.qdq_quantizer")


QUANTIZED_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators that TensorRT computes faster in 8 bits; their inputs get Q/DQ nodes."""

_OPTIONS = {
    # TensorRT's scheme: zero points are zero, and biases and outputs remain floating-point numbers.
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": list(QUANTIZED_OPS),
}
_LARGEST_FLOAT8 = 448.0  # The largest number of float8 E4M3FN.


@frozen
class Scheme:
    """The way to quantize a model to a type.

    Attributes:
        member: the name of the type in ``onnxruntime.quantization.QuantType``.
        opset: the operator set that has what it takes.
        ir_version: the version of the format that has the type.
        is_opset_required: whether there is no such type in earlier operator sets; else weights are
            quantized per tensor there.
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
"""Quantization schemes by data type."""

_HALF_OPSET, _HALF_IR = 19, 9  # Earlier opsets only quantize float32.


def scheme_for(model: ModelProto, dtype: DataTypeEntry) -> Scheme:
    """Return the scheme of `SCHEMES` for a model: float16 models need later operators."""
    scheme = SCHEMES[dtype]
    half = onnx.TensorProto.FLOAT16
    if not any(tensor.data_type == half for tensor in model.graph.initializer):
        return scheme
    return evolve(scheme, opset=_HALF_OPSET, ir_version=_HALF_IR, is_opset_required=True)


def opset_of(model: ModelProto) -> int:
    """Return the version of the standard operators in a model."""
    versions = (opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx"))
    return max(versions, default=1)


def is_quantized(node: NodeProto, kept_names: Collection[str]) -> bool:
    """Return whether a node computes with quantized inputs.
    `kept_names` are nodes excluded from quantization."""
    return node.op_type in QUANTIZED_OPS and node.name not in kept_names


def with_qdq(
    model: ModelProto, ranges: Ranges, dtype: DataTypeEntry, kept_names: Collection[str]
) -> ModelProto:
    """Return a model in which operators read their inputs through Q/DQ pairs.

    Args:
        model: each node has a name, and each weight is an initializer; may be changed.
        ranges: the smallest and the largest value of each activation.
        dtype: one of `SCHEMES`.
        kept_names: names of nodes that keep their type.

    Raises:
        BackendError: this ONNX Runtime cannot quantize to that type.
        ModelError: the model cannot be quantized.
    """
    scheme = SCHEMES[dtype]
    quantized_type = getattr(quantization.QuantType, scheme.member, None)
    if quantized_type is None:
        raise BackendError(
            f"ONNX Runtime {onnxruntime.__version__} does not quantize to {dtype}.",
            backend="onnxruntime",
            hint="Install ONNX Runtime 1.17 or later.",
        )
    options: dict[str, Any] = dict(_OPTIONS)
    if dtype == DataType.FLOAT8E4M3FN:
        options["TensorQuantOverrides"] = _float8_scales(model, ranges, kept_names, quantized_type)
    types = _float_types(model)
    data = {
        name: tuple(np.array(end, dtype=types.get(name, np.float32)) for end in ends)
        for name, ends in ranges.items()
    }
    with translate_errors("quantize"):
        try:
            qdqquantizer = qdq.QDQQuantizer(
                model=model,
                per_channel=scheme.is_per_channel and opset_of(model) >= scheme.opset,
                reduce_range=False,
                weight_qType=quantized_type,
                activation_qType=quantized_type,
                tensors_range=calibrate.TensorsData(quantization.CalibrationMethod.MinMax, data),
                nodes_to_quantize=[],
                nodes_to_exclude=sorted(kept_names),
                op_types_to_quantize=list(QUANTIZED_OPS),
                extra_options=options,
            )
            qdqquantizer.quantize_model()
            qdqquantizer.model.topological_sort()  # New nodes were appended.
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"The model cannot be quantized: {error}") from error
    quantized: ModelProto = qdqquantizer.model.model
    return quantized


def _float8_scales(
    model: ModelProto, ranges: Ranges, kept_names: Collection[str], quantized_type: Any
) -> dict[str, list[dict[str, Any]]]:
    """Return the scale of each tensor that maps its largest magnitude to the largest float8.
    ONNX Runtime's own choice, from the standard deviation, cuts off rare values.
    """
    types = _float_types(model)
    largest = {name: max(abs(low), abs(high)) for name, (low, high) in ranges.items()}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        for name in node.input[:2]:
            if is_quantized(node, kept_names) and name in weights and name not in largest:
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
    """Return the NumPy types of float16 tensors, by name, because their scales have that type."""
    half = onnx.TensorProto.FLOAT16
    if not any(tensor.data_type == half for tensor in model.graph.initializer):
        return {}
    graph = infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: np.float16 for value in values if value.type.tensor_type.elem_type == half}


_LARGEST_INT8 = 127
_TABLE_HEAD = b"TRT-"
_TABLE_LINE = re.compile(r"(.+): ([0-9a-fA-F]{8})")


def load_ranges(cache: CalibrationCache) -> dict[str, tuple[float, float]] | None:
    """Return the ranges in a cache; None if it does not exist or is empty.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    content = _cache_content(cache)
    if not content:
        return None
    try:
        ranges = (
            _ranges_in_table(content)
            if content.startswith(_TABLE_HEAD)
            else _ranges_in_document(content)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{_cache_name(cache)} is not a calibration cache: {error}.",
            path=_cache_name(cache),
            hint="Remove it, or choose a different file.",
        ) from error
    G_LOGGER.progress(f"Reading calibration cache from {_cache_name(cache)}")
    return ranges


def save_ranges(
    cache: CalibrationCache, ranges: dict[str, tuple[float, float]], method: str
) -> None:
    """Write ranges to a cache, completely or not at all.
    Raise FileError if it cannot be written."""
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


def _cache_content(cache: CalibrationCache) -> bytes:
    """Return the bytes of a calibration cache; empty if there are none."""
    if cache is None:
        return b""
    if not isinstance(cache, (str, Path)):
        cache.seek(0)
        return bytes(cache.read())
    path = Path(cache)
    if not path.exists():
        return b""
    with translate_os_errors(path, "read"):
        content = path.read_bytes()
    if not content:
        G_LOGGER.warning(f"The calibration cache {path} is empty: calibrating again.")
    return content


def _ranges_in_document(content: bytes) -> dict[str, tuple[float, float]]:
    """Return the range of each tensor from a JSON cache."""
    document: Any = json.loads(content)
    ranges = {}
    for name, (low, high) in document["ranges"].items():
        if not float(low) <= float(high):
            raise ValueError(f"the range of {name!r} is from {low} to {high}")
        ranges[name] = (float(low), float(high))
    return ranges


def _ranges_in_table(content: bytes) -> dict[str, tuple[float, float]]:
    """Return the range of each tensor from a calibration table of TensorRT."""
    ranges = {}
    for line in content.decode().splitlines()[1:]:
        match = _TABLE_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"the line {line!r} does not have the form name: scale")
        [scale] = struct.unpack("!f", bytes.fromhex(match[2]))
        largest = abs(scale) * _LARGEST_INT8
        ranges[match[1]] = (-largest, largest)
    return ranges


def _cache_name(cache: CalibrationCache) -> str:
    """Return the name of a calibration cache for messages."""
    return str(cache if isinstance(cache, (str, Path)) else getattr(cache, "name", "memory"))


_MADE_UP = "polygraphy:node:"  # Prefix of the names that unnamed nodes have during quantization.


def quantize(
    model: Any,
    calibration: Iterable[Mapping[str, Any]] | None,
    dtype: DataTypeEntry,
    *,
    method: str = "entropy",
    cache: CalibrationCache = None,
    keep_nodes: Collection[str] = (),
) -> Any:
    """Return the model with quantized inputs and weights of convolutions and matrix products.

    The range of a tensor that becomes float8 is everything that was seen unless `method` is
    ``percentile``: ``entropy`` chooses where to cut off for the even steps of an integer.
    """
    if dtype not in SCHEMES:
        raise UsageError(
            f"A model cannot be quantized to {dtype}.",
            hint=f"Available: {', '.join(str(scheme) for scheme in SCHEMES)}.",
        )
    if method not in METHODS:
        raise UnknownNameError("Calibration method", method, METHODS)
    if dtype != DataType.INT8 and method == "entropy":
        method = "minmax"
    prepared, kept_names = _prepare_model(model, dtype, keep_nodes)
    chosen = [node for node in prepared.graph.node if is_quantized(node, kept_names)]
    wanted = _activation_names(prepared, chosen)
    # Calibrate all tensors if there is a cache, because later builds may keep different nodes.
    nodes = [node for node in prepared.graph.node if is_quantized(node, ())]
    measured = wanted if cache is None else _activation_names(prepared, nodes)
    ranges = _load_or_measure(prepared, wanted, measured, calibration, method, cache)
    if not wanted:
        but = " except those that keep their type" if kept_names else ""
        G_LOGGER.warning(
            f"Nothing is quantized: the model has no {', '.join(QUANTIZED_OPS)} nodes{but}."
        )
        return _remove_added_names(prepared)
    quantized = with_qdq(prepared, {name: ranges[name] for name in wanted}, dtype, kept_names)
    return _remove_added_names(quantized)


def _data(calibration: Any) -> Any:
    """Return feed dictionaries, from a function if one is given."""
    is_iterable = hasattr(calibration, "__iter__") or hasattr(calibration, "__getitem__")
    return calibration if is_iterable else evaluate(calibration)


def _prepare_model(
    model: ModelProto, dtype: DataTypeEntry, keep_nodes: Collection[str]
) -> tuple[ModelProto, set[str]]:
    """Return a copy that can be quantized, and the new names of the nodes to keep.
    The copy has named nodes, initializers as weights, and an opset that supports quantization.

    Raises:
        ModelError: it cannot be brought to an operator set without which there is no such type.
    """
    names = {
        name
        for node in model.graph.node
        if identity_of(node) in keep_nodes
        for name in node.output
        if name
    }
    copy: ModelProto = copy_of(model)
    # The model is converted to the type of its weights, so find weights in Constant nodes.
    _lift_constants(copy)
    copy = _raise_opset(copy, dtype)
    for index, node in enumerate(copy.graph.node):
        node.name = node.name or f"{_MADE_UP}{index}"
    return copy, {node.name for node in copy.graph.node if names.intersection(node.output)}


def _remove_added_names(model: ModelProto) -> ModelProto:
    """Return a model without the node names that `_prepare_model` added,
    because names of unnamed nodes follow from their outputs.
    """
    for node in model.graph.node:
        if node.name.startswith(_MADE_UP):
            node.name = ""
    return model


def _raise_opset(model: ModelProto, dtype: DataTypeEntry) -> ModelProto:
    """Return a model with an operator set that supports the data type."""
    scheme, version = scheme_for(model, dtype), opset_of(model)
    model.ir_version = max(model.ir_version, scheme.ir_version)
    if version >= scheme.opset:
        return model
    try:
        lifted: ModelProto = onnx.version_converter.convert_version(
            hide_crashing_nodes(model), scheme.opset
        )
    except Exception as error:  # Errors from C++ can have any class.
        text = (
            f"the model (opset {version}) cannot be converted to opset {scheme.opset}:"
            f" {' '.join(str(error).split())}"
        )
        if scheme.is_opset_required:
            raise ModelError(
                f"The model cannot be quantized to {dtype}: {text}",
                hint=f"Export it with opset {scheme.opset} or later.",
            ) from error
        G_LOGGER.warning(f"Weights are quantized per tensor: {text}")
        return model
    restore_nodes(lifted)
    lifted.ir_version = max(lifted.ir_version, scheme.ir_version)
    return lifted


def _lift_constants(model: ModelProto) -> None:
    """Convert Constant nodes with weights to initializers,
    because ONNX Runtime would look for their ranges."""
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


def _activation_names(model: ModelProto, chosen: Iterable[NodeProto]) -> list[str]:
    """Return the quantized tensors that are not weights, in order."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = (name for node in chosen for name in node.input[:2] if name not in weights)
    return list(dict.fromkeys(names))


def _load_or_measure(
    model: ModelProto,
    wanted: Collection[str],
    measured: Collection[str],
    data: Any,
    method: str,
    cache: CalibrationCache,
) -> Ranges:
    """Return the ranges of tensors, from the cache if it has all of them,
    else measured and saved to the cache.
    """
    or_measure = load_ranges(cache)
    if or_measure is not None:
        missing = [name for name in wanted if name not in or_measure]
        if not missing:
            return or_measure
        text = f"The calibration cache has no ranges for {', '.join(map(repr, missing))}"
        if data is None:
            raise FileError(f"{text}.", hint="Calibrate again, with data.")
        G_LOGGER.warning(f"{text}: calibrating again.")
    if data is None:
        raise InputError("There is neither calibration data nor a calibration cache.")
    ranges = measure_ranges(model, list(measured), _data(data), method)
    save_ranges(cache, ranges, method)
    return ranges
