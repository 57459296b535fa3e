"""In what a model and another export of its program differ: node by node, in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from attrs import Factory, define, frozen

from polygraphy.domain.diagnosis.exported import same_weight
from polygraphy.domain.diagnosis.pairing import weight_digest
from polygraphy.domain.model.description import Graph, Node, Weight
from polygraphy.domain.rounding import Deviation, deviation
from polygraphy.domain.tensors.precision import is_float

_IDLE = frozenset({"Constant", "Identity"})
"""Nodes that compute nothing: exporters leave them, or not, for reasons of their own."""


@frozen
class Spot:
    """A constant of a node that is another one in the other export.

    Attributes:
        twin: the position of the node in the other export.
        node: the node of the model.
        name: the attribute, or the tensor that holds the constant.
        value: what it is; None where the node computes with what another node makes.
        expected: what it is in the other export, likewise.
        operand: the position of the tensor; None for an attribute.
    """

    twin: int
    node: Node
    name: str
    value: Any
    expected: Any
    operand: int | None = None

    @property
    def key(self) -> tuple[int, int | str]:
        """Return the position of the constant in the other export."""
        return self.twin, self.name if self.operand is None else self.operand

    @property
    def deviation(self) -> Deviation:
        """Return the deviation from the constant in the other export."""
        return deviation(np.asarray(self.value), np.asarray(self.expected))

    @property
    def is_weight(self) -> bool:
        """Whether it may be a parameter: floats, as many in both."""
        both = [np.asarray(each) for each in (self.value, self.expected)]
        is_number = self.operand is not None and all(map(is_float, both))
        return is_number and both[0].shape == both[1].shape


@define
class TwinDifferences:
    """In what two exports differ.

    Attributes:
        spots: the constants that differ.
        extra: nodes that only the model has.
        missing: the positions of nodes that only the other export has.
        turned: nodes of the model that read other tensors than their twins.
        weights: how many weights the other export has.
        matched: the share of nodes that both have, of the larger one.
    """

    spots: list[Spot] = Factory(list)
    extra: list[Node] = Factory(list)
    missing: list[int] = Factory(list)
    turned: list[Node] = Factory(list)
    weights: int = 0
    matched: float = 1.0

    def __bool__(self) -> bool:
        return bool(self.spots or self.has_other_nodes)

    @property
    def has_other_nodes(self) -> bool:
        """Whether they differ in more than constants."""
        return bool(self.extra or self.missing or self.turned)


def computing_nodes(graph: Graph) -> list[Node]:
    """Return the nodes of a graph that compute something."""
    return [node for node in graph.nodes if node.op not in _IDLE]


def compare_twins(model: Graph, again: Graph) -> TwinDifferences:
    """Return the constants and nodes in which two exports of a program differ.

    Args:
        model: the model, with the values of its weights.
        again: the other export, likewise.
    """
    mine, theirs = computing_nodes(model), computing_nodes(again)
    held = [{each.name: each for each in graph.all_weights} for graph in (model, again)]
    aliases = [_aliases(graph) for graph in (model, again)]
    found = TwinDifferences()
    names = {a.name: b.name for a, b in zip(_inputs(model, held[0]), _inputs(again, held[1]))}
    pairs: list[tuple[Node, int]] = []
    keys = [[_with_weights(n, a, h) for n in ns] for ns, a, h in zip((mine, theirs), aliases, held)]
    kinds = [[_kind(node) for node in nodes] for nodes in (mine, theirs)]
    for here, there in _aligned(keys, kinds):
        if here and there:
            pairs.append((mine[here[0]], there[0]))
        found.extra += [mine[index] for index in here] if not there else []
        found.missing += there if not here else []
    for node, position in pairs:
        names |= dict(zip(filter(None, node.outputs), filter(None, theirs[position].outputs)))
    for node, position in pairs:
        twin = theirs[position]
        found.spots += _attributes(node, twin, position)
        for index in range(max(len(node.inputs), len(twin.inputs))):
            own, other = (
                aliases[side].get(name, name)
                for side, name in enumerate(
                    each.inputs[index] if index < len(each.inputs) else "" for each in (node, twin)
                )
            )
            weights = held[0].get(own), held[1].get(other)
            values = [None if each is None else each.values for each in weights]
            if all(each is not None for each in values):
                if _differ(*values):
                    found.spots.append(Spot(position, node, own, values[0], values[1], index))
            elif any(each is not None for each in values):
                name = own or other
                found.spots.append(Spot(position, node, name, values[0], values[1], index))
            elif own in names and names[own] != other and not found.extra and not found.missing:
                found.turned.append(node)
    read = {name for node in theirs for name in node.inputs} & held[1].keys()
    found.weights = sum(
        held[1][name].dtype in ("float32", "float64", "float16", "bfloat16")
        and len(held[1][name].shape) > 0
        for name in read
    )
    found.matched = len(pairs) / max(len(mine), len(theirs), 1)
    return found


def _kind(node: Node) -> tuple[str, str, int]:
    """Return operator, domain and number of outputs of a node."""
    return node.op, node.domain if node.domain != "ai.onnx" else "", len(node.outputs)


def _with_weights(node: Node, aliases: Mapping[str, str], held: Mapping[str, Weight]) -> Hashable:
    """Return a key shared by nodes that compute with the same weights."""
    read = [aliases.get(name, name) for name in node.inputs]
    return _kind(node), tuple(weight_digest(held[name]) for name in read if name in held)


def _aligned(
    keys: Sequence[Sequence[Hashable]], kinds: Sequence[Sequence[Hashable]]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield positions of matching nodes, and of nodes that only one export has: matched by weights
    first if some are missing, then by operator.
    """
    if list(kinds[0]) == list(kinds[1]):
        yield from (([index], [index]) for index in range(len(kinds[0])))
        return
    for kind, *bounds in SequenceMatcher(None, keys[0], keys[1], False).get_opcodes():
        start, stop, other_start, other_stop = bounds
        if kind == "equal":
            yield from (
                ([a], [b]) for a, b in zip(range(start, stop), range(other_start, other_stop))
            )
            continue
        rest = kinds[0][start:stop], kinds[1][other_start:other_stop]
        for inner, a, b, c, d in SequenceMatcher(None, rest[0], rest[1], False).get_opcodes():
            own, other = range(start + a, start + b), range(other_start + c, other_start + d)
            if inner == "equal":
                yield from (([one], [two]) for one, two in zip(own, other))
            else:
                yield [*own], []
                yield [], [*other]


