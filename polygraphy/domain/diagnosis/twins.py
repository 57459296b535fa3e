"""Differences between a model and another export of its program: node by node, in order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from attrs import Factory, define, frozen

from polygraphy.domain.diagnosis.exported import same_weight
from polygraphy.domain.model.graph import (
    Graph,
    Node,
    Weight,
    is_float_cast,
    weight_digest,
)
from polygraphy.domain.rounding import Deviation, deviation
from polygraphy.domain.tensors.precision import is_float

_IDLE = frozenset({"Constant", "Identity"})
"""Nodes that compute nothing: exporters leave them, or not, for reasons of their own."""


@frozen
class Spot:
    """A constant of a node that differs in another export of the program.

    Attributes:
        twin: the position of the node in the other export.
        node: the node of the model.
        name: the attribute, or the tensor that holds the constant.
        value: its value; None if the node reads the output of another node.
        expected: its value in the other export, likewise.
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
        """Return the node of the other export with the constant, and its operand or attribute."""
        return self.twin, self.name if self.operand is None else self.operand

    @property
    def deviation(self) -> Deviation:
        """Return the deviation from the constant in the other export."""
        return deviation(np.asarray(self.value), np.asarray(self.expected))

    @property
    def is_weight(self) -> bool:
        """Return whether the constant may be a parameter: floats, equally many in both exports."""
        arrays = [np.asarray(value) for value in (self.value, self.expected)]
        is_number = self.operand is not None and all(map(is_float, arrays))
        return is_number and arrays[0].shape == arrays[1].shape


@define
class TwinDifferences:
    """The differences between two exports of one program.

    Attributes:
        spots: the constants that differ.
        extra: nodes that only the model has.
        missing: the positions of nodes that only the other export has.
        turned: nodes of the model that read other tensors than their twins, each with the position
            of its twin.
        weights: the number of weights of the other export.
        matched: the share of nodes that both have, of the larger one.
    """

    spots: list[Spot] = Factory(list)
    extra: list[Node] = Factory(list)
    missing: list[int] = Factory(list)
    turned: list[tuple[Node, int]] = Factory(list)
    weights: int = 0
    matched: float = 1.0

    def __bool__(self) -> bool:
        """Return whether there are any differences."""
        return bool(self.spots or self.has_other_nodes)

    @property
    def has_other_nodes(self) -> bool:
        """Return whether nodes differ, and not only constants."""
        return bool(self.extra or self.missing or self.turned)


def computing_nodes(graph: Graph) -> list[Node]:
    """Return the nodes of a graph except constants and Identity;
    also except casts between floating-point types if weights are compared in a less precise
    type."""
    nodes = [node for node in graph.nodes if node.op not in _IDLE]
    return nodes if graph.narrow is None else [node for node in nodes if not is_float_cast(node)]


def compare_twins(model: Graph, again: Graph) -> TwinDifferences:
    """Return the constants and nodes in which two exports of a program differ.

    Args:
        model: the model, with the values of its weights.
        again: the other export, likewise.
    """
    own_nodes, reference_nodes = computing_nodes(model), computing_nodes(again)
    held_weights = [
        {all_weight.name: all_weight for all_weight in graph.all_weights}
        for graph in (model, again)
    ]
    aliases = [_aliases(graph) for graph in (model, again)]
    twin_differences = TwinDifferences()
    names = {
        a.name: b.name
        for a, b in zip(
            _inputs_without(model, held_weights[0]), _inputs_without(again, held_weights[1])
        )
    }
    pairs: list[tuple[Node, int]] = []
    keys = [
        [_weights_key(n, a, h) for n in ns]
        for ns, a, h in zip((own_nodes, reference_nodes), aliases, held_weights)
    ]
    kinds = [[_kind(node) for node in nodes] for nodes in (own_nodes, reference_nodes)]
    for own_position, other_position in _align_keys(keys, kinds):
        if own_position and other_position:
            pairs.append((own_nodes[own_position[0]], other_position[0]))
        twin_differences.extra += (
            [own_nodes[index] for index in own_position] if not other_position else []
        )
        twin_differences.missing += other_position if not own_position else []
    for node, position in pairs:
        names |= dict(
            zip(filter(None, node.outputs), filter(None, reference_nodes[position].outputs))
        )
    for node, position in pairs:
        twin = reference_nodes[position]
        twin_differences.spots += _attributes(node, twin, position)
        for index in range(max(len(node.inputs), len(twin.inputs))):
            own_name, other_name = (
                aliases[side].get(name, name)
                for side, name in enumerate(
                    node.inputs[index] if index < len(node.inputs) else "" for node in (node, twin)
                )
            )
            weights = held_weights[0].get(own_name), held_weights[1].get(other_name)
            values = [None if weight is None else weight.values for weight in weights]
            if all(value is not None for value in values):
                if _is_different(*values):
                    twin_differences.spots.append(
                        Spot(position, node, own_name, values[0], values[1], index)
                    )
            elif any(value is not None for value in values):
                name = own_name or other_name
                twin_differences.spots.append(
                    Spot(position, node, name, values[0], values[1], index)
                )
            elif (
                own_name in names
                and names[own_name] != other_name
                and not twin_differences.extra
                and not twin_differences.missing
            ):
                twin_differences.turned.append((node, position))
    read = {name for node in reference_nodes for name in node.inputs} & held_weights[1].keys()
    twin_differences.weights = sum(
        held_weights[1][name].dtype in ("float32", "float64", "float16", "bfloat16")
        and len(held_weights[1][name].shape) > 0
        for name in read
    )
    twin_differences.matched = len(pairs) / max(len(own_nodes), len(reference_nodes), 1)
    return twin_differences


