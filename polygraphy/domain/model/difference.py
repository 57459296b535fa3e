"""Differences between two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from math import isnan
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.model.description import Model
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
    Weight,
)

_MISSING, _EXTRA, _CHANGED, _RENAMED = "missing", "extra", "changed", "renamed"


@frozen
class Difference:
    """One difference between two models.

    Attributes:
        what: the kind of part, such as ``Node`` or ``Initializer``.
        name: the name of that part.
        change: ``missing`` or ``extra`` in the second model, ``changed`` or ``renamed``.
        reference: its form in the first model; empty if it is absent there.
        candidate: its form in the second.
        where: the graphs around it, from the outside to the inside.
    """

    what: str
    name: str
    change: str
    reference: str = ""
    candidate: str = ""
    where: tuple[str, ...] = ()


def differences(reference: Model, candidate: Model) -> list[Difference]:
    """Return the differences between two fully read models, except file location and producer."""
    graphs = [
        *_mappings("Opset", reference.opsets, candidate.opsets),
        *_mappings("Metadata", reference.metadata, candidate.metadata),
    ]
    if reference.ir_version != candidate.ir_version:
        versions = str(reference.ir_version), str(candidate.ir_version)
        graphs.append(Difference("IR version", "", _CHANGED, *versions))
    graphs += _graphs(reference.graph, candidate.graph, ())
    functions = {f"{function.domain}.{function.name}": function for function in reference.functions}
    reference_functions = {
        f"{function.domain}.{function.name}": function for function in candidate.functions
    }
    graphs += _presence("Function", functions, reference_functions, ())
    for name in functions.keys() & reference_functions.keys():
        where = (f"function {name}",)
        for kind, field in (("Input", "inputs"), ("Output", "outputs")):
            lists = getattr(functions[name], field), getattr(reference_functions[name], field)
            if lists[0] != lists[1]:
                own_names, other_name = map(", ".join, lists)
                graphs.append(Difference(f"{kind}s", "", _CHANGED, own_names, other_name, where))
        graphs += _node_differences(functions[name].nodes, reference_functions[name].nodes, where)
    return graphs


def _mappings(
    kind: str, values: Mapping[str, Any], reference_values: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the differences of two mappings, key by key."""
    for name in dict.fromkeys((*values, *reference_values)):
        label = name or "ai.onnx"
        if name not in reference_values:
            yield Difference(kind, label, _MISSING, str(values[name]))
        elif name not in values:
            yield Difference(kind, label, _EXTRA, candidate=str(reference_values[name]))
        elif values[name] != reference_values[name]:
            yield Difference(kind, label, _CHANGED, str(values[name]), str(reference_values[name]))


def _presence(
    kind: str,
    values: Mapping[str, Any],
    reference_values: Mapping[str, Any],
    where: tuple[str, ...],
) -> Iterator[Difference]:
    """Yield a difference for each name that only one of two mappings has."""
    for name in values:
        if name not in reference_values:
            yield Difference(kind, name, _MISSING, where=where)
    for name in reference_values:
        if name not in values:
            yield Difference(kind, name, _EXTRA, where=where)


def _graphs(graph: Graph, reference_graph: Graph, where: tuple[str, ...]) -> Iterator[Difference]:
    """Yield the differences of two graphs."""
    yield from _tensor_differences("Input", graph.inputs, reference_graph.inputs, where)
    yield from _tensor_differences("Output", graph.outputs, reference_graph.outputs, where)
    yield from _weight_differences(graph.weights, reference_graph.weights, where)
    yield from _quantization_differences(graph.quantization, reference_graph.quantization, where)
    yield from _node_differences(graph.nodes, reference_graph.nodes, where)


def _quantization_differences(
    values: Mapping[str, tuple[str, ...]],
    reference_values: Mapping[str, tuple[str, ...]],
    where: tuple[str, ...],
) -> Iterator[Difference]:
    """Yield the differences in how tensors are quantized."""
    yield from _presence("Quantization", values, reference_values, where)
    for name in values:
        if name in reference_values and values[name] != reference_values[name]:
            texts = ", ".join(values[name]), ", ".join(reference_values[name])
            yield Difference("Quantization", name, _CHANGED, *texts, where=where)


