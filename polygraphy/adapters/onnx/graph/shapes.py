"""Infers data types and shapes of a model's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.graph import sort
from polygraphy.adapters.onnx.graph.growth import check_expansion, has_long_vectors
from polygraphy.adapters.onnx.graph.shape_proofs import (
    Shape,
    confirmed,
    is_made_up,
    shapes_of,
    without_ambiguous_names,
)
from polygraphy.adapters.onnx.graph.value_infos import set_shape
from polygraphy.adapters.onnx.storage.foreign import onnx_errors
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.ownership import makes_new_model, own_model
from polygraphy.adapters.onnx.storage.weights import (
    all_tensors,
    weights_size,
    without_large_weights,
)
from polygraphy.adapters.onnx_common import inference
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.errors import BackendError, MissingDependencyError, ModelError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import infer_symbolic_shapes

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto

__all__ = [
    "InferShapes",
    "add_shapes",
    "has_rank",
    "infer_shapes",
    "inferred_value_infos",
    "is_made_up",
    "value_infos",
]

infer_shapes: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")

_COPIED = 32 << 20  # Bytes of weights from which on copying costs more than leaving them out.


_ENDLESS = 1 << 24


@mod.export(funcify=True)
class InferShapes(BaseLoader):
    """Adds inferred data types and shapes to an ONNX model, as far as they can be known without
    running it.
    """

    makes_new_model = True

    def __init__(
        self,
        model: Deferred[Union[ModelProto, str]],
        error_ok: bool | None = None,
        external_data_dir: str | None = None,
        save_to_disk_threshold_bytes: int | None = None,
        allow_onnxruntime: bool | None = None,
    ) -> None:
        """Set what is inferred, and how.

        Args:
            model: the model, its path, or a loader that makes either.
            error_ok: whether a model that cannot be inferred is passed on as it is, with a
                warning, as it is unless this is False.
            external_data_dir: where the files with the weights are, for a path.
            save_to_disk_threshold_bytes: with weights of at least this many bytes, the large ones
                are not handed to the inference, which would copy them (default: 32 MiB). Nothing
                is saved for that.
            allow_onnxruntime: whether ONNX Runtime's symbolic shape inference is tried, too, which
                takes `sympy` and seconds: True for wherever the onnx package does not find out
                every dimension, False for never (default: where it does not find out the type or
                the rank of a tensor; of dimensions it rarely misses any).
        """
        self._model = model
        self._error_ok = error_ok
        self._external_data_dir = external_data_dir
        self._threshold = save_to_disk_threshold_bytes
        self._allow_onnxruntime = allow_onnxruntime

    def call_impl(self) -> ModelProto:
        """Return the model with its shapes; a given one stays as it is.

        Raises:
            ModelError: shapes contradict each other, and `error_ok` is False.
            FileError: the file, or one with its weights, is missing.
        """
        given: Any = self._model if makes_new_model(self._model) else evaluate(self._model)
        model = (
            OnnxFromPath(given, self._external_data_dir).call_impl()
            if isinstance(given, str)
            else own_model(given)
        )
        add_shapes(
            model,
            error_ok=self._error_ok,
            allow_onnxruntime=self._allow_onnxruntime,
            threshold=self._threshold,
        )
        return model


def add_shapes(
    model: ModelProto,
    *,
    error_ok: bool | None = None,
    allow_onnxruntime: bool | None = None,
    threshold: int | None = None,
) -> None:
    """Add inferred data types and shapes to a model in place; see `InferShapes`.

    Raises:
        ModelError: shapes contradict each other, and `error_ok` is False.
    """
    is_large = weights_size(model) >= (_COPIED if threshold is None else threshold)
    inferred = _inferred(
        without_large_weights(model) if is_large else model,
        error_ok=error_ok is not False,
        allow_onnxruntime=allow_onnxruntime,
    )
    if inferred is not None:
        _take_over(_proven(inferred), model.graph)


def _inferred(
    model: ModelProto, *, error_ok: bool, allow_onnxruntime: bool | None
) -> ModelProto | None:
    """Return the model with shapes. ONNX Runtime infers them in Python, node by node, so it is only
    asked for what the onnx package does not find out.
    """
    made: ModelProto | None = None
    problem: ModelError | None = None
    model = without_ambiguous_names(model)
    try:
        check_expansion(model)
    except ModelError as error:
        problem, allow_onnxruntime = error, False
    else:
        try:
            made = _inferred_by_onnx(model, strict=not error_ok)
        except ModelError as error:
            problem = error
    knows = _is_known if allow_onnxruntime else has_rank
    if allow_onnxruntime is not False and (made is None or not _knows_all(made.graph, knows)):
        try:
            return _with_symbolic(model, made)
        except MissingDependencyError as error:
            G_LOGGER.verbose(f"Inferring shapes with onnx.shape_inference: {error}")
        except (BackendError, ModelError) as error:
            G_LOGGER.warning(f"{error} Inferring shapes with onnx.shape_inference instead.")
    if problem is not None:
        if not error_ok:
            raise problem
        G_LOGGER.warning(f"{problem} Going on without.")
    return made


def _knows_all(graph: GraphProto, is_known: Callable[[ValueInfoProto], bool]) -> bool:
    """Return whether enough is known of everything that the nodes of a graph make."""
    known = {
        value.name
        for values in (graph.value_info, graph.output)
        for value in values
        if is_known(value)
    }
    return all(name in known for node in graph.node for name in node.output if name)


def has_rank(value: ValueInfoProto) -> bool:
    """Return whether the type and the rank of a tensor are known; of no tensor there is none."""
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return True
    tensor = value.type.tensor_type
    return bool(tensor.elem_type) and tensor.HasField("shape")


def _is_known(value: ValueInfoProto) -> bool:
    """Return whether every dimension of a tensor is a number, or a name that the model itself has
    for one.
    """
    return (
        value.type.WhichOneof("value") == "tensor_type"
        and has_rank(value)
        and all(
            dim.HasField("dim_value") or (dim.dim_param and not is_made_up(dim.dim_param))
            for dim in value.type.tensor_type.shape.dim
        )
    )


def _inferred_by_onnx(model: ModelProto, *, strict: bool) -> ModelProto:
    check_expansion(model)
    # What is known of tensors lies deeper than they do, and may be too deep for protobuf.
    with onnx_errors("The shapes of the model cannot be inferred"):
        return inference.infer_shapes(
            model, strict_mode=strict, data_prop=not has_endless_vectors(model)
        )


def _inferred_symbolically(model: ModelProto) -> ModelProto:
    """Ask ONNX Runtime, which goes through all nodes once for each one that is out of order."""
    check_expansion(model)
    if has_long_vectors(model):
        raise ModelError("The model computes longer lists than any shape is.")
    seen = inference.hidden(model)
    ordered: ModelProto = copy_of(model) if seen is model else seen
    sort(ordered.graph)
    inferred: ModelProto = infer_symbolic_shapes(ordered)
    inference.restore(inferred)
    return inferred


def _with_symbolic(model: ModelProto, inferred: ModelProto | None) -> ModelProto:
    """Return a model with what the onnx package inferred, None for nothing, and what else ONNX
    Runtime did and is sure: data types, ranks, and dimensions that `confirmed` confirms.
    """
    symbolic = value_infos(_inferred_symbolically(model))
    if inferred is None:
        inferred = copy_of(model)
    known = shapes_of(value_infos(inferred))
    new: dict[str, Shape] = {}
    for name, shape in shapes_of(symbolic).items():
        old = known.get(name, (None,) * len(shape))
        if len(old) == len(shape):
            new[name] = tuple(
                None if isinstance(before, int) else dim for before, dim in zip(old, shape)
            )
    if any(isinstance(dim, int) for shape in new.values() for dim in shape):
        new = confirmed(model, new, _inferred_leniently)
    for name, shape in new.items():
        set_shape(symbolic[name], [dim if isinstance(dim, int) else None for dim in shape])
    _take_over(symbolic, inferred.graph)
    return inferred


def _inferred_leniently(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return what the onnx package infers; nothing where it gives up."""
    try:
        return _proven(_inferred_by_onnx(model, strict=False))
    except ModelError as error:
        G_LOGGER.verbose(str(error))
        return {}


