"""Turns ONNX models that compute in float16 or bfloat16 into float32 models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.cast.cast_selection import names_of
from polygraphy.adapters.onnx.graph.element_types import (
    TYPE_ATTRIBUTES,
    GraphTypes,
    TypeInference,
    graphs_of,
)
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import all_graphs, all_tensors
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_NARROW = (DataType.FLOAT16, DataType.BFLOAT16)
_FLOAT = 1


def narrow_nodes(model: ModelProto) -> tuple[DataTypeEntry, list[str]] | None:
    """Return the narrow type in which most nodes of a model compute, of those that compute in one,
    and the names of these nodes; None where no node does.
    """
    kinds = {f"tensor({dtype.name})": dtype for dtype in _NARROW}
    found: dict[str, list[str]] = {}
    for node, types in _nodes(model.graph, TypeInference(model).of_graph(model.graph)):
        made = next((kind for name in node.output if (kind := types[name]) in kinds), None)
        if made is not None and not graphs_of(node):
            found.setdefault(made, []).extend(names_of(node)[:1])
    if not found:
        return None
    kind = max(found, key=lambda each: len(found[each]))
    return kinds[kind], list(dict.fromkeys(found[kind]))


def _nodes(graph: GraphProto, types: GraphTypes) -> Iterator[tuple[NodeProto, GraphTypes]]:
    for index, node in enumerate(graph.node):
        yield node, types
        for inner, known in zip(graphs_of(node), types.inner(index)):
            yield from _nodes(inner, known)


def widened(model: ModelProto) -> ModelProto:
    """Return a copy of a model in which every tensor of a narrow type is a float32 one, inputs and
    outputs included; nodes and tensors keep their names.
    """
    made: ModelProto = onnx.ModelProto()
    made.CopyFrom(model)
    narrow = {dtype.onnx() for dtype in _NARROW}
    for tensor in all_tensors(made):
        if tensor.data_type in narrow:
            _widen(tensor)
    for graph in all_graphs(made.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            _widen_type(value.type, narrow)
        for node in graph.node:
            _widen_attributes(node, narrow)
    for function in made.functions:
        for node in function.node:
            _widen_attributes(node, narrow)
    return made


def _widen(tensor: TensorProto) -> None:
    wide = onnx.numpy_helper.from_array(elements(tensor).astype(numpy.float32), tensor.name)
    tensor.CopyFrom(wide)


def _widen_type(kind: Any, narrow: set[int]) -> None:
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, kind.WhichOneof("value")).elem_type
    if kind.tensor_type.elem_type in narrow:
        kind.tensor_type.elem_type = _FLOAT


def _widen_attributes(node: NodeProto, narrow: set[int]) -> None:
    name, _ = TYPE_ATTRIBUTES.get(node.op_type, ("", None))
    for attribute in node.attribute:
        if attribute.name == name and attribute.i in narrow:
            attribute.i = _FLOAT
