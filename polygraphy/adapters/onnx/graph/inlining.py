"""Replaces calls by the bodies of their functions, and If nodes by their branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import (
    IR_WITHOUT_WEIGHTS_AS_INPUTS,
    names_in_use,
    unique_name,
)
from polygraphy.adapters.onnx.graph.growth import check_expansion
from polygraphy.adapters.onnx_common.messages import (
    all_nodes,
    attribute_named,
    copy_of,
    graphs_of,
    identity_of,
    outer_names,
    tensor_names,
)

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

onnx = mod.lazy_import("onnx")

_Key = tuple[str, str, str]


def inline_functions(model: ModelProto) -> ModelProto:
    """Return a model with its functions inlined, or the model itself if it has none.
    Nodes and tensors of a body are called ``CALL/NAME``; calls of functions that import another
    version of a domain remain, and those with more inputs or outputs than their function.

    Raises:
        ModelError: a function calls itself, or the model would become too large.
    """
    if not model.functions:
        return model
    check_expansion(model)
    functions: ModelProto = copy_of(model)
    _FunctionInliner(functions).run()
    return functions


def with_branches(model: ModelProto, conditions: Mapping[str, bool]) -> ModelProto:
    """Return a model with its If nodes replaced by the taken branches, or the model itself if it
    has none. Nodes and tensors keep their names, except those already in use.

    Args:
        model: a model.
        conditions: the known values of conditions, by tensor.
    """
    if not any(_select_branch(node, conditions) for node in model.graph.node):
        return model
    branches: ModelProto = copy_of(model)
    branches.ir_version = max(branches.ir_version, IR_WITHOUT_WEIGHTS_AS_INPUTS)
    del branches.graph.node[:]
    names = tensor_names(model.graph)
    for node in model.graph.node:
        branch = _select_branch(node, conditions)
        if branch is None:
            branches.graph.node.append(node)
        else:
            _replace_if(branches.graph, node, branch, names)
    return branches


def _select_branch(node: NodeProto, conditions: Mapping[str, bool]) -> GraphProto | None:
    """Return the branch that a node takes; None if it is not an If, or the branch is unknown."""
    if _key(node)[:2] != ("", "If") or node.input[0] not in conditions:
        return None
    name = attribute_named(node, "then_branch" if conditions[node.input[0]] else "else_branch")
    branch: GraphProto | None = None if name is None else name.g
    return branch


def _replace_if(
    graph: GraphProto, node: NodeProto, branch: GraphProto, used_names: set[str]
) -> None:
    """Append the nodes of a branch to a graph; they compute the outputs of its If node."""
    names = {name: name for name in ("", *names_in_use(branch), *outer_names(branch))}
    own_names = tensor_names(branch) - {""}
    prefix = identity_of(node)
    names.update(
        {name: unique_name(f"{prefix}/{name}", used_names) for name in own_names & used_names}
    )
    used_names |= own_names
    computed = {name for inner in branch.node for name in inner.output}
    handed_on = []
    for value, outer in zip(branch.output, node.output):
        if value.name in computed and names[value.name] not in node.output and outer:
            names[value.name] = outer
        elif outer:
            handed_on.append(onnx.helper.make_node("Identity", [names[value.name]], [outer]))
    renaming = _BodyCopier("", names, used_names, {})
    called = {node.name for node in graph.node}
    for inner in branch.node:
        new_node = renaming.copy(inner)
        if new_node.name in called:
            new_node.name = unique_name(f"{prefix}/{new_node.name}", called)
        graph.node.append(new_node)
    graph.node.extend(handed_on)
    for weight in branch.initializer:
        graph.initializer.add().CopyFrom(weight)
        graph.initializer[-1].name = names[weight.name]
    for sparse in branch.sparse_initializer:
        graph.sparse_initializer.add().CopyFrom(sparse)
        graph.sparse_initializer[-1].values.name = names[sparse.values.name]
    graph.value_info.extend(
        value_info
        for value_info in branch.value_info
        if names.get(value_info.name) == value_info.name
    )


class _FunctionInliner:
    """Inlines the functions of a model."""

    def __init__(self, model: ModelProto) -> None:
        """Collect the functions of a model."""
        self._model = model
        self._opsets = {domain_of(opset.domain): opset.version for opset in model.opset_import}
        self._functions: dict[_Key, FunctionProto] = {
            (domain_of(function.domain), function.name, function.overload): function
            for function in model.functions
            if self._is_compatible(function)
        }
        self._taken = names_in_use(model.graph)
        self._prefixes: set[str] = set()
        self._has_invalid_calls = False

    def _is_compatible(self, function: FunctionProto) -> bool:
        """Return whether the imports of a body equal those of the model, or can be added to it."""
        versions = {domain_of(opset.domain): opset.version for opset in function.opset_import}
        used = {domain_of(node.domain) for node in all_nodes(function)}
        opsets = self._opsets
        if any(opsets.get(domain, versions.get(domain)) != versions.get(domain) for domain in used):
            return False
        for domain in used - opsets.keys():
            opsets[domain] = versions[domain]
            self._model.opset_import.append(onnx.helper.make_opsetid(domain, versions[domain]))
        return True

    def run(self) -> None:
        """Inline all calls, and drop the functions."""
        self._inline_calls(self._model.graph)
        if len(self._functions) == len(self._model.functions) and not self._has_invalid_calls:
            del self._model.functions[:]

    def _inline_calls(self, graph: GraphProto) -> None:
        """Inline the calls in a graph and its subgraphs."""
        for node in graph.node:
            for inner in graphs_of(node):
                self._inline_calls(inner)
        if any(_key(node) in self._functions for node in graph.node):
            nodes = [copy_of(node) for node in self._bodies(graph.node)]
            del graph.node[:]
            graph.node.extend(nodes)

    def _bodies(self, nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
        """Yield nodes, with each call replaced by the nodes of its body."""
        for node in nodes:
            function = self._functions.get(_key(node))
            if function is None:
                yield node
                continue
            if len(node.input) > len(function.input) or len(node.output) > len(function.output):
                self._has_invalid_calls = True
                yield node
                continue
            body = self._body(node, function)
            for inner in body:
                for graph in graphs_of(inner):
                    self._inline_calls(graph)
            yield from self._bodies(body)

    def _body(self, call: NodeProto, function: FunctionProto) -> list[NodeProto]:
        """Return the body of a call as nodes with the names of its graph."""
        prefix = unique_name(identity_of(call), self._prefixes)
        operands = [*call.input, *[""] * (len(function.input) - len(call.input))]
        names = {"": "", **dict(zip(function.input, operands))}
        handed_on = []
        for inner, outer in zip(function.output, call.output):
            if inner in names and outer:
                handed_on.append(onnx.helper.make_node("Identity", [names[inner]], [outer]))
            elif outer:
                names[inner] = outer
        given_values = {value.name: value for value in (*function.attribute_proto, *call.attribute)}
        renaming = _BodyCopier(prefix, names, self._taken, given_values)
        return [*(renaming.copy(node) for node in function.node), *handed_on]


class _BodyCopier:
    """Copies nodes of a function body, renamed for one call."""

    def __init__(
        self,
        prefix: str,
        names: dict[str, str],
        used_names: set[str],
        attributes: Mapping[str, AttributeProto],
    ) -> None:
        """Set the prefix and the new names for one call."""
        self._prefix = prefix
        self._names = names
        self._taken = used_names
        self._given = attributes

    def copy(self, node: NodeProto) -> NodeProto:
        """Return a copy of a node with the names of the calling graph."""
        new_node: NodeProto = copy_of(node)
        new_node.name = node.name if self._prefix else identity_of(node)
        self._rename_node(new_node)
        return new_node

    def _rename_node(self, node: NodeProto) -> None:
        """Rename a node and everything in its subgraphs."""
        node.name = f"{self._prefix}/{node.name}" if self._prefix and node.name else node.name
        node.input[:] = [self._name(name) for name in node.input]
        node.output[:] = [self._name(name) for name in node.output]
        attributes = [self._attribute(attribute) for attribute in node.attribute]
        kept_attributes = [copy_of(attribute) for attribute in attributes if attribute is not None]
        del node.attribute[:]
        node.attribute.extend(kept_attributes)
        for graph in graphs_of(node):
            for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
                value.name = self._name(value.name)
            for sparse in graph.sparse_initializer:
                sparse.values.name = self._name(sparse.values.name)
            for inner in graph.node:
                self._rename_node(inner)

    def _name(self, name: str) -> str:
        """Return the new name of a tensor."""
        if name not in self._names:
            self._names[name] = unique_name(f"{self._prefix}/{name}", self._taken)
        return self._names[name]

    def _attribute(self, attribute: AttributeProto) -> AttributeProto | None:
        """Return an attribute with the value that the call passes; None if it passes none."""
        if not attribute.ref_attr_name:
            return attribute
        if attribute.ref_attr_name not in self._given:
            return None
        new_attribute: AttributeProto = copy_of(self._given[attribute.ref_attr_name])
        new_attribute.name = attribute.name
        return new_attribute


def _key(node: NodeProto) -> _Key:
    """Return the key of the function that a node calls: domain, name and overload."""
    return domain_of(node.domain), node.op_type, node.overload
