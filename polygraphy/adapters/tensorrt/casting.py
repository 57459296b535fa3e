"""Lower precision where TensorRT takes every type from the model.

TensorRT 11 and TensorRT-RTX build strongly typed networks only: there is no flag that lets the
builder choose fp16. What such a flag asked for is done to the ONNX model instead, in front of the
parser. The wish travels in a context variable, so that a chain of loaders of whatever length -
`ModifyNetworkOutputs`, a user's ``func.extend`` - need not know: the loader that parses the model
finds it, and the others do to the new network what they do to any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attrs import define, field, frozen

from polygraphy.adapters.tensorrt.calibrator import CalibrationData
from polygraphy.adapters.tensorrt.node_names import select_nodes
from polygraphy.domain.datatype import DataType, DataTypeEntry
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import Unbound, resolve
from polygraphy.ports.precision import PrecisionCaster, Quantizer

__all__ = ["Casting", "PrecisionWish", "cast_model", "casting", "current_casting", "wish_named"]

_FLOAT_TYPES = {"fp16": DataType.FLOAT16, "bf16": DataType.BFLOAT16}
_Q_OPS = {"QuantizeLinear", "DynamicQuantizeLinear", "DequantizeLinear"}


@frozen
class PrecisionWish:
    """The precision in which a network should compute.

    Attributes:
        floats: what floating-point tensors become; None to leave them as they are.
        quantized: what is quantised to; None for nothing.
        calibration: feed dictionaries for that, or a calibrator that has them as `data_loader`.
    """

    floats: DataTypeEntry | None = None
    quantized: DataTypeEntry | None = None
    calibration: Any = field(default=None, eq=False)

    def __bool__(self) -> bool:
        return self.floats is not None or self.quantized is not None

    def __str__(self) -> str:
        return " and ".join(str(dtype) for dtype in (self.quantized, self.floats) if dtype)


@define
class Casting:
    """A cast that is under way.

    Attributes:
        wish: what is asked for.
        builder: the builder that new networks come from; None for one of their own.
        keep_nodes: names of layers whose nodes stay as they are; see `node_names`.
        only_nodes: names of layers whose nodes are the only ones that are cast; None for all.
        is_done: whether a model was cast.
        unknown: which of these names no node goes by.
        known: the names that nodes go by.
    """

    wish: PrecisionWish
    builder: Any = None
    keep_nodes: set[str] = field(factory=set)
    only_nodes: set[str] | None = None
    is_done: bool = False
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


_current: ContextVar[Casting | None] = ContextVar("casting", default=None)


def current_casting() -> Casting | None:
    """Return the cast that is under way; None if there is none."""
    return _current.get()


@contextmanager
def casting(wish: PrecisionWish, builder: Any = None) -> Iterator[Casting]:
    """Have every model that is parsed inside the block cast first."""
    made = Casting(wish, builder)
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


def wish_named(name: str) -> PrecisionWish:
    """Return what ``cast='fp16'`` means; UsageError for a name that means nothing."""
    if name.lower() not in _FLOAT_TYPES:
        raise UsageError(
            f"cast={name!r} is not known.", hint=f"There is: {', '.join(sorted(_FLOAT_TYPES))}."
        )
    return PrecisionWish(floats=_FLOAT_TYPES[name.lower()])


def cast_model(model: Any, job: Casting) -> Any:
    """Return another `onnx.ModelProto`, which computes as was asked for.

    Raises:
        BackendError: nothing installed here can cast or quantise models.
        ModelError: the model cannot be.
        UsageError: it would have to be quantised, but there are no data to take ranges from.
    """
    wish = job.wish
    if wish.quantized is not None and not _is_quantized(model):
        model = _quantized(model, wish, wish.quantized)
    if wish.floats is not None:
        model = _cast(model, wish.floats, _kept_nodes(model, job))
    elif job.keep_nodes:
        G_LOGGER.warning(
            f"Layers {', '.join(sorted(job.keep_nodes))}: they are quantised like the others,"
            " because data types of layers only limit casts."
        )
    job.is_done = True
    return model


def _kept_nodes(model: Any, job: Casting) -> Collection[str]:
    """Return which nodes stay as they are, and note which names nothing goes by."""
    kept = select_nodes(model, sorted(job.keep_nodes))
    job.unknown, job.known = kept.unknown, kept.known
    if job.only_nodes is None:
        return kept.chosen
    only = select_nodes(model, sorted(job.only_nodes))
    job.unknown += only.unknown
    return kept.chosen | only.others


def _is_quantized(model: Any) -> bool:
    return any(node.op_type in _Q_OPS for node in model.graph.node)


def _cast(model: Any, dtype: DataTypeEntry, keep_nodes: Collection[str]) -> Any:
    try:
        caster = resolve(PrecisionCaster)
    except Unbound as error:
        raise BackendError(
            f"Nothing installed here casts ONNX models to {dtype}.",
            backend="tensorrt",
            hint="Export the model in that type.",
        ) from error
    G_LOGGER.info(f"Casting the ONNX model to {dtype}: this TensorRT takes types from the model.")
    return caster.cast(model, dtype, keep_nodes=sorted(keep_nodes))


def _quantized(model: Any, wish: PrecisionWish, dtype: DataTypeEntry) -> Any:
    try:
        quantizer = resolve(Quantizer)
    except Unbound as error:
        raise BackendError(
            f"Nothing installed here quantises ONNX models to {dtype}.",
            backend="tensorrt",
            hint="Quantise the model (Q/DQ nodes), and build that.",
        ) from error
    given = wish.calibration
    if not isinstance(given, CalibrationData):
        given = CalibrationData(getattr(given, "data_loader", given))
    if given.data_loader is None and given.cache is None:
        raise UsageError(
            f"Quantising the model to {dtype} takes data to find value ranges with.",
            hint="Give a calibrator, or build a model that has Q/DQ nodes.",
        )
    G_LOGGER.info(
        f"Quantising the ONNX model to {dtype}: this TensorRT takes types from the model."
    )
    return quantizer.quantize(
        model, given.data_loader, dtype, method=given.method, cache=given.cache
    )