def has_endless_vectors(model: ModelProto) -> bool:
    """Return whether a constant claims to be a vector of more elements than any shape has
    dimensions: the package would make a dimension of each, whether they are there or not.
    """
    if any(len(tensor.dims) == 1 and tensor.dims[0] > _ENDLESS for tensor in all_tensors(model)):
        return True
    return has_long_vectors(model)


def value_infos(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return what the graph itself says about the types of its tensors, by name."""
    graph = model.graph
    return {
        value.name: value
        for values in (graph.value_info, graph.input, graph.output)
        for value in values
        if value.type.WhichOneof("value") is not None
    }


def inferred_value_infos(
    model: ModelProto, *, symbolic: bool = False, keeps_names: bool = False
) -> dict[str, ValueInfoProto]:
    """Return what can be inferred about the types of the graph's tensors; the model stays as it
    is.

    Args:
        model: the model.
        symbolic: whether ONNX Runtime's symbolic shape inference is asked first, if it is there.
        keeps_names: whether names that inference invented are left in, for who writes none down.
    """
    state = value_infos if keeps_names else _proven
    seen = without_large_weights(model) if weights_size(model) >= _COPIED else model
    seen = without_ambiguous_names(seen)
    if symbolic:
        try:
            made: ModelProto | None = _inferred_by_onnx(seen, strict=False)
        except ModelError:
            made = None
        try:
            return state(_with_symbolic(seen, made))
        except (MissingDependencyError, BackendError, ModelError) as error:
            G_LOGGER.verbose(str(error))
    try:
        return state(_inferred_by_onnx(seen, strict=False))
    except ModelError as error:
        G_LOGGER.verbose(str(error))
        return {}


def _take_over(found: Mapping[str, ValueInfoProto], target: GraphProto) -> None:
    """Let a graph say of its tensors what was found out about their types."""
    described = {value.name for value in target.output}
    for value in (*target.value_info, *target.output):
        described.add(value.name)
        if value.name in found and value.type != found[value.name].type:
            _refine(value.type, found[value.name].type)
    described.update(value.name for value in target.input)
    target.value_info.extend(value for name, value in found.items() if name not in described)


def _proven(inferred: ModelProto) -> dict[str, ValueInfoProto]:
    """Return what is known of the tensors of a model without names that inference invented."""
    found = value_infos(inferred)
    for value in found.values():
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                if is_made_up(dim.dim_param):
                    dim.ClearField("dim_param")
    return found


def _refine(kind: TypeProto, found: TypeProto) -> None:
    """Add to a type what was found out. Of each dimension, a number that was found counts most, and
    what the model itself says more than a name that was.
    """
    if kind.WhichOneof("value") is None:
        kind.MergeFrom(found)
    if {kind.WhichOneof("value"), found.WhichOneof("value")} != {"tensor_type"}:
        return
    tensor, inferred = kind.tensor_type, found.tensor_type
    tensor.elem_type = inferred.elem_type or tensor.elem_type
    if not inferred.HasField("shape"):
        return
    if not tensor.HasField("shape") or len(tensor.shape.dim) != len(inferred.shape.dim):
        tensor.shape.CopyFrom(inferred.shape)
        return
    for dim, better in zip(tensor.shape.dim, inferred.shape.dim):
        if better.HasField("dim_value"):
            dim.dim_value = better.dim_value
        elif better.dim_param and dim.WhichOneof("value") is None:
            dim.dim_param = better.dim_param
