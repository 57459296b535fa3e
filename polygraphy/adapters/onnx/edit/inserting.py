"""Inserts nodes into a model, and removes nodes from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.graph.editing import edit_model
from polygraphy.adapters.onnx.graph.graph import (
    clean_model,
    delete_where,
    names_in_use,
    producers,
    rename_uses,
    sort,
    unique_name,
)
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import (
    graphs_of,
    refuse_inner_name,
    tensors_read,
    weight_names,
)
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.naming import count_text
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


insert_node: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")

_SUFFIX = "_polygraphy_surgeon_insert_output"


@mod.export(funcify=True)
class InsertNode(BaseLoader):
    """Inserts a node into an ONNX model."""

    def __init__(
        self,
        model: Deferred[ModelProto],
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        domain: str | None = None,
    ) -> None:
        """Set the model, and describe the node.

        Args:
            model: the model, which is changed in place, or a loader that returns it.
            op: the type of its operator.
            inputs: the tensors that it reads, in order.
            outputs: the tensors that it computes, in order. It replaces the nodes that computed
                them. If a tensor is both input and output, it gets a new name after the node; if it
                is an output of the model, it gets a new name before the node.
            name: its name.
            attrs: its attributes.
            domain: the domain of its operator (default: the standard domain).
        """
        self._model = model
        self._op = op
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._name = name
        self._attrs = attrs or {}
        self._domain = domain or ""

    def call_impl(self) -> ModelProto:
        """Return the model, without the nodes that were replaced.

        Raises:
            UnknownNameError: the model has no tensor of a name.
            UsageError: the node would replace an input or a weight of the model, or an input of the
                node would depend on its output.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Insert the node, and return the model."""
        graph = model.graph
        self._check_names(model)
        used_names = names_in_use(graph)
        graph_outputs = {value.name for value in graph.output}
        inputs, outputs = list(self._inputs), []
        for name in self._outputs:
            if name not in self._inputs:
                _free_name(graph, name, used_names)
                outputs.append(name)
            elif name in graph_outputs:
                before = unique_name(f"{name}_before", used_names)
                self._rename_producer(graph, name, before)
                inputs = [before if input_name == name else input_name for input_name in inputs]
                outputs.append(name)
            else:
                outputs.append(unique_name(f"{name}{_SUFFIX}", used_names))
                rename_uses(graph, {name: outputs[-1]})
        node = onnx.helper.make_node(
            self._op, inputs, outputs, name=self._name, domain=self._domain
        )
        for attribute, value in self._attrs.items():
            # Added here, because `make_node` would sort them.
            node.attribute.append(onnx.helper.make_attribute(attribute, value))
        makers = producers(graph)
        position = max((makers[name] + 1 for name in inputs if name in makers), default=0)
        graph.node.insert(position, node)
        sort(graph)
        clean_model(model)
        if self._domain and self._domain not in {entry.domain for entry in model.opset_import}:
            model.opset_import.add(domain=self._domain, version=1)
        return model

    def _check_names(self, model: ModelProto) -> None:
        """Raise if an output of the new node is an input or a weight of the model."""
        graph = model.graph
        inputs = {value.name for value in graph.input}
        weights = weight_names(graph)
        known_names = inputs | weights | set(producers(graph))
        for name in (*self._inputs, *self._outputs):
            if name and name not in known_names:
                refuse_inner_name(graph, name, model.functions)
                raise UnknownNameError("Tensor", name, sorted(known_names))
        for name in self._outputs:
            if name not in self._inputs and name in inputs | weights:
                raise UsageError(
                    f"Tensor {name!r} is an input or a weight of the model, so a node cannot"
                    " compute it."
                )

    def _rename_producer(self, graph: GraphProto, before: str, after: str) -> None:
        """Rename an output of the node that computes it, and leave its readers unchanged."""
        for node in graph.node:
            for position, name in enumerate(node.output):
                if name == before:
                    node.output[position] = after
                    return
        raise UsageError(
            f"Tensor {before!r} is both an input and an output of the model, so no node can be"
            " inserted."
        )


def _free_name(graph: GraphProto, name: str, used_names: set[str]) -> None:
    """Rename a tensor at the node that computes it, so that its name can be used again."""
    for node in graph.node:
        for position, output in enumerate(node.output):
            if output == name:
                node.output[position] = unique_name(f"{name}_replaced", used_names)


remove_nodes: Callable[..., ModelProto]


@mod.export(funcify=True)
class RemoveNodes(BaseLoader):
    """Removes nodes of some types from an ONNX model; readers of their first output read their
    first input."""

    def __init__(self, model: Deferred[ModelProto], types: Sequence[str]) -> None:
        """Set the model, which is changed in place, or its loader, and the types to remove."""
        self._model = model
        self._types = list(types)

    def call_impl(self) -> ModelProto:
        """Return the model without the nodes, and without nodes and weights that only they needed.

        Raises:
            UnknownNameError: the model has no node of one of the types.
            UsageError: a node has no input, or its second or a later output is used.
        """
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Remove all nodes of some types, and return the model."""
        present = {node.op_type for graph in all_graphs(model.graph) for node in graph.node}
        for kind in self._types:
            if kind not in present:
                raise UnknownNameError("Operator type", kind, sorted(present))
        count = _remove(model.graph, frozenset(self._types))
        clean_model(model)
        G_LOGGER.info(f"Removed {count_text(count, 'node')} of type {', '.join(self._types)}.")
        return model


