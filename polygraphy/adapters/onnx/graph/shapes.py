"""Infers data types and shapes of a model's tensors.

The shapes that may be declared in a model: those that hold for every input.

Names of dimensions are equations: dimensions with the same name have the same length, and backends
share memory because of that. So only names from the model are used, without ambiguous ones (``?``).
ONNX Runtime's symbolic inference assumes too much, for example that broadcast dimensions are equal,
or that a slice has its full length. So its numbers are only used if they also follow with numbers
as dimensions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.graph.declared_types import correct_declared_types
from polygraphy.adapters.onnx.graph.graph import sort
from polygraphy.adapters.onnx.graph.growth import check_expansion, has_long_vectors
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx.storage.parsing import decode_texts, translate_onnx_errors
from polygraphy.adapters.onnx.storage.weights import (
    OnnxDataTypes,
    all_tensors,
    makes_new_model,
    own_model,
    weights_size,
    without_large_weights,
)
from polygraphy.adapters.onnx_common import inference
from polygraphy.adapters.onnx_common.messages import copy_of, inputs_of
from polygraphy.adapters.onnx_common.messages import shape_of as dims_of
from polygraphy.domain.errors import (
    BackendError,
    DataTypeConversionException,
    MissingDependencyError,
    ModelError,
)
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.shapes import Shape, is_dynamic_dim
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import infer_symbolic_shapes

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_TYPES = OnnxDataTypes()


def describe_value(value: ValueInfoProto | None) -> MetadataTuple:
    """Return the data type and the shape of a tensor; None for unknown parts."""
    if value is None or value.type.WhichOneof("value") != "tensor_type":
        return MetadataTuple(None, None)
    return MetadataTuple(_TYPES.from_native(value.type.tensor_type.elem_type), shape_of(value))


def shape_of(value: ValueInfoProto) -> list[Any] | None:
    """Return the shape of a tensor, None for unknown dimensions, or for an unknown rank."""
    return dims_of(value.type.tensor_type)


def input_metadata(model: ModelProto) -> TensorMetadata:
    """Return names, data types and shapes of the inputs of a model,
    without the initializers that older models list there.
    """
    metadata = TensorMetadata()
    for value in inputs_of(model.graph):
        metadata[value.name] = describe_value(value)
    return metadata


def value_info(name: str, meta: MetadataTuple) -> ValueInfoProto:
    """Return the declaration of a tensor for a graph."""
    value: ValueInfoProto = onnx.ValueInfoProto(name=name)
    if meta.dtype is not None:
        number = _TYPES.to_native(meta.dtype)
        if number is None:
            raise DataTypeConversionException(f"ONNX has no data type {meta.dtype}.")
        value.type.tensor_type.elem_type = number
    if meta.shape is not None:
        set_shape(value, meta.shape)
    return value


def set_known(value: ValueInfoProto, meta: MetadataTuple) -> None:
    """Set the known data type and shape of a tensor, and keep all its other properties."""
    info = value_info(value.name, meta)
    if meta.dtype is not None:
        value.type.tensor_type.elem_type = info.type.tensor_type.elem_type
    if meta.shape is not None and shape_of(value) != shape_of(info):
        set_shape(value, meta.shape)


def set_input_shapes(graph: GraphProto, shapes: Mapping[str, Shape]) -> None:
    """Set the shapes of the named inputs of a graph; values that are not tensors are kept."""
    for value in graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            set_shape(value, shapes[value.name])


def set_shape(value: ValueInfoProto, shape: Shape) -> None:
    """Set the shape of a tensor; a negative dimension, or None, is dynamic.
    If the rank is unchanged, dimensions keep their denotations.
    """
    meanings = [dim.denotation for dim in value.type.tensor_type.shape.dim]
    value.type.tensor_type.ClearField("shape")
    value.type.tensor_type.shape.SetInParent()
    for dim in shape:
        dimension = value.type.tensor_type.shape.dim.add()
        if isinstance(dim, str):
            dimension.dim_param = dim
        elif not is_dynamic_dim(dim):
            dimension.dim_value = int(dim or 0)
    if len(meanings) == len(shape):
        for dimension, meaning in zip(value.type.tensor_type.shape.dim, meanings):
            if meaning:
                dimension.denotation = meaning


KnownShape = tuple["int | str | None", ...]

_SAMPLES: tuple[Callable[[int], int], ...] = (
    lambda _: 1,
    lambda _: 2,
    lambda index: (3, 5, 7, 11, 13)[index % 5],
    lambda _: 32,
    lambda index: 32 * (index + 2),
)
"""Lengths of the dimensions of inputs, by number, that are tried instead of names."""
_LEAST_SAMPLES = 2
"""Number of input lengths that must lead to the same result; models do not accept every length."""


def is_made_up(dim: Any) -> bool:
    """Return whether a dimension name was invented by shape inference."""
    return isinstance(dim, str) and dim.startswith("unk__")


def values_of(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """Yield the declared tensors of a graph."""
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def _dims(value: ValueInfoProto) -> Any:
    """Return the dimensions of a tensor; empty for other values."""
    return value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()


def shapes_of(values: Mapping[str, ValueInfoProto]) -> dict[str, KnownShape]:
    """Return the shapes of tensors with a declared rank."""
    return {
        name: tuple(
            dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
            for dim in _dims(value)
        )
        for name, value in values.items()
        if value.type.tensor_type.HasField("shape")
    }


def _ambiguous_names(graph: GraphProto) -> set[str]:
    """Return the dimension names that may stand for different lengths: names without letters, names
    invented by inference, or used twice in one input.

    Raises:
        ModelError: a name is not UTF-8.
    """
    ambiguous: set[str] = set()
    for value in values_of(graph):
        names = decode_texts(dim.dim_param for dim in _dims(value))
        ambiguous.update(
            name for name in names if is_made_up(name) or not any(map(str.isalpha, name))
        )
    for value in graph.input:
        counts = Counter(dim.dim_param for dim in _dims(value))
        ambiguous.update(name for name, count in counts.items() if count > 1)
    return ambiguous - {""}


def without_ambiguous_names(model: ModelProto) -> ModelProto:
    """Return a model without ambiguous dimension names: the model itself if it has none,
    else a copy.
    """
    names = _ambiguous_names(model.graph)
    if not names:
        return model
    copied: ModelProto = copy_of(model)
    for value in values_of(copied.graph):
        for dim in _dims(value):
            if dim.dim_param in names:
                dim.ClearField("dim_param")
    return copied


def confirm_shapes(
    model: ModelProto,
    shapes: Mapping[str, KnownShape],
    infer: Callable[[ModelProto], Mapping[str, ValueInfoProto]],
) -> dict[str, KnownShape]:
    """Return shapes with the numbers that are also inferred for other lengths of the inputs'
    dimensions; None for all other dimensions.

    Args:
        model: the model, whose inputs have at least one dimension that is not a number.
        shapes: the shapes that were inferred in a different way.
        infer: infers the shapes of a model.
    """
    agreed: dict[tuple[str, int], int] = {}
    refuted: set[tuple[str, int]] = set()
    for sample in _SAMPLES:
        trial_shapes = shapes_of(infer(_bind_dimensions(model, sample)))
        for name, shape in shapes.items():
            sampled = trial_shapes.get(name, ())
            for axis, dim in enumerate(shape):
                if isinstance(dim, int) and len(sampled) == len(shape):
                    if isinstance(sampled[axis], int) and sampled[axis] != dim:
                        refuted.add((name, axis))
                    elif sampled[axis] == dim:
                        agreed[name, axis] = agreed.get((name, axis), 0) + 1
    proven = {dimension for dimension, count in agreed.items() if count >= _LEAST_SAMPLES} - refuted
    return {
        name: tuple(dim if (name, axis) in proven else None for axis, dim in enumerate(shape))
        for name, shape in shapes.items()
    }


def _bind_dimensions(model: ModelProto, length: Callable[[int], int]) -> ModelProto:
    """Return a copy whose inputs have lengths instead of dimension names, without other names."""
    bound: ModelProto = copy_of(model)
    lengths: dict[str, int] = {}
    count = 0
    for value in bound.graph.input:
        for dim in _dims(value):
            if not dim.HasField("dim_value"):
                number = lengths.get(dim.dim_param, count)
                if dim.dim_param:
                    lengths[dim.dim_param] = number
                count = max(count, number + 1)
                dim.dim_value = length(number)
    for value in (*bound.graph.value_info, *bound.graph.output):
        for dim in _dims(value):
            dim.ClearField("dim_param")
    return bound


__all__ = [
    "InferShapes",
    "add_shapes",
    "has_rank",
    "infer_shapes",
    "infer_value_infos",
    "is_made_up",
    "value_infos",
]

infer_shapes: Callable[..., ModelProto]


_COPIED = 32 << 20  # Size in bytes above which copying takes longer than omitting weights.


_ENDLESS = 1 << 24


@mod.export(funcify=True)
class InferShapes(BaseLoader):
    """Adds inferred data types and shapes to an ONNX model."""

    makes_new_model = True

    def __init__(
        self,
        model: Deferred[Union[ModelProto, str]],
        error_ok: bool | None = None,
        external_data_dir: str | None = None,
        save_to_disk_threshold_bytes: int | None = None,
        allow_onnxruntime: bool | None = None,
    ) -> None:
        """Set the model, and the method of inference.

        Args:
            model: the model, its path, or a loader that returns either.
            error_ok: whether a failed inference is only a warning, and the model is returned
                unchanged (default: True).
            external_data_dir: the folder of the weight files, for a path.
            save_to_disk_threshold_bytes: if the weights have at least this many bytes, large ones
                are not passed to the inference, which would copy them (default: 32 MiB). Nothing is
                saved to disk.
            allow_onnxruntime: whether ONNX Runtime's symbolic shape inference also runs, which
                needs `sympy` and takes seconds: True if the onnx package leaves any dimension
                unknown, False for never (default: if it leaves a type or rank unknown).
        """
        self._model = model
        self._error_ok = error_ok
        self._external_data_dir = external_data_dir
        self._threshold = save_to_disk_threshold_bytes
        self._allow_onnxruntime = allow_onnxruntime

    def call_impl(self) -> ModelProto:
        """Return a model with inferred shapes; the input model is not changed.

        Raises:
            ModelError: shapes contradict each other, and `error_ok` is False.
            FileError: the file, or one with its weights, is missing.
        """
        source_model: Any = self._model if makes_new_model(self._model) else evaluate(self._model)
        model = (
            OnnxFromPath(source_model, self._external_data_dir).call_impl()
            if isinstance(source_model, str)
            else own_model(source_model)
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
    correct_declared_types(model)
    is_large = weights_size(model) >= (_COPIED if threshold is None else threshold)
    inferred = _infer_model(
        without_large_weights(model) if is_large else model,
        error_ok=error_ok is not False,
        allow_onnxruntime=allow_onnxruntime,
    )
    if inferred is not None:
        _take_over(_certain_types(inferred), model.graph)


def _infer_model(
    model: ModelProto, *, error_ok: bool, allow_onnxruntime: bool | None
) -> ModelProto | None:
    """Return the model with shapes; None if inference failed and `error_ok` is set."""
    new_model: ModelProto | None = None
    problem: ModelError | None = None
    model = without_ambiguous_names(model)
    try:
        check_expansion(model)
    except ModelError as error:
        problem, allow_onnxruntime = error, False
    else:
        try:
            new_model = _infer_by_onnx(model, strict=not error_ok)
        except ModelError as error:
            problem = error
    knows = _is_known if allow_onnxruntime else has_rank
    if allow_onnxruntime is not False and (
        new_model is None or not _knows_all(new_model.graph, knows)
    ):
        try:
            return _with_symbolic(model, new_model)
        except MissingDependencyError as error:
            G_LOGGER.verbose(f"Inferring shapes with onnx.shape_inference: {error}")
        except (BackendError, ModelError) as error:
            G_LOGGER.warning(f"{error} Inferring shapes with onnx.shape_inference instead.")
    if problem is not None:
        if not error_ok:
            raise problem
        G_LOGGER.warning(f"{problem} Continuing without it.")
    return new_model


def _knows_all(graph: GraphProto, is_known: Callable[[ValueInfoProto], bool]) -> bool:
    """Return whether `is_known` holds for the results of all nodes of a graph."""
    names = {
        value.name
        for values in (graph.value_info, graph.output)
        for value in values
        if is_known(value)
    }
    return all(name in names for node in graph.node for name in node.output if name)


def has_rank(value: ValueInfoProto) -> bool:
    """Return whether the type and the rank of a tensor are known.
    The result is True for values that are not tensors.
    """
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return True
    tensor = value.type.tensor_type
    return bool(tensor.elem_type) and tensor.HasField("shape")


def _is_known(value: ValueInfoProto) -> bool:
    """Return whether every dimension of a tensor is a number, or a name from the model itself."""
    return (
        value.type.WhichOneof("value") == "tensor_type"
        and has_rank(value)
        and all(
            dim.HasField("dim_value") or (dim.dim_param and not is_made_up(dim.dim_param))
            for dim in value.type.tensor_type.shape.dim
        )
    )


def _infer_by_onnx(model: ModelProto, *, strict: bool) -> ModelProto:
    """Return a model with the shapes that the onnx package infers."""
    check_expansion(model)
    # Types of tensors are nested more deeply than tensors, and can exceed protobuf's limit.
    with translate_onnx_errors("The shapes of the model cannot be inferred"):
        return inference.infer_shapes(
            model, strict_mode=strict, data_prop=not has_endless_vectors(model)
        )


def _infer_symbolically(model: ModelProto) -> ModelProto:
    """Return a model with the shapes that ONNX Runtime infers,
    which visits all nodes once for each one that is out of order.
    """
    check_expansion(model)
    if has_long_vectors(model):
        raise ModelError("The model computes lists that are too long to be shapes.")
    crashing_nodes = inference.hide_crashing_nodes(model)
    ordered: ModelProto = copy_of(model) if crashing_nodes is model else crashing_nodes
    sort(ordered.graph)
    inferred: ModelProto = infer_symbolic_shapes(ordered)
    inference.restore_nodes(inferred)
    return inferred


def _with_symbolic(model: ModelProto, inferred: ModelProto | None) -> ModelProto:
    """Return a model with the shapes from the onnx package (None for none), and those from ONNX
    Runtime that are certain: data types, ranks, and dimensions that `confirm_shapes` confirms.
    """
    symbolic = value_infos(_infer_symbolically(model))
    if inferred is None:
        inferred = copy_of(model)
    shapes = shapes_of(value_infos(inferred))
    new: dict[str, KnownShape] = {}
    for name, shape in shapes_of(symbolic).items():
        old = shapes.get(name, (None,) * len(shape))
        if len(old) == len(shape):
            new[name] = tuple(
                None if isinstance(before, int) else dim for before, dim in zip(old, shape)
            )
    if any(isinstance(dim, int) for shape in new.values() for dim in shape):
        new = confirm_shapes(model, new, _infer_leniently)
    for name, shape in new.items():
        set_shape(symbolic[name], [dim if isinstance(dim, int) else None for dim in shape])
    _take_over(symbolic, inferred.graph)
    return inferred


def _infer_leniently(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return the types that the onnx package infers, by name; empty if it fails."""
    try:
        return _certain_types(_infer_by_onnx(model, strict=False))
    except ModelError as error:
        G_LOGGER.verbose(str(error))
        return {}


