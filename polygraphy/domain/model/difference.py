"""In what two models differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from math import isnan
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.model.description import Attribute, Graph, Model, Node, Tensor, Weight

_MISSING, _EXTRA, _CHANGED, _RENAMED = "missing", "extra", "changed", "renamed"


@frozen
class Difference:
    """One thing in which two models differ.

    Attributes:
        what: what it is about, such as ``Node`` or ``Initializer``.
        name: which of these.
        change: ``missing`` or ``extra`` in the second model, ``changed`` or ``renamed``.
        reference: how it is in the first model; empty where it is not there.
        candidate: how it is in the second.
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
    found = [
        *_mappings("Opset", reference.opsets, candidate.opsets),
        *_mappings("Metadata", reference.metadata, candidate.metadata),
    ]
    if reference.ir_version != candidate.ir_version:
        versions = str(reference.ir_version), str(candidate.ir_version)
        found.append(Difference("IR version", "", _CHANGED, *versions))
    found += _graphs(reference.graph, candidate.graph, ())
    mine = {f"{one.domain}.{one.name}": one for one in reference.functions}
    theirs = {f"{one.domain}.{one.name}": one for one in candidate.functions}
    found += _presence("Function", mine, theirs, ())
    for name in mine.keys() & theirs.keys():
        where = (f"function {name}",)
        for what, field in (("Input", "inputs"), ("Output", "outputs")):
            lists = getattr(mine[name], field), getattr(theirs[name], field)
            if lists[0] != lists[1]:
                one, other = map(", ".join, lists)
                found.append(Difference(f"{what}s", "", _CHANGED, one, other, where))
        found += _node_differences(mine[name].nodes, theirs[name].nodes, where)
    return found


