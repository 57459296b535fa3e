"""Lower precision for TensorRT versions that take every type from the model.

TensorRT 11 and TensorRT-RTX build strongly typed networks only: there is no flag that lets the
builder choose fp16. Instead, the ONNX model is converted before parsing. While a loader of a
network runs, the request is in a context variable, so that a chain of loaders
(`ModifyNetworkOutputs`, a user's ``func.extend``) needs no change: the loader that parses the model
reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attrs import define, field, frozen

from polygraphy.adapters.onnx_common.messages import graphs_of, identity_of
from polygraphy.adapters.tensorrt.precision.calibrator import CalibrationData
from polygraphy.domain.catalog.precisions import REDUCED
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import cast_precision, quantize


@frozen
class NodeSelection:
    """Nodes that were selected by the names of their layers.

    Attributes:
        chosen: the names of the nodes for `cast_precision`.
        others: all other nodes, except those with a chosen node in a subgraph.
        unknown: names that no node has, in order.
        known: the first name of every node.
    """

    chosen: frozenset[str]
    others: frozenset[str]
    unknown: tuple[str, ...]
    known: tuple[str, ...]


def select_nodes(model: Any, names: Iterable[str]) -> NodeSelection:
    """Return the nodes of a model and its subgraphs in two sets: selected by a layer or result
    name, and all others.
    """
    wanted = list(names)
    chosen: set[str] = set()
    other_nodes: set[str] = set()
    known_nodes: dict[str, None] = {}
    met: set[str] = set()

    def sort_into_sets(nodes: Iterable[Any]) -> bool:
        """Sort nodes into the two sets; return whether one of them was selected."""
        any_match = False
        for node in nodes:
            aliases = _node_names(node)
            known_nodes.update(dict.fromkeys(aliases[:1]))
            intersection = set(wanted).intersection(aliases)
            met.update(intersection)
            # Keeping a node also keeps its subgraphs, so a node with a chosen node inside is not
            # kept.
            inside = [sort_into_sets(body.node) for body in graphs_of(node)]
            has_inside = any(inside)
            if intersection:
                chosen.add(identity_of(node))
            elif not has_inside:
                other_nodes.add(identity_of(node))
            any_match |= bool(intersection) or has_inside
        return any_match

    sort_into_sets(model.graph.node)
    return NodeSelection(
        frozenset(chosen) - {""},
        frozenset(other_nodes) - {""} - chosen,
        tuple(name for name in wanted if name not in met),
        tuple(known_nodes),
    )


def _node_names(node: Any) -> list[str]:
    """Return the names of a node: its own, or one from its first output, and its outputs."""
    outputs: Collection[str] = [name for name in node.output if name]
    first = [node.name] if node.name else [f"node_of_{name}" for name in outputs][:1]
    return [*first, *outputs]


QUANTIZED_TYPES = (DataType.INT8, DataType.FLOAT8E4M3FN)
"""Types to which a model is quantized instead of cast."""

_FLOAT_TYPES = {
    name: DataType[precision.dtype.upper()]
    for name, precision in REDUCED.items()
    if not precision.is_quantized
}
Q_OPS = {"QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear"}
"""Operators of which a quantized model has some."""


@frozen
class PrecisionRequest:
    """The precision in which a network should compute.

    Attributes:
        floats: the type for floating-point tensors; None to leave them unchanged.
        quantized: the type to quantize to; None for none.
        calibration: feed dictionaries for that, or a calibrator that has them as `data_loader`.
    """

    floats: DataTypeEntry | None = None
    quantized: DataTypeEntry | None = None
    calibration: Any = field(default=None, eq=False)

    def __bool__(self) -> bool:
        """Return whether a precision is requested."""
        return self.floats is not None or self.quantized is not None

    def __str__(self) -> str:
        """Return the request as its user would write it."""
        return " and ".join(str(dtype) for dtype in (self.quantized, self.floats) if dtype)


@define
class CastJob:
    """A cast in progress.

    Layers have the names of `_node_names`.

    Attributes:
        request: the request for the whole model.
        builder: the builder of new networks; None to create one.
        layer_precisions: the requested types of layers, by name; float32 keeps a layer unchanged.
            Without a request for the whole model, only these layers change.
        calibration: the calibration data for quantized layers, if `request` has none.
        is_done: whether a model was cast.
    """

    request: PrecisionRequest
    builder: Any = None
    layer_precisions: dict[str, DataTypeEntry] = field(factory=dict)
    calibration: Any = None
    is_done: bool = False

    def narrow_types(self, *, floats: bool) -> set[DataTypeEntry]:
        """Return the narrow types of layers: those of casts, or those of quantization."""
        named = {*self.layer_precisions.values()} - {DataType.FLOAT32}
        return {dtype for dtype in named if (dtype in QUANTIZED_TYPES) != floats}


_current: ContextVar[CastJob | None] = ContextVar("casting", default=None)


def current_casting() -> CastJob | None:
    """Return the cast that is in progress; None if there is none."""
    return _current.get()


@contextmanager
def cast_parsed_models(job: CastJob) -> Iterator[CastJob]:
    """Cast every model that is parsed inside the block."""
    token = _current.set(job)
    try:
        yield job
    finally:
        _current.reset(token)


def request_named(name: str) -> PrecisionRequest:
    """Return the request for ``cast='fp16'``; raise UsageError for an unknown name."""
    if name.lower() not in _FLOAT_TYPES:
        raise UsageError(
            f"cast={name!r} is unknown.", hint=f"Available: {', '.join(sorted(_FLOAT_TYPES))}."
        )
    return PrecisionRequest(floats=_FLOAT_TYPES[name.lower()])


def cast_model(model: Any, job: CastJob) -> Any:
    """Return a copy of an `onnx.ModelProto`, cast as requested.

    Raises:
        BackendError: no installed package can cast or quantize models.
        ModelError: the model cannot be cast or quantized.
        UsageError: quantization needs data for value ranges, and there are none.
    """
    named = select_nodes(model, sorted(job.layer_precisions))
    for name in named.unknown:
        warn_of_unknown_layer(name, named.known)
        del job.layer_precisions[name]
    precisions = job.layer_precisions
    quantized = job.request.quantized or next(iter(job.narrow_types(floats=False)), None)
    if quantized is not None:
        keeps = {name for name, dtype in precisions.items() if dtype != quantized}
        only = None if job.request.quantized else set(precisions) - keeps
        model = _quantize_once(model, job, quantized, _nodes_to_keep(model, keeps, only))
    floats = job.request.floats or next(iter(job.narrow_types(floats=True)), None)
    if floats is not None:
        keeps = {name for name, dtype in precisions.items() if dtype == DataType.FLOAT32}
        only = {name for name, dtype in precisions.items() if dtype == floats}
        nodes = _nodes_to_keep(model, keeps, None if job.request.floats else only)
        model = _cast(model, floats, nodes)
    job.is_done = True
    return model


def warn_of_unknown_layer(name: str, known_names: Iterable[str]) -> None:
    """Log that a precision was requested for a layer that does not exist.
    See `SetLayerPrecisions`."""
    G_LOGGER.warning(f"A precision has no effect: {UnknownNameError('Layer', name, known_names)}")


def _nodes_to_keep(model: Any, keeps: set[str], only: set[str] | None) -> Collection[str]:
    """Return the names of the nodes to leave unchanged.

    Args:
        model: the model with the nodes.
        keeps: names of layers to keep.
        only: names of the only layers to change; None for all others.
    """
    chosen = select_nodes(model, sorted(keeps)).chosen
    return chosen if only is None else chosen | select_nodes(model, sorted(only)).others


def _quantize_once(
    model: Any, job: CastJob, dtype: DataTypeEntry, keep_nodes: Collection[str]
) -> Any:
    """Return a quantized model; an already quantized one is unchanged."""
    if not is_quantized(model):
        calibration = (
            job.calibration if job.request.calibration is None else job.request.calibration
        )
        quantize_model = _quantize_model(model, calibration, dtype, keep_nodes)
        _warn_about_others(
            quantize_model,
            {
                name
                for name, layer_precision in job.layer_precisions.items()
                if layer_precision == dtype
            },
        )
        return quantize_model
    message = f"The model has Q/DQ nodes, so it is not quantized to {dtype} again"
    if job.layer_precisions:
        G_LOGGER.warning(f"{message}, and the precisions of its layers are ignored.")
    else:
        G_LOGGER.verbose(f"{message}.")
    return model


def _warn_about_others(model: Any, layers: set[str]) -> None:
    """Log the layers that should be quantized but are of an unsupported type."""
    names = {name for node in model.graph.node if node.op_type in Q_OPS for name in node.output}
    for name in sorted(layers):
        chosen = select_nodes(model, [name]).chosen
        nodes = [node for node in model.graph.node if {node.name, *node.output} & chosen]
        if not any(names.intersection(node.input) for node in nodes):
            kinds = ", ".join(sorted({node.op_type for node in nodes}))
            G_LOGGER.warning(f"Layer {name!r} ({kinds}) cannot be quantized.")


def is_quantized(model: Any) -> bool:
    """Return whether a model has quantization nodes."""
    return any(node.op_type in Q_OPS for node in model.graph.node)


def _cast(model: Any, dtype: DataTypeEntry, keep_nodes: Collection[str]) -> Any:
    """Return a model cast to a data type, and log that."""
    G_LOGGER.info(
        f"Casting the ONNX model to {dtype}: this TensorRT takes data types from the model."
    )
    return cast_precision(model, dtype, keep_nodes=sorted(keep_nodes))


def _quantize_model(
    model: Any, calibration: Any, dtype: DataTypeEntry, keep_nodes: Collection[str]
) -> Any:
    """Return a quantized model, and log that."""
    if not isinstance(calibration, CalibrationData):
        calibration = CalibrationData(getattr(calibration, "data_loader", calibration))
    if calibration.data_loader is None and calibration.cache is None:
        raise UsageError(
            f"Quantizing the model to {dtype} requires data to determine value ranges.",
            hint="Pass a calibrator, or build a model with Q/DQ nodes.",
        )
    G_LOGGER.info(
        f"Quantizing the ONNX model to {dtype}: this TensorRT takes data types from the model."
    )
    return quantize(
        model,
        calibration.data_loader,
        dtype,
        method=calibration.method,
        cache=calibration.cache,
        keep_nodes=sorted(keep_nodes),
    )
