"""Shape inference of the onnx package, kept from crashing.

At a few operators it ends the process where nothing is known of what they take, as behind an
operator that it cannot infer, or if an attribute contradicts the node. It gets them as operators of
a domain that it does not know, until the types of their inputs are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx_common.messages import all_nodes, copy_of, graphs_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


onnx_shapes = mod.lazy_import("onnx.shape_inference")

_CRASHING = {
    "": frozenset({"EyeLike", "RegexFullMatch"}),
    "ai.onnx": frozenset({"EyeLike", "RegexFullMatch"}),
    "ai.onnx.ml": frozenset({"DictVectorizer", "LabelEncoder", "TreeEnsemble"}),
}
_HIDDEN = "polygraphy.hidden/"
"""In front of the domain of a node that is hidden."""


def infer_shapes(
    model: ModelProto, *, strict_mode: bool = False, data_prop: bool = False
) -> ModelProto:
    """Return a model with the results of `onnx.shape_inference.infer_shapes`, or raise its
    error."""
    crashing_nodes = hide_crashing_nodes(model)
    shapes: ModelProto = onnx_shapes.infer_shapes(
        crashing_nodes, strict_mode=strict_mode, data_prop=data_prop
    )
    if crashing_nodes is model:
        return shapes
    while _show_typed_nodes(shapes.graph, frozenset()):
        shapes = onnx_shapes.infer_shapes(shapes, strict_mode=strict_mode, data_prop=data_prop)
    restore_nodes(shapes)
    return shapes


def crashes_without_types(node: NodeProto) -> bool:
    """Return whether inference crashes at a node if an input has no type."""
    return node.op_type in _CRASHING.get(node.domain, ())


def crashes_by_attribute(node: NodeProto) -> bool:
    """Return whether inference crashes at a node because an attribute contradicts it:
    a Split into fewer parts than it has outputs, or a GatherND with a negative number of batch
    dimensions."""
    numbers: dict[str, int] = {entry.name: entry.i for entry in node.attribute}
    if node.op_type == "Split":
        return numbers.get("num_outputs", len(node.output)) < len(node.output)
    return node.op_type == "GatherND" and numbers.get("batch_dims", 0) < 0


def hide_crashing_nodes(model: ModelProto) -> ModelProto:
    """Return a model in which nodes that may crash inference are in an unknown domain;
    the model itself if there are none. `restore_nodes` reverts it.
    """
    if not any(map(_may_crash, _nodes_of(model))):
        return model
    crashing_nodes = copy_of(model)
    for node in _nodes_of(crashing_nodes):
        if _may_crash(node):
            node.domain = _HIDDEN + node.domain
    for value in (crashing_nodes, *crashing_nodes.functions):
        domains = {node.domain for node in _nodes_of(value) if node.domain.startswith(_HIDDEN)}
        for domain in domains:
            value.opset_import.add(domain=domain, version=1)
    return crashing_nodes


def restore_nodes(model: ModelProto) -> None:
    """Restore the domains of hidden nodes."""
    for node in _nodes_of(model):
        if node.domain.startswith(_HIDDEN):
            _restore_domain(node)
    for value in (model, *model.functions):
        entries = [entry for entry in value.opset_import if not entry.domain.startswith(_HIDDEN)]
        if len(entries) < len(value.opset_import):
            entries = [copy_of(entry) for entry in entries]
            del value.opset_import[:]
            value.opset_import.extend(entries)


def _may_crash(node: NodeProto) -> bool:
    """Return whether inference may crash at a node."""
    return crashes_without_types(node) or crashes_by_attribute(node)


def _restore_domain(node: NodeProto) -> None:
    """Restore the domain of a node."""
    domain = node.domain.removeprefix(_HIDDEN)
    if domain:
        node.domain = domain
    else:
        node.ClearField("domain")


def _nodes_of(owner: Any) -> Iterator[NodeProto]:
    """Yield the nodes of a model or a function, including those in a model's functions."""
    yield from all_nodes(getattr(owner, "graph", owner))
    for function in getattr(owner, "functions", ()):
        yield from all_nodes(function)


def _show_typed_nodes(graph: Any, outer: frozenset[str]) -> bool:
    """Restore hidden nodes whose inputs have types now, and return whether there were any."""
    typed = outer.union(
        (
            value.name
            for values in (graph.input, graph.value_info, graph.output)
            for value in values
            if value.type.WhichOneof("value") is not None
        ),
        (tensor.name for tensor in graph.initializer),
    )
    is_shown = False
    for node in graph.node:
        is_hidden = node.domain.startswith(_HIDDEN) and not crashes_by_attribute(node)
        if is_hidden and node.input and typed.issuperset(node.input):
            _restore_domain(node)
            is_shown = True
        for inner in graphs_of(node):
            is_shown = _show_typed_nodes(inner, typed) or is_shown
    return is_shown
