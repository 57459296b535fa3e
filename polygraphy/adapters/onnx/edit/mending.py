"""Describes ONNX models to be compared, and changes nodes of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.describe.reading import described
from polygraphy.adapters.onnx.graph.constants import add_weight, constant_tensor, is_constant
from polygraphy.adapters.onnx.graph.graph import rename_uses, sort
from polygraphy.adapters.onnx.storage.elements import WeightArrays
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.model import EVERYTHING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    from polygraphy.domain.diagnosis.mending import Mending
    from polygraphy.domain.diagnosis.variants import Variant
    from polygraphy.domain.model import Graph

onnx = mod.lazy_import("onnx")


def mended(model: ModelProto, reference: ModelProto, plan: Mending) -> ModelProto:
    """Return a copy of a model with what a plan takes from the reference; both stay as they are."""
    copy: ModelProto = copy_of(model)
    graph = copy.graph
    twins = {_made(node): node for node in reference.graph.node}
    places = {_made(node): node for node in graph.node}
    for one in plan.nodes:
        place = places[one.replaces] if one.replaces else graph.node.add()
        name = place.name
        place.CopyFrom(twins[one.twin])
        place.name = name if one.replaces else ""
        place.input[:] = one.inputs
        place.output[:] = one.outputs
        holder = onnx.GraphProto(node=[place])
        rename_uses(holder, one.captured)
        place.CopyFrom(holder.node[0])
        place.input[:] = one.inputs
    for theirs, mine in plan.weights.items():
        add_weight(copy, _weight(reference.graph, theirs), mine)
    known = {opset.domain for opset in copy.opset_import}
    copy.opset_import.extend(o for o in reference.opset_import if o.domain not in known)
    del graph.value_info[:]
    sort(graph)
    return copy


def _made(node: NodeProto) -> str:
    return next(filter(None, node.output), "")


def _weight(graph: GraphProto, name: str) -> TensorProto:
    for weight in graph.initializer:
        if weight.name == name:
            found: TensorProto = weight
            return found
    for node in graph.node:
        if name in node.output and is_constant(node):
            tensor = constant_tensor(node)
            if tensor is not None:
                return tensor
    raise KeyError(name)


def altered(model: ModelProto, output: str, variant: Variant) -> ModelProto:
    """Return a copy of a model in which the node that makes a tensor is another."""
    copy: ModelProto = copy_of(model)
    graph = copy.graph
    node = next(node for node in graph.node if output in node.output)
    names = {name: f"{name}//tried" for name in variant.weights}
    before, op = list(node.input), node.op_type
    node.input[:] = [names.get(name, name) for name in variant.node.inputs]
    for name, values in variant.weights.items():
        add_weight(copy, onnx.numpy_helper.from_array(values), names[name])
    node.op_type = variant.node.op
    given = {one.name for one in variant.node.attributes}
    kept = [one for one in node.attribute if one.name in given]
    held = {one.name: onnx.helper.get_attribute_value(one) for one in kept}
    made = [
        onnx.helper.make_attribute(one.name, one.value)
        for one in variant.node.attributes
        if one.kind in _PLAIN and not _same(held.get(one.name), one.value)
    ]
    changed = {one.name for one in made}
    kept = [one for one in kept if one.name not in changed]
    attributes = [onnx.AttributeProto.FromString(one.SerializeToString()) for one in kept]
    del node.attribute[:]
    node.attribute.extend([*attributes, *made])
    if before != list(node.input) or made or node.op_type != op:
        del graph.value_info[:]
    return copy


_LARGE = 1 << 20
"""From so many bytes on, elements of a weight are not held."""

_PLAIN = frozenset({"float", "int", "ints", "floats", "string"})


def _same(held: Any, value: Any) -> bool:
    held = held.decode() if isinstance(held, bytes) else held
    return held is not None and (
        list(held) == list(value) if isinstance(value, tuple) else held == value
    )


class _LargeLater(WeightArrays):
    """Reads the elements of large weights when they are asked for, not all of them at once: each
    look at those in a message of protobuf is a copy.
    """

    def array(self, tensor: TensorProto) -> Any:
        later = partial(super().array, tensor)
        is_large = tensor.HasField("raw_data") and len(tensor.raw_data) >= _LARGE
        return later if is_large else later()


def graph_with_weights(model: ModelProto) -> Graph:
    """Describe a model with the values of its weights."""
    return described(model, "", EVERYTHING, _LargeLater("")).graph