def has_endless_vectors(model: ModelProto) -> bool:
    """Return whether a constant claims to be a vector with more elements than any shape has:
    the package would turn each one into a dimension, even if it does not exist.
    """
    if any(len(tensor.dims) == 1 and tensor.dims[0] > _ENDLESS for tensor in all_tensors(model)):
        return True
    return has_long_vectors(model)


def value_infos(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return the declared types of the tensors of a graph, by name."""
    graph = model.graph
    return {
        value.name: value
        for values in (graph.value_info, graph.input, graph.output)
        for value in values
        if value.type.WhichOneof("value") is not None
    }


def infer_value_infos(
    model: ModelProto, *, symbolic: bool = False, keeps_names: bool = False
) -> dict[str, ValueInfoProto]:
    """Return the inferred types of the graph's tensors; the model is not changed.

    Args:
        model: the model.
        symbolic: whether ONNX Runtime's symbolic shape inference is tried first, if installed.
        keeps_names: whether names that inference invented are kept, for callers that save none.
    """
    state = value_infos if keeps_names else _certain_types
    light = without_large_weights(model) if weights_size(model) >= _COPIED else model
    light = without_ambiguous_names(light)
    if symbolic:
        try:
            infos: ModelProto | None = _infer_by_onnx(light, strict=False)
        except ModelError:
            infos = None
        try:
            return state(_with_symbolic(light, infos))
        except (MissingDependencyError, BackendError, ModelError) as error:
            G_LOGGER.verbose(str(error))
    try:
        return state(_infer_by_onnx(light, strict=False))
    except ModelError as error:
        G_LOGGER.verbose(str(error))
        return {}


def _take_over(infos: Mapping[str, ValueInfoProto], target: GraphProto) -> None:
    """Set the declared types of a graph to the inferred ones."""
    described = {value.name for value in target.output}
    for value in (*target.value_info, *target.output):
        described.add(value.name)
        if value.name in infos and value.type != infos[value.name].type:
            _refine_type(value.type, infos[value.name].type)
    described.update(value.name for value in target.input)
    target.value_info.extend(value for name, value in infos.items() if name not in described)


def _certain_types(inferred: ModelProto) -> dict[str, ValueInfoProto]:
    """Return the types of the tensors of a model without dimension names that inference
    invented."""
    proven = value_infos(inferred)
    for value in proven.values():
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                if is_made_up(dim.dim_param):
                    dim.ClearField("dim_param")
    return proven


def _refine_type(kind: TypeProto, type_proto: TypeProto) -> None:
    """Add an inferred type to a declared one.
    An inferred number wins over a declared name, and a declared name over an inferred one.
    """
    if kind.WhichOneof("value") is None:
        kind.MergeFrom(type_proto)
    if {kind.WhichOneof("value"), type_proto.WhichOneof("value")} != {"tensor_type"}:
        return
    tensor, inferred = kind.tensor_type, type_proto.tensor_type
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
