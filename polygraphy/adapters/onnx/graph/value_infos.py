"""Between what an ONNX graph says about its tensors and our metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes
from polygraphy.adapters.onnx_common.messages import inputs_of
from polygraphy.adapters.onnx_common.messages import shape_of as dims_of
from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors.metadata import MetadataTuple, TensorMetadata
from polygraphy.domain.tensors.shapes import Shape, is_dynamic_dim

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_TYPES = OnnxDataTypes()


def described(value: ValueInfoProto | None) -> MetadataTuple:
    """Return the data type and the shape of a tensor, None for what is not known."""
    if value is None or value.type.WhichOneof("value") != "tensor_type":
        return MetadataTuple(None, None)
    return MetadataTuple(_TYPES.from_native(value.type.tensor_type.elem_type), shape_of(value))


def shape_of(value: ValueInfoProto) -> list[Any] | None:
    """Return the shape of a tensor, None for what is not known of it."""
    return dims_of(value.type.tensor_type)


def input_metadata(model: ModelProto) -> TensorMetadata:
    """Describe the inputs of a model; initialisers that older models list there are none."""
    metadata = TensorMetadata()
    for value in inputs_of(model.graph):
        metadata[value.name] = described(value)
    return metadata


def value_info(name: str, meta: MetadataTuple) -> ValueInfoProto:
    """Return the description of a tensor for a graph."""
    value: ValueInfoProto = onnx.ValueInfoProto(name=name)
    if meta.dtype is not None:
        number = _TYPES.to_native(meta.dtype)
        if number is None:
            raise DataTypeConversionException(f"ONNX has no data type {meta.dtype}.")
        value.type.tensor_type.elem_type = number
    if meta.shape is not None:
        set_shape(value, meta.shape)
    return value


def restate(value: ValueInfoProto, meta: MetadataTuple) -> None:
    """Give a tensor the data type and the shape that are known; whatever else is said of it
    stays.
    """
    given = value_info(value.name, meta)
    if meta.dtype is not None:
        value.type.tensor_type.elem_type = given.type.tensor_type.elem_type
    if meta.shape is not None and shape_of(value) != shape_of(given):
        set_shape(value, meta.shape)


def set_input_shapes(graph: GraphProto, shapes: Mapping[str, Shape]) -> None:
    """Give those inputs of a graph other shapes that are named; what is no tensor stays."""
    for value in graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            set_shape(value, shapes[value.name])


def set_shape(value: ValueInfoProto, shape: Shape) -> None:
    """Give a tensor another shape; a negative dimension, or None, is any. Of as many dimensions,
    each still means what it did.
    """
    meanings = [dim.denotation for dim in value.type.tensor_type.shape.dim]
    value.type.tensor_type.ClearField("shape")
    value.type.tensor_type.shape.SetInParent()
    for dim in shape:
        made = value.type.tensor_type.shape.dim.add()
        if isinstance(dim, str):
            made.dim_param = dim
        elif not is_dynamic_dim(dim):
            made.dim_value = int(dim or 0)
    if len(meanings) == len(shape):
        for made, meaning in zip(value.type.tensor_type.shape.dim, meanings):
            if meaning:
                made.denotation = meaning
