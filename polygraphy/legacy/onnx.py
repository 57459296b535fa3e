"""Small helpers about ONNX models, and for marking outputs.

A shape is a list: an unknown dimension is -1, or has a name. The shape of a tensor with unknown
rank is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.onnx.describe.reading import describe_model
from polygraphy.adapters.onnx.edit.outputs import GraphTensors, set_outputs
from polygraphy.adapters.onnx.graph.graphsurgeon import gs
from polygraphy.adapters.onnx.graph.shapes import add_shapes, shape_of
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes, all_graphs
from polygraphy.adapters.onnx_common.messages import inputs_of
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.model import Detail
from polygraphy.domain.model.description import unbounded_operands
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto
if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = [
    "all_tensor_names",
    "get_dtype",
    "get_input_metadata",
    "get_num_nodes",
    "get_output_metadata",
    "get_shape",
    "get_tensor_metadata",
    "get_unbounded_dds_tensors",
    "get_values",
    "lower_constant_nodes",
    "mark_by_op_type",
    "mark_layerwise",
    "mark_outputs",
    "meta_from_gs_tensors",
    "set_shapes_from_layerwise_meta",
    "str_from_onnx",
    "unmark_outputs",
]


_TYPES = OnnxDataTypes()


def get_num_nodes(model: ModelProto) -> int:
    """Return the number of nodes of a model, subgraphs included."""
    return sum(len(graph.node) for graph in all_graphs(model.graph))


def all_tensor_names(model: ModelProto, include_inputs: bool | None = None) -> list[str]:
    """Return the names of the tensors that nodes of a model compute, in graph order,
    without constants.

    Args:
        model: the model.
        include_inputs: whether the names of the inputs follow (default: False).
    """
    tensors = GraphTensors(model.graph)
    names = [name for name in tensors.computed if name not in tensors.constants]
    return names + ([value.name for value in model.graph.input] if include_inputs else [])


def get_shape(tensor: ValueInfoProto | TensorProto) -> list[Any] | None:
    """Return the shape of an input, an output or a weight; None if it is unknown."""
    if hasattr(tensor, "dims"):
        return list(tensor.dims)
    shape = shape_of(tensor) if tensor.type.WhichOneof("value") == "tensor_type" else None
    return None if shape is None else [-1 if dim is None else dim for dim in shape]


def get_dtype(tensor: ValueInfoProto | TensorProto) -> DataTypeEntry | None:
    """Return the data type of an input, an output or a weight; None if it is unknown."""
    is_weight = hasattr(tensor, "dims")
    return _TYPES.from_native(tensor.data_type if is_weight else tensor.type.tensor_type.elem_type)


def get_values(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """Return the elements of a weight.

    Raises:
        ModelError: the weight is malformed, or its elements are in a file that was not loaded.
    """
    return elements(tensor)


def get_tensor_metadata(tensors: Iterable[ValueInfoProto | TensorProto]) -> TensorMetadata:
    """Return the names, data types and shapes of inputs, outputs or weights."""
    metadata = TensorMetadata()
    for tensor in tensors:
        metadata.add(tensor.name, get_dtype(tensor), get_shape(tensor))
    return metadata


def get_input_metadata(graph: GraphProto) -> TensorMetadata:
    """Return the names, data types and shapes of a graph's inputs, without weights that old models
    list among them.
    """
    return get_tensor_metadata(inputs_of(graph))


def get_output_metadata(graph: GraphProto) -> TensorMetadata:
    """Return the names, data types and shapes of a graph's outputs."""
    return get_tensor_metadata(graph.output)


def mark_outputs(model: ModelProto, outputs: Iterable[str]) -> ModelProto:
    """Set the outputs of a model to some tensors, in place, and return the model.

    Args:
        model: the model.
        outputs: names, or patterns of `fnmatch`, in the order of the new outputs.

    Returns:
        The same model.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the model.
        UsageError: no output would remain, or a name is that of a weight.
    """
    tensors = GraphTensors(model.graph)
    chosen = [name for word in outputs for name in _names_in_order(tensors, [word])]
    if not chosen:
        raise UsageError("No outputs were selected.", hint="Choose at least one tensor.")
    set_outputs(model, list(dict.fromkeys(chosen)))
    return model


def unmark_outputs(model: ModelProto, outputs: Iterable[str]) -> ModelProto:
    """Remove some outputs of a model, in place, and return the model.

    Args:
        model: the model.
        outputs: names, or patterns of `fnmatch`; names of other tensors have no effect.

    Returns:
        The same model.

    Raises:
        UnknownNameError: a name or a pattern matches nothing in the model.
    """
    unmarked = GraphTensors(model.graph).match_names(outputs)
    set_outputs(
        model,
        [value_info.name for value_info in model.graph.output if value_info.name not in unmarked],
    )
    return model


def mark_layerwise(model: ModelProto) -> ModelProto:
    """Make every tensor that nodes of a model compute an output, in place, and return the model."""
    set_outputs(model, list(dict.fromkeys(all_tensor_names(model))))
    return model


