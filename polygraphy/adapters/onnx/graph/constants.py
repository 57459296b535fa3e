"""Where the weights of an ONNX graph are: initialisers, and the values of Constant nodes.

Exporters write either; a model computes alike with both, so whatever looks for weights asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import IR_WITHOUT_WEIGHTS_AS_INPUTS, delete_where

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


onnx = mod.lazy_import("onnx")

_NUMBERS = {
    "value_float": ("FLOAT", "f"),
    "value_floats": ("FLOAT", "floats"),
    "value_int": ("INT64", "i"),
    "value_ints": ("INT64", "ints"),
    "value_string": ("STRING", "s"),
    "value_strings": ("STRING", "strings"),
}
"""Attributes that hold a constant: its type, and the field that it is in."""


def is_constant(node: NodeProto) -> bool:
    """Return whether a node is a Constant of the standard."""
    return node.op_type == "Constant" and not domain_of(node.domain)


def constant_tensor(node: NodeProto, *, in_place: bool = False) -> TensorProto | None:
    """Return the value of a Constant node; None where it is sparse or given by a caller.

    Args:
        node: a node for which `is_constant` holds.
        in_place: whether the node comes to hold a tensor where it holds numbers, so that a change
            of what is returned is one of the node.
    """
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        made = _from_numbers(attribute)
        if made is not None:
            if not in_place:
                return made
            del node.attribute[:]
            held: TensorProto = node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t
            held.CopyFrom(made)
            return held
    return None


def _from_numbers(attribute: AttributeProto) -> TensorProto | None:
    """Return the tensor that an attribute such as ``value_ints`` stands for."""
    if attribute.name not in _NUMBERS:
        return None
    number, field = _NUMBERS[attribute.name]
    is_list = field.endswith("s") and len(field) > 1
    elements = list(getattr(attribute, field)) if is_list else [getattr(attribute, field)]
    dims = [len(elements)] if is_list else []
    made: TensorProto = onnx.helper.make_tensor(
        "", onnx.TensorProto.DataType.Value(number), dims, elements
    )
    return made


def constants_of(
    nodes: Iterable[NodeProto], changed: Collection[str] = ()
) -> dict[str, TensorProto]:
    """Return the values of the Constant nodes among some nodes, by the names of their results.

    Args:
        nodes: the nodes.
        changed: those whose tensors are going to be changed; see `constant_tensor`.
    """
    found: dict[str, TensorProto] = {}
    for node in nodes:
        if is_constant(node) and len(node.output) == 1:
            tensor = constant_tensor(node, in_place=node.output[0] in changed)
            if tensor is not None:
                found[node.output[0]] = tensor
    return found


def graph_weights(
    graph: GraphProto, changed: Collection[str] | None = None
) -> dict[str, TensorProto]:
    """Return the dense weights of a graph by name, not those of the graphs inside it. The name of
    the tensor that a Constant node holds is not that of the weight.

    Args:
        graph: the graph.
        changed: which weights are returned, so that their tensors can be changed; all, to be looked
            at only, by default.
    """
    found = constants_of(graph.node, changed or ())
    found.update((tensor.name, tensor) for tensor in graph.initializer)
    if changed is None:
        return found
    return {name: tensor for name, tensor in found.items() if name in changed}


def add_weight(
    model: ModelProto, tensor: TensorProto, name: str, graph: GraphProto | None = None
) -> TensorProto:
    """Add a copy of a tensor to the weights of a graph (default: that of the model), and to its
    inputs where the version of the format wants weights there, too; return the copy.
    """
    graph = model.graph if graph is None else graph
    weight: TensorProto = graph.initializer.add()
    weight.CopyFrom(tensor)
    weight.name = name
    declare_weights(model, graph)
    return weight


def declare_weights(model: ModelProto, graph: GraphProto | None = None) -> bool:
    """List all weights of a graph (default: that of the model) as inputs where the version of the
    format wants that, and return whether some were missing; ONNX Runtime does not mind those that
    are read, but refuses others.
    """
    graph = model.graph if graph is None else graph
    if model.ir_version >= IR_WITHOUT_WEIGHTS_AS_INPUTS:
        return False
    known = {value.name for value in graph.input}
    missing = [tensor for tensor in graph.initializer if tensor.name not in known]
    graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in missing
    )
    return bool(missing)


def to_initializers(model: ModelProto, graph: GraphProto, names: Collection[str]) -> None:
    """Make initialisers of the Constant nodes that hold some weights of a graph, so that they can
    be kept in files and be without elements.

    Before version 4 of the format, graphs inside others can have none: their Constants stay.
    """
    is_old = model.ir_version < IR_WITHOUT_WEIGHTS_AS_INPUTS
    if is_old and graph is not model.graph:
        return
    held = {name: tensor for name, tensor in constants_of(graph.node).items() if name in names}
    for name, tensor in held.items():
        add_weight(model, tensor, name, graph)
    delete_where(graph.node, lambda node: is_constant(node) and node.output[0] in held)
