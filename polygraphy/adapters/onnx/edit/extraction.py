"""Cuts a part out of an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.edit.outputs import observe_metadata
from polygraphy.adapters.onnx.graph.editing import edit_model, translate_model_faults
from polygraphy.adapters.onnx.graph.graph import (
    delete_where,
    dependencies_of,
    drop_unused,
    names_in_use,
    unique_name,
)
from polygraphy.adapters.onnx.graph.graphsurgeon import as_onnx, convert_like
from polygraphy.adapters.onnx.graph.open_model import OpenModel
from polygraphy.adapters.onnx.graph.shapes import (
    describe_value,
    input_metadata,
    is_made_up,
    set_known,
    value_info,
)
from polygraphy.adapters.onnx.storage.weights import makes_new_model, own_model
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import copy_of, refuse_inner_name, weight_names
from polygraphy.domain.errors import BackendError, InputError, UnknownNameError, UsageError
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.naming import match_name
from polygraphy.domain.tensors.shapes import is_shape_dynamic
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


extract_subgraph: Callable[..., Any]

onnx = mod.lazy_import("onnx")

_NO_TENSOR = "no tensor"


@mod.export(funcify=True)
class ExtractSubgraph(BaseLoader):
    """Extracts the part of an ONNX model between some tensors."""

    makes_new_model = True

    def __init__(
        self,
        model: Deferred[Any],
        input_metadata: TensorMetadata | None = None,
        output_metadata: TensorMetadata | None = None,
        check_meta: bool | None = None,
    ) -> None:
        """Set the model and the tensors at which to cut.

        Args:
            model: the model, as an `onnx.ModelProto` or an `onnx_graphsurgeon.Graph`, or a loader
                that returns it.
            input_metadata: the tensors that become inputs, in order, with data types and shapes;
                None is replaced by the type or shape in the model (default: the inputs of the
                model).
            output_metadata: the tensors that become outputs; shapes may be omitted.
            check_meta: whether data types and shapes of inputs, and data types of outputs, must be
                known (default: True).
        """
        self._model = model
        self._inputs = input_metadata
        self._outputs = output_metadata
        self._check = check_meta is not False

    def call_impl(self) -> Any:
        """Return the extracted part, as the same type of graph as the original, which is unchanged.

        Raises:
            UnknownNameError: the model has no tensor of a name.
            UsageError: an output depends on an input of the model that is not among the inputs, or
                a data type or shape is unknown.
        """
        impl = evaluate_model(self._model)
        model = as_onnx(impl)
        if model is impl and not makes_new_model(self._model):
            model = own_model(impl)
        with translate_model_faults(model):
            metadata = complete_metadata(model, self._inputs, self._outputs)
            if self._check and (missing := incomplete_tensors(*metadata)):
                raise UsageError(
                    f"Missing shapes or data types of {', '.join(map(repr, missing))}: an input"
                    " needs both, an output a data type.",
                    hint="Set them, as in name:[1,3]:float32.",
                )
            cut_in_place(model, *metadata)
        return convert_like(impl, model)


def cut_in_place(model: ModelProto, inputs: TensorMetadata, outputs: TensorMetadata) -> None:
    """Reduce a model to the part between the inputs and outputs."""
    graph = model.graph
    needed, used = _nodes_between(graph, inputs, outputs)
    opened = OpenModel(model)
    names = [
        name
        for metadata in (inputs, outputs)
        for name in metadata
        if _is_not_a_tensor(metadata[name])
    ]
    is_stated = opened.declared_types.keys() >= set(names)
    types = opened.declared_types if is_stated else opened.types
    positions = iter(range(len(graph.node)))
    delete_where(graph.node, lambda _: next(positions) not in needed)
    delete_where(graph.initializer, lambda tensor: tensor.name in inputs)
    fixed = [
        value for value in graph.input if model.ir_version < 4 and value.name in used
    ]  # Old versions of the format list weights as inputs.
    for values, wanted in ((graph.input, inputs), (graph.output, outputs)):
        tensors = [_describe_tensor(name, meta, types.get(name)) for name, meta in wanted.items()]
        if values is graph.input:
            tensors += [copy_of(value) for value in fixed if value.name not in wanted]
        del values[:]
        values.extend(tensors)
    _hide_outputs(graph, inputs)
    drop_unused(graph, used)
    border = {*inputs, *outputs}
    delete_where(graph.value_info, lambda value: value.name in border)


def complete_metadata(
    model: ModelProto,
    inputs: Mapping[str, MetadataTuple] | None,
    outputs: Mapping[str, MetadataTuple] | None,
) -> tuple[TensorMetadata, TensorMetadata]:
    """Return the metadata of the new inputs, and those of the new outputs.

    Data types and shapes are the given ones, else the declared ones, else the inferred ones.

    Raises:
        UnknownNameError: the model has no tensor of a name.
        UsageError: there is no output, or a data type contradicts the model.
    """
    if inputs is None:
        inputs = input_metadata(model)
    if outputs is None:
        outputs = {value.name: describe_value(value) for value in model.graph.output}
    inputs, outputs = _match_known_names(model, [inputs, outputs])
    opened = OpenModel(model)
    full = _merge_metadata(inputs, opened.declared_types), _merge_metadata(
        outputs, opened.declared_types
    )
    if incomplete_tensors(*full, with_rank=True):
        full = _merge_metadata(inputs, opened.types), _merge_metadata(outputs, opened.types)
    return full


def _merge_metadata(
    wanted: Mapping[str, MetadataTuple], types: Mapping[str, ValueInfoProto]
) -> TensorMetadata:
    """Return requested tensors with missing data types and shapes taken from the model."""
    merged = TensorMetadata()
    for name, meta in wanted.items():
        value = describe_value(types.get(name))
        if None not in (meta.dtype, value.dtype) and meta.dtype != value.dtype:
            raise UsageError(
                f"Tensor {name!r} is of data type {value.dtype}, not {meta.dtype}.",
                hint="Omit the data type: the model declares it.",
            )
        shape = meta.shape
        if shape is None and value.shape is not None:
            shape = [None if is_made_up(dim) else dim for dim in value.shape]
        merged[name] = MetadataTuple(value.dtype if meta.dtype is None else meta.dtype, shape)
        if name in types and types[name].type.WhichOneof("value") != "tensor_type":
            merged[name].docstring = _NO_TENSOR
    return merged


def _is_not_a_tensor(meta: MetadataTuple) -> bool:
    """Return whether a value is a sequence, a map or an optional."""
    return meta.docstring == _NO_TENSOR


def incomplete_tensors(
    inputs: Mapping[str, MetadataTuple],
    outputs: Mapping[str, MetadataTuple],
    *,
    with_rank: bool = False,
) -> list[str]:
    """Return the names of tensors with insufficiently known data type or shape.

    Args:
        inputs: the tensors that become inputs.
        outputs: the tensors that become outputs.
        with_rank: whether the rank of outputs must also be known.
    """

    def is_incomplete(meta: MetadataTuple, *, shape: bool) -> bool:
        """Return whether the data type, or the shape if it is required, is unknown."""
        if _is_not_a_tensor(meta):
            return False
        return meta.dtype is None or (shape and meta.shape is None)

    missing = [name for name, meta in inputs.items() if is_incomplete(meta, shape=True)]
    missing += [name for name, meta in outputs.items() if is_incomplete(meta, shape=with_rank)]
    return list(dict.fromkeys(missing))


def _match_known_names(
    model: ModelProto, wanted: list[Mapping[str, MetadataTuple]]
) -> list[dict[str, MetadataTuple]]:
    """Return requested tensors under the names that the graph has for them; see `match_name`."""
    graph = model.graph
    known_names = {value.name for value in graph.input} | {value.name for value in graph.output}
    known_names.update(name for node in graph.node for name in node.output if name)
    known_names.update(tensor.name for tensor in graph.initializer)
    metadatas: list[dict[str, MetadataTuple]] = []
    for names in wanted:
        metadatas.append({})
        for name, meta in names.items():
            known_name = match_name(name, known_names)
            if known_name is None:
                refuse_inner_name(graph, name, model.functions)
                raise UnknownNameError("Tensor", name, sorted(known_names))
            metadatas[-1][known_name] = meta
    if not wanted[1]:
        raise UsageError("A model without outputs computes nothing.", hint="Add an output.")
    return metadatas


def _nodes_between(
    graph: GraphProto, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[set[int], set[str]]:
    """Return the indices of the nodes between inputs and outputs, and their tensors' names."""
    needed, used = dependencies_of(graph, outputs, ends=inputs)
    given_names = {value.name for value in graph.input} - weight_names(graph) - inputs.keys()
    for name in (value.name for value in graph.input):
        if name in used & given_names:
            raise UsageError(
                f"The outputs depend on the model's input {name!r}, which is not among the"
                f" inputs {list(inputs)}.",
                hint=f"Add {name!r} to the inputs, or choose outputs that do not depend on it.",
            )
    return needed, used | set(inputs)