def _remove(graph: GraphProto, types: Collection[str]) -> int:
    """Remove nodes of some types from a graph, and return how many there were."""
    removed = [node for node in graph.node if node.op_type in types]
    outputs = {value.name for value in graph.output}
    instead: dict[str, str] = {}
    staying = []
    has_further = any(any(node.output[1:]) for node in removed)
    used = _used_tensors(graph) if has_further else set()
    for node in removed:
        _check_removable(node, used)
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
    for node in staying:
        # A removed node that computes a graph output becomes an Identity, so that the output keeps
        # its name.
        source, replacement = instead[node.output[0]], node.output[0]
        node.Clear()
        node.op_type, node.name = "Identity", f"{replacement}_passed_on"
        node.input.append(source)
        node.output.append(replacement)
    delete_where(graph.node, lambda node: node.op_type in types)
    return count


def _used_tensors(graph: GraphProto) -> set[str]:
    """Return the tensors that nodes of a graph read, and its outputs."""
    used = {value.name for value in graph.output}
    used.update(name for node in graph.node for name in tensors_read(node))
    return used


def _check_removable(node: NodeProto, used: Collection[str]) -> None:
    """Raise if a node has further outputs that are used."""
    text = f"The {node.op_type} node {node.name or node.output[0]!r}"
    if not node.input or not node.input[0]:
        raise UsageError(
            f"{text} cannot be removed: it has no input that could replace its output."
        )
    if further := sorted({name for name in node.output[1:] if name in used}):
        raise UsageError(
            f"{text} cannot be removed: its other outputs are used: {', '.join(further)}."
        )


def _redirect(graph: GraphProto, instead: dict[str, str]) -> None:
    """Replace the names of tensors at the nodes that read them, including subgraphs."""
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in instead:
                node.input[position] = instead[name]
        for inner in graphs_of(node):
            _redirect(inner, instead)
            for value in inner.output:
                value.name = instead.get(value.name, value.name)


clean_up: Callable[..., ModelProto]
sort_nodes: Callable[..., ModelProto]


@mod.export(funcify=True)
class CleanUp(BaseLoader):
    """Removes nodes and weights on which no output of an ONNX model depends."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader that changes a model, or the model from a loader, in place."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model without nodes that no output depends on; all its inputs are kept."""
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Remove the nodes on which no output depends, and return the model."""
        G_LOGGER.verbose(
            f"Removed {count_text(clean_model(model), 'node')} on which no output depends."
        )
        return model


@mod.export(funcify=True)
class SortNodes(BaseLoader):
    """Sorts the nodes of an ONNX model into an executable order."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader that changes a model, or the model from a loader, in place."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model with sorted nodes; raise ModelError for a cycle."""
        return edit_model(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        """Sort the nodes, and return the model."""
        if sort(model.graph):
            G_LOGGER.verbose("Sorted the nodes of the model.")
        return model