def _kind(node: Node) -> tuple[str, str, int]:
    """Return operator, domain and number of outputs of a node."""
    return node.op, node.domain if node.domain != "ai.onnx" else "", len(node.outputs)


def _weights_key(node: Node, aliases: Mapping[str, str], weights: Mapping[str, Weight]) -> Hashable:
    """Return a key shared by nodes that compute with the same weights."""
    read = [aliases.get(name, name) for name in node.inputs]
    return _kind(node), tuple(weight_digest(weights[name]) for name in read if name in weights)


def _align_keys(
    keys: Sequence[Sequence[Hashable]], kinds: Sequence[Sequence[Hashable]]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield positions of matching nodes, and those of nodes that one export lacks.

    Nodes are matched by weights first if some are missing, then by operator.
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
        rest_kinds = kinds[0][start:stop], kinds[1][other_start:other_stop]
        for inner, a, b, c, d in SequenceMatcher(
            None, rest_kinds[0], rest_kinds[1], False
        ).get_opcodes():
            own_range, other_range = range(start + a, start + b), range(
                other_start + c, other_start + d
            )
            if inner == "equal":
                yield from (([index], [two]) for index, two in zip(own_range, other_range))
            else:
                yield [*own_range], []
                yield [], [*other_range]


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
        np.moveaxis(np.asarray(array, np.float64), axis, 0).reshape(expected.shape[axis], -1)
        for array in (spot.value, expected)
    )
    sizes = np.maximum(np.sum(np.square(second), 1), 1e-30)
    scaled = second * (np.sum(first * second, 1) / sizes)[:, None]
    return bool(np.allclose(first, scaled, rtol=1e-3, atol=1e-4 * np.max(np.abs(first), initial=0)))


def _inputs_without(graph: Graph, names: Any) -> list[Any]:
    """Return the inputs of a graph, except those with some names."""
    return [input_name for input_name in graph.inputs if input_name.name not in names]


def _aliases(graph: Graph) -> dict[str, str]:
    """Return a map from Identity outputs to their inputs."""
    aliases: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "Identity":
            aliases[node.outputs[0]] = aliases.get(node.inputs[0], node.inputs[0])
    return aliases


def _attributes(node: Node, twin: Node, position: int) -> Iterator[Spot]:
    """Yield the attributes that differ between two nodes."""
    for name in dict.fromkeys(attribute.name for attribute in (*node.attributes, *twin.attributes)):
        attributes = [next((a for a in n.attributes if a.name == name), None) for n in (node, twin)]
        if all(attribute is None or attribute.is_default for attribute in attributes):
            continue
        values = [None if attribute is None else attribute.value for attribute in attributes]
        if any(isinstance(value, Graph) for value in values):
            continue
        arrays = [getattr(value, "values", value) for value in values]
        if _is_different(*arrays):
            yield Spot(position, node, name, *arrays)


def _is_different(value: Any, other_value: Any) -> bool:
    """Return whether two arrays differ by more than rounding."""
    if value is None or other_value is None:
        return value is not other_value
    first, second = np.asarray(value), np.asarray(other_value)
    if first.shape != second.shape:
        return True
    if is_float(first) and is_float(second):  # NumPy knows no kind of bfloat16.
        return deviation(first, second).is_wrong
    return first.dtype.kind != second.dtype.kind or not np.array_equal(first, second)


def example_constants(spots: Sequence[Spot], twin_differences: TwinDifferences) -> list[Spot]:
    """Return the constants that also differ between two exports of one program, and so depend on
    the example."""
    changing = {spot.key for spot in twin_differences.spots}
    return [spot for spot in spots if spot.key in changing]