def _tensor_differences(
    kind: str,
    tensors: Sequence[Tensor],
    reference_tensors: Sequence[Tensor],
    where: tuple[str, ...],
) -> Iterator[Difference]:
    """Yield the differences in inputs or outputs: missing, of a different type or shape, or in
    another order.
    """
    first, second = (
        {tensor.name: tensor for tensor in side} for side in (tensors, reference_tensors)
    )
    yield from _presence(kind, first, second, where)
    for name in first:
        if name in second and first[name] != second[name]:
            text, other_name = (
                f"{side[name].dtype} {_shape(side[name].shape)}" for side in (first, second)
            )
            yield Difference(kind, name, _CHANGED, text, other_name, where)
    common = [name for name in first if name in second]
    if common != [name for name in second if name in first]:
        orders = ", ".join(first), ", ".join(second)
        yield Difference(f"Order of {kind.lower()}s", "", _CHANGED, *orders, where=where)


def _shape(shape: Sequence[Any] | None) -> str:
    """Return a shape as text."""
    return "of unknown rank" if shape is None else str(tuple(shape))


def _weight_differences(
    own_weights: Sequence[Weight], reference_weights: Sequence[Weight], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences in weights: missing, renamed, or with other values."""
    first, second = (
        {weight.name: weight for weight in side} for side in (own_weights, reference_weights)
    )
    weights = [weight for name, weight in first.items() if name not in second]
    new = {_identity(weight): weight for name, weight in second.items() if name not in first}
    renamed: set[str] = set()
    for weight in weights:
        equal_weight = new.get(_identity(weight)) if new else None
        if equal_weight is None or equal_weight.name in renamed:
            yield Difference("Initializer", weight.name, _MISSING, where=where)
        else:
            renamed.add(equal_weight.name)
            yield Difference(
                "Initializer", weight.name, _RENAMED, weight.name, equal_weight.name, where=where
            )
    for name, weight in second.items():
        if name not in first and name not in renamed:
            yield Difference("Initializer", name, _EXTRA, where=where)
        elif name in first and (texts := _weight_change(first[name], weight)) is not None:
            yield Difference("Initializer", name, _CHANGED, *texts, where=where)


def _identity(weight: Weight) -> tuple[Any, ...]:
    """Return a key that is equal for weights that differ in name only."""
    digest = b""
    if weight.values is not None:
        contiguous = np.ascontiguousarray(weight.values)
        is_text = contiguous.dtype.kind in "OU"
        content = repr(contiguous.tolist()).encode() if is_text else contiguous.view(np.uint8).data
        digest = blake2b(content, digest_size=16).digest()
    return weight.dtype, weight.shape, digest


def _weight_change(weight: Weight, reference: Weight) -> tuple[str, str] | None:
    """Return kind and text of the difference between two weights of one name, or None.
    The result is None if they are equal.
    """
    if (weight.dtype, weight.shape) != (reference.dtype, reference.shape):
        return f"{weight.dtype} {weight.shape}", f"{reference.dtype} {reference.shape}"
    if weight.values is None or reference.values is None:
        return None
    return None if _identity(weight) == _identity(reference) else _values(weight, reference)


def _values(weight: Weight, reference_weight: Weight) -> tuple[str, str]:
    """Return the first differing element of two arrays as text, one text per array."""
    first, second = np.asarray(weight.values), np.asarray(reference_weight.values)
    are_nan = (first != first) & (second != second)  # noqa: PLR0124  # NaN, in any type
    differing = np.flatnonzero(((first != second) & ~are_nan).reshape(-1))
    if not differing.size:
        return "zeros or NaNs with one sign", "the opposite sign"
    index = np.unravel_index(int(differing[0]), first.shape)
    position = f" at {tuple(map(int, index))}" if first.size > 1 else ""
    more_text = ""
    if first.size > 1:
        count = differing.size
        more_text = (
            f" (first of {count} elements that differ)" if count > 1 else " (no other differs)"
        )
    return str(first[index]) + position, str(second[index]) + more_text


def _node_differences(
    nodes: Sequence[Node], reference_nodes: Sequence[Node], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences in nodes: missing, renamed, or with other attributes or inputs."""
    first, second = _nodes_by_key(nodes), _nodes_by_key(reference_nodes)
    computed = {(node.op, node.outputs): key for key, node in second.items() if key not in first}
    for key, node in first.items():
        if key in second:
            yield from _node(key, node, second[key], where)
            continue
        other_name = computed.pop((node.op, node.outputs), None)
        if other_name is None:
            yield Difference("Node", key, _MISSING, _signature(node), where=where)
        else:
            yield Difference("Node", key, _RENAMED, key, other_name, where=where)
            yield from _node(other_name, node, second[other_name], where)
    for key in computed.values():
        yield Difference("Node", key, _EXTRA, candidate=_signature(second[key]), where=where)


def _nodes_by_key(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return nodes by a unique key: the name, else the first output, else the position."""
    names = Counter(node.name for node in nodes)
    nodes_by_key: dict[str, Node] = {}
    for index, node in enumerate(nodes):
        key = node.name if node.name and names[node.name] == 1 else ""
        key = key or f"{node.op} -> {next(filter(None, node.outputs), index)}"
        nodes_by_key[key if key not in nodes_by_key else f"{key} ({index})"] = node
    return nodes_by_key


def _signature(node: Node) -> str:
    """Return operator, inputs and outputs of a node as text."""
    op = f"{node.domain}.{node.op}" if node.domain else node.op
    return f"{op}({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"


def _node(
    key: str, own_node: Node, reference_node: Node, where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences of two nodes."""
    if _signature(own_node) != _signature(reference_node):
        yield Difference(
            "Node", key, _CHANGED, _signature(own_node), _signature(reference_node), where=where
        )
    first, second = (
        {attribute.name: attribute for attribute in node.attributes}
        for node in (own_node, reference_node)
    )
    for name in dict.fromkeys((*first, *second)):
        label = f"{key}.{name}"
        attribute, other_attribute = first.get(name), second.get(name)
        if attribute is None or other_attribute is None:
            change = _MISSING if other_attribute is None else _EXTRA
            yield Difference(
                "Attribute", label, change, _text(attribute), _text(other_attribute), where=where
            )
        elif attribute.kind == other_attribute.kind == "graph":
            yield from _graphs(attribute.value, other_attribute.value, (*where, label))
        elif attribute.kind == other_attribute.kind == "tensor":
            texts = _weight_change(attribute.value, other_attribute.value)
            if texts is not None:
                yield Difference("Attribute", label, _CHANGED, *texts, where=where)
        elif attribute.kind != other_attribute.kind or not _are_equal(
            attribute.value, other_attribute.value
        ):
            yield Difference(
                "Attribute", label, _CHANGED, _text(attribute), _text(other_attribute), where=where
            )


def _are_equal(value: Any, reference: Any) -> bool:
    """Return whether two attribute values are equal; NaN equals NaN."""
    if isinstance(value, tuple) and isinstance(reference, tuple):
        return len(value) == len(reference) and all(map(_are_equal, value, reference))
    are_nan = all(isinstance(value, float) and isnan(value) for value in (value, reference))
    return are_nan or bool(value == reference)


def _text(attribute: Attribute | None) -> str:
    """Return the value of an attribute as text."""
    if attribute is None:
        return ""
    value = attribute.value
    if isinstance(value, Weight):
        return f"tensor {value.dtype} {value.shape}"
    if isinstance(value, Graph):
        return f"graph {value.name}".rstrip()
    return str(list(value) if isinstance(value, tuple) else value)


NodeLabel = tuple[str, str]
"""Operator and name of a node; without a name, that of its first output."""


@frozen
class Outline:
    """The parts of a model, without their connections.

    Attributes:
        model: its description, without nodes.
        nodes: the number of such nodes in all graphs of the model.
        weights: the number of weights of a name.
    """

    model: Model
    nodes: Mapping[NodeLabel, int]
    weights: Mapping[str, int]


@frozen
class Edit:
    """The differences between a model and its edited copy. Parts with equal names count as equal,
    even if their values or connections differ."""

    removed_nodes: tuple[NodeLabel, ...] = ()
    added_nodes: tuple[NodeLabel, ...] = ()
    removed_weights: tuple[str, ...] = ()
    added_weights: tuple[str, ...] = ()


def edit_between(before: Outline, after: Outline) -> Edit:
    """Return the nodes removed and added between two models, in model order."""
    nodes = Counter(before.nodes), Counter(after.nodes)
    weights = Counter(before.weights), Counter(after.weights)
    return Edit(
        removed_nodes=tuple((nodes[0] - nodes[1]).elements()),
        added_nodes=tuple((nodes[1] - nodes[0]).elements()),
        removed_weights=tuple((weights[0] - weights[1]).elements()),
        added_weights=tuple((weights[1] - weights[0]).elements()),
    )