def mark_by_op_type(model: ModelProto, op_types: Iterable[str]) -> ModelProto:
    """Set the outputs of a model to those of nodes of some types, in place, and return the model.

    Args:
        model: the model, which is not changed if no node has these types.
        op_types: types of operators, in any case.

    Returns:
        The same model.
    """
    present = sorted({node.op_type for node in model.graph.node})
    wanted = [op_type.lower() for op_type in op_types]
    absent = set(wanted) - {op_type.lower() for op_type in present}
    for op_type in sorted(absent):
        G_LOGGER.error(str(UnknownNameError("Operator type", op_type, present)))
    tensors = GraphTensors(model.graph)
    outputs = tensors.outputs_by_type(set(wanted) - absent)
    if outputs:
        set_outputs(model, [name for name in tensors.order if name in outputs])
    return model


def _names_in_order(tensors: GraphTensors, words: Sequence[str]) -> list[str]:
    """Return the names of the tensors that words match, in graph order."""
    names = tensors.match_names(words)
    return [name for name in tensors.order if name in names]


def meta_from_gs_tensors(tensors: Iterable[Any]) -> TensorMetadata:
    """Return the names, data types and shapes of tensors of an `onnx_graphsurgeon.Graph`."""
    metadata = TensorMetadata()
    for tensor in tensors:
        metadata.add(tensor.name, tensor.dtype, tensor.shape)
    return metadata


def lower_constant_nodes(graph: Any) -> Any:
    """Replace the Constant nodes of an `onnx_graphsurgeon.Graph` by weights, in place, and return
    the graph.

    Constant nodes in subgraphs also become weights.
    """
    for node in [node for node in graph.nodes if node.op == "Constant" and "value" in node.attrs]:
        (tensor,) = node.outputs
        tensor.inputs.clear()
        tensor.to_constant(_values_of(node.attrs["value"]))
        graph.nodes.remove(node)
    for inner in graph.subgraphs():
        lower_constant_nodes(inner)
    return graph


def _values_of(constant: Any) -> Any:
    """Return the elements of a constant."""
    return constant.values if hasattr(constant, "values") else np.asarray(constant)


def set_shapes_from_layerwise_meta(graph: Any, layerwise_meta: TensorMetadata) -> None:
    """Set known shapes and data types of computed tensors of an `onnx_graphsurgeon.Graph`."""
    for tensor in graph.tensors().values():
        if tensor.name not in layerwise_meta or isinstance(tensor, gs.Constant):
            continue
        dtype, shape = layerwise_meta[tensor.name]
        if shape is not None:
            tensor.shape = list(shape)
        if dtype is not None:
            tensor.dtype = DataType.to_dtype(DataType.from_dtype(dtype), "onnx")


def get_unbounded_dds_tensors(graph: Any) -> list[Any]:
    """Return the tensors of an `onnx_graphsurgeon.Graph` that determine other tensors' sizes
    without an upper bound, such as the length of a Range.
    """
    model = gs.export_onnx(graph)
    add_shapes(model, allow_onnxruntime=False)
    tensors = graph.tensors()
    names = unbounded_operands(describe_model(model, "", Detail(layers=True)).graph)
    return [tensors[name] for name in names]


# Details that `mode` selected before `show_layers` and similar options existed.
_MODES: dict[str, tuple[str, ...]] = {
    "none": (),
    "basic": ("layers",),
    "attrs": ("layers", "attrs"),
    "full": ("layers", "attrs", "weights"),
}


def str_from_onnx(
    model: ModelProto,
    show_layers: bool | None = None,
    show_attrs: bool | None = None,
    show_weights: bool | None = None,
    *,
    mode: str | None = None,
) -> str:
    """Return the description of a model as text, as `polygraphy inspect model` shows it.

    Args:
        model: the model.
        show_layers: whether nodes are shown (default: False).
        show_attrs: whether the attributes of shown nodes are shown (default: False).
        show_weights: whether the elements of weights are shown (default: False).
        mode: deprecated: ``none``, ``basic`` (nodes), ``attrs`` or ``full``.

    Raises:
        UnknownNameError: the mode does not exist.
    """
    from polygraphy import mod
    from polygraphy.adapters.console.models.onnx_text import onnx_lines
    from polygraphy.adapters.onnx.storage.elements import WeightArrays

    shown_values = {"layers": show_layers, "attrs": show_attrs, "weights": show_weights}
    if mode is not None:
        mod.warn_deprecated("mode of str_from_onnx", "show_layers, show_attrs, show_weights", "2.0")
        if mode not in _MODES:
            raise UnknownNameError("Mode", mode, _MODES)
        shown_values = dict.fromkeys(_MODES[mode], True)
    detail = Detail(**{name: bool(wanted) for name, wanted in shown_values.items()})
    arrays = WeightArrays("") if detail.weights else None
    # The first line is a title, for the log.
    return "\n".join([*onnx_lines(describe_model(model, "", detail, arrays), detail)][1:])