def _hide_outputs(graph: GraphProto, inputs: Mapping[str, Any]) -> None:
    """Rename outputs of kept nodes that are new inputs."""
    used_names: set[str] = set()
    for node in graph.node:
        for position, name in enumerate(node.output):
            if name in inputs:
                used_names = used_names or names_in_use(graph) | set(inputs)
                node.output[position] = unique_name(f"{name}_before", used_names)


def _describe_tensor(
    name: str, meta: MetadataTuple, before: ValueInfoProto | None
) -> ValueInfoProto:
    """Return the declaration of a graph input or output, with the model's own comment."""
    if before is not None and before.type.WhichOneof("value") != "tensor_type":
        return copy_of(before)  # The value is not a tensor, for example a sequence.
    if before is None:
        return value_info(name, meta)
    tensor = copy_of(before)
    set_known(tensor, meta)
    return tensor


extract: Callable[..., ModelProto]


@mod.export(funcify=True)
class Extract(BaseLoader):
    """Extracts the part of an ONNX model between some tensors; types and shapes are observed if
    they are unknown."""

    def __init__(
        self,
        model: Deferred[ModelProto],
        inputs: TensorMetadata | None = None,
        outputs: TensorMetadata | None = None,
        data_loader: Any = None,
    ) -> None:
        """Set the model, and the tensors at which to cut.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            inputs: the tensors that become inputs, with data types and shapes, which may be None
                (default: the inputs of the model).
            outputs: the tensors that become outputs.
            data_loader: source of the data for one run of the model, if a data type or rank is
                neither given, declared nor inferred (default: generated).
        """
        self._model = model
        self._inputs = inputs
        self._outputs = outputs
        self._data_loader = data_loader

    def call_impl(self) -> ModelProto:
        """Return the extracted part.

        Raises:
            UnknownNameError: the model has no tensor of a name.
            UsageError: an output depends on an input of the model that is not among the inputs.
            BackendError: the model must be run to determine an input, and running it fails.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Cut the model to the part between inputs and outputs, and return it."""
        inputs, outputs = complete_metadata(model, self._inputs, self._outputs)
        missing = incomplete_tensors(inputs, outputs, with_rank=True)
        if missing:
            metadata = self._observe_metadata(model, missing, incomplete_tensors(inputs, outputs))
            inputs, outputs = (
                _fill_metadata(single_metadata, metadata) for single_metadata in (inputs, outputs)
            )
        cut_in_place(model, inputs, outputs)
        return model

    def _observe_metadata(
        self, model: ModelProto, missing: Sequence[str], needed: Sequence[str]
    ) -> TensorMetadata:
        """Return data types and shapes of tensors as a run shows them;
        only ranks if inputs are dynamic.
        """
        is_open = any(
            meta.shape is None or is_shape_dynamic(meta.shape)
            for meta in input_metadata(model).values()
        )
        G_LOGGER.warning(
            f"Running the model to determine the missing shapes and types of {list(missing)}: "
            + ("dimensions stay dynamic." if is_open else "shapes are taken from the data.")
        )
        try:
            metadata = observe_metadata(model, missing, self._data_loader)
        except (BackendError, InputError) as error:
            if needed:
                error.hint = (
                    f"{error.hint} Set the shapes and data types of"
                    f" {', '.join(map(repr, needed))}, as in name:[1,3]:float32, or choose the"
                    " data with --input-shapes or --load-inputs."
                ).strip()
                raise
            G_LOGGER.warning(f"{error} The outputs {list(missing)} are saved without a shape.")
            return TensorMetadata()
        if is_open:
            for name, (dtype, shape) in list(metadata.items()):
                metadata.add(name, dtype, shape and [None] * len(shape))
        return metadata


def _fill_metadata(wanted: TensorMetadata, metadata: TensorMetadata) -> TensorMetadata:
    """Return requested tensors with missing data types and shapes filled in."""
    filled = TensorMetadata()
    for name, meta in wanted.items():
        filled[name] = meta
        if name in metadata:
            facts = metadata[name]
            filled.add(
                name,
                facts.dtype if meta.dtype is None else meta.dtype,
                facts.shape if meta.shape is None else meta.shape,
            )
    return filled
