"""Takes nodes of some types out of an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.graph import clean_model, delete_where
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import graphs_of, used_by
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


remove_nodes: Callable[..., ModelProto]


@mod.export(funcify=True)
class RemoveNodes(BaseLoader):
    """Takes the nodes of some types out of an ONNX model: what took their first result takes their
    first operand.
    """

    def __init__(self, model: Deferred[ModelProto], types: Sequence[str]) -> None:
        """Set which types, of the model, which is changed in place, or of what a loader makes."""
        self._model = model
        self._types = list(types)

    def call_impl(self) -> ModelProto:
        """Return the model, without what only such nodes depended on.

        Raises:
            UnknownNameError: the model has no node of a type.
            UsageError: a node has no operand, or a further result of it is used.
        """
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        present = {node.op_type for graph in all_graphs(model.graph) for node in graph.node}
        for kind in self._types:
            if kind not in present:
                raise UnknownNameError("Operator type", kind, sorted(present))
        count = _remove(model.graph, frozenset(self._types))
        clean_model(model)
        G_LOGGER.info(f"Removed {count} nodes of type {', '.join(self._types)}.")
        return model


def _remove(graph: GraphProto, types: Collection[str]) -> int:
    removed = [node for node in graph.node if node.op_type in types]
    outputs = {value.name for value in graph.output}
    instead: dict[str, str] = {}
    staying = []
    has_further = any(any(node.output[1:]) for node in removed)
    used = _used(graph) if has_further else set()
    for node in removed:
        _check(node, used)
        source = node.input[0]
        source = instead.get(source, source)
        instead[node.output[0]] = source
        if node.output[0] in outputs:
            staying.append(node)
    count = len(removed)
    for node in graph.node:
        for inner in graphs_of(node):
            count += _remove(inner, types)
    _redirect(graph, instead)
    for node in staying:  # An output keeps its name; what makes it only passes something on.
        source, made = instead[node.output[0]], node.output[0]
        node.Clear()
        node.op_type, node.name = "Identity", f"{made}_passed_on"
        node.input.append(source)
        node.output.append(made)
    delete_where(graph.node, lambda node: node.op_type in types)
    return count


def _used(graph: GraphProto) -> set[str]:
    """Return the tensors of a graph that its nodes take, or that are its outputs."""
    used = {value.name for value in graph.output}
    used.update(name for node in graph.node for name in used_by(node))
    return used


def _check(node: NodeProto, used: Collection[str]) -> None:
    what = f"The {node.op_type} node {node.name or node.output[0]!r}"
    if not node.input or not node.input[0]:
        raise UsageError(f"{what} has no operand that could take its place.")
    if further := sorted({name for name in node.output[1:] if name in used}):
        raise UsageError(f"{what} has further results that are used: {', '.join(further)}.")


def _redirect(graph: GraphProto, instead: dict[str, str]) -> None:
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in instead:
                node.input[position] = instead[name]
        for inner in graphs_of(node):
            _redirect(inner, instead)
            for value in inner.output:
                value.name = instead.get(value.name, value.name)
