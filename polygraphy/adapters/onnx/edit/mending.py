"""Takes nodes and weights of one ONNX model over into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.constants import constant_tensor, is_constant
from polygraphy.adapters.onnx.graph.graph import sort

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    from polygraphy.domain.diagnosis.mending import Mending

onnx = mod.lazy_import("onnx")


def mended(model: ModelProto, reference: ModelProto, plan: Mending) -> ModelProto:
    """Return a copy of a model with what a plan takes from the reference; both stay as they are."""
    copy: ModelProto = onnx.ModelProto()
    copy.CopyFrom(model)
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
    for theirs, mine in plan.weights.items():
        weight = graph.initializer.add()
        weight.CopyFrom(_weight(reference.graph, theirs))
        weight.name = mine
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
