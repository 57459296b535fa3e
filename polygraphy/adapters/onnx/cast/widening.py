"""Turns ONNX models that compute in float16 or bfloat16 into float32 models, and gives float32
models the weights that they would have in such a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.cast.cast_rules import names_of
from polygraphy.adapters.onnx.graph.element_types import (
    TYPE_ATTRIBUTES,
    GraphTypes,
    TypeInference,
)
from polygraphy.adapters.onnx.storage.elements import elements, put
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import all_graphs, all_tensors
from polygraphy.adapters.onnx_common.messages import copy_of, graphs_of
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.narrowing import limits_of, with_digits

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_NARROW = tuple(DataType[name] for name in HALF)
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
    made: ModelProto = copy_of(model)
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


def with_rounded_weights(
    model: ModelProto, narrow: ModelProto
) -> tuple[ModelProto, DataTypeEntry] | None:
    """Return a copy of a float32 model whose weights have the digits of the type in which another
    computes that was made of it, and that type; None where that one computes in no narrow type.

    Weights keep their magnitude, and those of nodes that stay in float32 are left alone.
    """
    found = narrow_nodes(narrow)
    if found is None:
        return None
    dtype, lowered = found
    kept = _names(narrow) - set(lowered)
    _, _, spacing = limits_of(dtype.numpy())
    made: ModelProto = copy_of(model)
    for tensor in _weights(made, kept):
        rounded = with_digits(elements(tensor), spacing)
        put(tensor, rounded, in_file=is_stored(tensor))
    return made, dtype


def _names(model: ModelProto) -> set[str]:
    nodes = (node for graph in all_graphs(model.graph) for node in graph.node)
    return {name for node in nodes for name in names_of(node)[:1]}


def _weights(model: ModelProto, kept: set[str]) -> Iterator[TensorProto]:
    """Yield the float32 weights of a model, but for those that certain nodes read."""
    wide = set()
    for graph in all_graphs(model.graph):
        for node in graph.node:
            if not kept.isdisjoint(names_of(node)[:1]):
                wide.update(node.input)
    for graph in all_graphs(model.graph):
        named = [(tensor.name, tensor) for tensor in graph.initializer]
        for node in graph.node:
            if node.op_type == "Constant":
                named += [(node.output[0], each.t) for each in node.attribute if each.HasField("t")]
        for name, tensor in named:
            if tensor.data_type == _FLOAT and name not in wide:
                yield tensor