def _mappings(
    what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the differences of two mappings, key by key."""
    for name in dict.fromkeys((*mine, *theirs)):
        label = name or "ai.onnx"
        if name not in theirs:
            yield Difference(what, label, _MISSING, str(mine[name]))
        elif name not in mine:
            yield Difference(what, label, _EXTRA, candidate=str(theirs[name]))
        elif mine[name] != theirs[name]:
            yield Difference(what, label, _CHANGED, str(mine[name]), str(theirs[name]))


def _presence(
    what: str, mine: Mapping[str, Any], theirs: Mapping[str, Any], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the names that only one side has."""
    for name in mine:
        if name not in theirs:
            yield Difference(what, name, _MISSING, where=where)
    for name in theirs:
        if name not in mine:
            yield Difference(what, name, _EXTRA, where=where)


def _graphs(mine: Graph, theirs: Graph, where: tuple[str, ...]) -> Iterator[Difference]:
    """Yield the differences of two graphs."""
    yield from _tensor_differences("Input", mine.inputs, theirs.inputs, where)
    yield from _tensor_differences("Output", mine.outputs, theirs.outputs, where)
    yield from _weight_differences(mine.weights, theirs.weights, where)
    yield from _quantization_differences(mine.quantization, theirs.quantization, where)
    yield from _node_differences(mine.nodes, theirs.nodes, where)


def _quantization_differences(
    mine: Mapping[str, tuple[str, ...]],
    theirs: Mapping[str, tuple[str, ...]],
    where: tuple[str, ...],
) -> Iterator[Difference]:
    """Yield the differences in how tensors are quantized."""
    yield from _presence("Quantization", mine, theirs, where)
    for name in mine:
        if name in theirs and mine[name] != theirs[name]:
            texts = ", ".join(mine[name]), ", ".join(theirs[name])
            yield Difference("Quantization", name, _CHANGED, *texts, where=where)


def _tensor_differences(
    what: str, mine: Sequence[Tensor], theirs: Sequence[Tensor], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences in inputs or outputs: missing, of another type or shape, or in
    another order.
    """
    first, second = ({tensor.name: tensor for tensor in side} for side in (mine, theirs))
    yield from _presence(what, first, second, where)
    for name in first:
        if name in second and first[name] != second[name]:
            one, other = (
                f"{side[name].dtype} {_shape(side[name].shape)}" for side in (first, second)
            )
            yield Difference(what, name, _CHANGED, one, other, where)
    common = [name for name in first if name in second]
    if common != [name for name in second if name in first]:
        orders = ", ".join(first), ", ".join(second)
        yield Difference(f"Order of {what.lower()}s", "", _CHANGED, *orders, where=where)


def _shape(shape: Sequence[Any] | None) -> str:
    """Return a shape as text."""
    return "of unknown rank" if shape is None else str(tuple(shape))


def _weight_differences(
    mine: Sequence[Weight], theirs: Sequence[Weight], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences in weights: missing, renamed, or with other values."""
    first, second = ({weight.name: weight for weight in side} for side in (mine, theirs))
    gone = [weight for name, weight in first.items() if name not in second]
    new = {_identity(weight): weight for name, weight in second.items() if name not in first}
    renamed: set[str] = set()
    for weight in gone:
        same = new.get(_identity(weight)) if new else None
        if same is None or same.name in renamed:
            yield Difference("Initializer", weight.name, _MISSING, where=where)
        else:
            renamed.add(same.name)
            yield Difference(
                "Initializer", weight.name, _RENAMED, weight.name, same.name, where=where
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
    """Return kind and text of the difference between two weights of one name; None if they are
    equal.
    """
    if (weight.dtype, weight.shape) != (reference.dtype, reference.shape):
        return f"{weight.dtype} {weight.shape}", f"{reference.dtype} {reference.shape}"
    if weight.values is None or reference.values is None:
        return None
    return None if _identity(weight) == _identity(reference) else _values(weight, reference)


def _values(mine: Weight, theirs: Weight) -> tuple[str, str]:
    """Return the first differing element of two arrays as text, for each side."""
    first, second = np.asarray(mine.values), np.asarray(theirs.values)
    are_nan = (first != first) & (second != second)  # noqa: PLR0124  # NaN, in any type
    differing = np.flatnonzero(((first != second) & ~are_nan).reshape(-1))
    if not differing.size:
        return "zeros or NaNs of one sign", "of another"
    index = np.unravel_index(int(differing[0]), first.shape)
    place = f"at {tuple(map(int, index))}" if first.shape else ""
    return (
        f"{first[index]} {place}".rstrip(),
        f"{second[index]} (first of {differing.size} elements that differ)",
    )


def _node_differences(
    mine: Sequence[Node], theirs: Sequence[Node], where: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the differences in nodes: missing, renamed, or with other attributes or inputs."""
    first, second = _by_key(mine), _by_key(theirs)
    computed = {(node.op, node.outputs): key for key, node in second.items() if key not in first}
    for key, node in first.items():
        if key in second:
            yield from _node(key, node, second[key], where)
            continue
        other = computed.pop((node.op, node.outputs), None)
        if other is None:
            yield Difference("Node", key, _MISSING, _signature(node), where=where)
        else:
            yield Difference("Node", key, _RENAMED, key, other, where=where)
            yield from _node(other, node, second[other], where)
    for key in computed.values():
        yield Difference("Node", key, _EXTRA, candidate=_signature(second[key]), where=where)


def _by_key(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return nodes by a unique key: the name, else the first output, else the position."""
    names = Counter(node.name for node in nodes)
    made: dict[str, Node] = {}
    for index, node in enumerate(nodes):
        key = node.name if node.name and names[node.name] == 1 else ""
        key = key or f"{node.op} -> {next(filter(None, node.outputs), index)}"
        made[key if key not in made else f"{key} ({index})"] = node
    return made


def _signature(node: Node) -> str:
    """Return operator, inputs and outputs of a node as text."""
    op = f"{node.domain}.{node.op}" if node.domain else node.op
    return f"{op}({', '.join(node.inputs)}) -> {', '.join(node.outputs)}"


def _node(key: str, mine: Node, theirs: Node, where: tuple[str, ...]) -> Iterator[Difference]:
    """Yield the differences of two nodes."""
    if _signature(mine) != _signature(theirs):
        yield Difference("Node", key, _CHANGED, _signature(mine), _signature(theirs), where=where)
    first, second = ({one.name: one for one in node.attributes} for node in (mine, theirs))
    for name in dict.fromkeys((*first, *second)):
        label = f"{key}.{name}"
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            change = _MISSING if other is None else _EXTRA
            yield Difference("Attribute", label, change, _text(one), _text(other), where=where)
        elif one.kind == other.kind == "graph":
            yield from _graphs(one.value, other.value, (*where, label))
        elif one.kind == other.kind == "tensor":
            texts = _weight_change(one.value, other.value)
            if texts is not None:
                yield Difference("Attribute", label, _CHANGED, *texts, where=where)
        elif one.kind != other.kind or not _are_equal(one.value, other.value):
            yield Difference("Attribute", label, _CHANGED, _text(one), _text(other), where=where)


def _are_equal(value: Any, reference: Any) -> bool:
    """Return whether two attribute values are equal; NaN equals NaN."""
    if isinstance(value, tuple) and isinstance(reference, tuple):
        return len(value) == len(reference) and all(map(_are_equal, value, reference))
    are_nan = all(isinstance(each, float) and isnan(each) for each in (value, reference))
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
"""The operator of a node, and its name, or that of its first result where it has none."""


@frozen
class Outline:
    """What a model consists of, without how its parts are connected.

    Attributes:
        model: its description, without nodes.
        nodes: how often there is such a node, in all graphs of the model.
        weights: how often there is a weight of a name.
    """

    model: Model
    nodes: Mapping[NodeLabel, int]
    weights: Mapping[str, int]


@frozen
class Edit:
    """In what parts a model differs from what it was before it was edited. What has the same name
    counts as the same, also when it is connected to something else or has another value.
    """

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