def is_statistic(spot: Spot, parameters: Sequence[Any]) -> bool:
    """Return whether running statistics of BatchNorm explain a constant that differs.

    Args:
        spot: the constant.
        parameters: the weights of the program: one of these was not folded.
    """
    op, expected = spot.node.op, np.asarray(spot.expected, np.float64)
    if op == "BatchNormalization":
        return spot.operand in (3, 4)
    if op not in ("Conv", "ConvTranspose") or any(same_weight(expected, p) for p in parameters):
        return False
    if spot.operand != 1:
        return True
    axis = 0 if op == "Conv" else 1
    first, second = (
        np.moveaxis(np.asarray(each, np.float64), axis, 0).reshape(expected.shape[axis], -1)
        for each in (spot.value, expected)
    )
    sizes = np.maximum(np.sum(np.square(second), 1), 1e-30)
    scaled = second * (np.sum(first * second, 1) / sizes)[:, None]
    return bool(np.allclose(first, scaled, rtol=1e-3, atol=1e-4 * np.max(np.abs(first), initial=0)))


def _inputs(graph: Graph, held: Any) -> list[Any]:
    """Return the inputs of a graph that are not weights."""
    return [each for each in graph.inputs if each.name not in held]


def _aliases(graph: Graph) -> dict[str, str]:
    """Return a map from Identity outputs to their inputs."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "Identity":
            found[node.outputs[0]] = found.get(node.inputs[0], node.inputs[0])
    return found


def _attributes(node: Node, twin: Node, position: int) -> Iterator[Spot]:
    """Yield the places of attributes that differ between two nodes."""
    for name in dict.fromkeys(each.name for each in (*node.attributes, *twin.attributes)):
        both = [next((a for a in n.attributes if a.name == name), None) for n in (node, twin)]
        if all(each is None or each.is_default for each in both):
            continue
        values = [None if each is None else each.value for each in both]
        if any(isinstance(each, Graph) for each in values):
            continue
        arrays = [getattr(each, "values", each) for each in values]
        if _differ(*arrays):
            yield Spot(position, node, name, *arrays)


def _differ(value: Any, other: Any) -> bool:
    """Return whether two arrays differ by more than rounding."""
    if value is None or other is None:
        return value is not other
    first, second = np.asarray(value), np.asarray(other)
    if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
        return True
    return bool(deviation(first, second)) if is_float(first) else not np.array_equal(first, second)


def unlike(spots: Sequence[Spot], others: TwinDifferences) -> list[Spot]:
    """Return the constants that differ between two exports of one program, so that they depend on
    the example.
    """
    changing = {spot.key for spot in others.spots}
    return [spot for spot in spots if spot.key in changing]
