"""Pairs of equal nodes of two models, with any names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.domain.model.graph import (
    FLOATS,
    Graph,
    Node,
    Tensor,
    attribute_digests,
    is_float_cast,
)
from polygraphy.domain.quantization.sites import is_coarse

_MOST = 0.5
"""With this share of equal tensor names, two models are paired by name. Chosen, not measured."""

Key = Hashable


_SHORT = 8
"""Elements of the largest constant that is shown."""
_CODES = frozenset({"int4", "uint4", "int8", "uint8"})
"""The types of weights that are codes, if they are converted to floating point."""


@frozen
class Pairing:
    """The corresponding nodes and tensors of two graphs.

    Attributes:
        model: the first graph.
        reference: the second.
        nodes: positions of nodes of the first, and of those in the second that are the same.
        tensors: the same for names of tensors.
    """

    model: Graph
    reference: Graph
    nodes: dict[int, int] = field(factory=dict)
    tensors: dict[str, str] = field(factory=dict)

    def pair(self, index: int, other_index: int) -> None:
        """Record two nodes, and their outputs, as corresponding."""
        self.nodes[index] = other_index
        outputs, reference_outputs = (
            self.model.nodes[index].outputs,
            self.reference.nodes[other_index].outputs,
        )
        self.tensors.update((a, b) for a, b in zip(outputs, reference_outputs) if a and b)


def pair_graphs(model: Graph, reference: Graph, around: Pairing | None = None) -> Pairing:
    """Return the pairing of two graphs: by tensor names if most are equal, else by structure,
    forward from the inputs and backward from the outputs.

    Args:
        model: the first graph.
        reference: the second.
        around: the pairs in the surrounding graphs, if they are bodies of nodes.
    """
    if around is not None:
        sides = around.model, around.reference
        pairing = Pairing(
            _comparable_graph(model, sides[0].narrow, sides[0]),
            _comparable_graph(reference, sides[1].narrow, sides[1]),
        )
        pairing.tensors.update(around.tensors)
        return _complete_pairing(pairing)
    return _complete_pairing(Pairing(*comparable_graphs(model, reference)))


def comparable_graphs(
    model: Graph, reference: Graph, narrow_types: Collection[str] = FLOATS
) -> tuple[Graph, Graph]:
    """Return two graphs to be compared: if one has floating-point weights of another type, without
    regard to casts between such types.

    Args:
        model: the first graph.
        reference: the second.
        narrow_types: the types for which this holds if they are the less precise ones.
    """
    types = [
        {weight.dtype for weight in graph.all_weights} & set(FLOATS) for graph in (model, reference)
    ]
    differing = types[0] ^ types[1] if all(types) else set()
    narrow = (
        min(differing, key=FLOATS.index) if len(types[0] | types[1]) > 1 and differing else None
    )
    if narrow not in narrow_types:
        narrow = None
    return _comparable_graph(model, narrow), _comparable_graph(reference, narrow)


def pair_interfaces(model: Graph, reference: Graph) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield kind, tensor and reference tensor of matching inputs and outputs.
    They match by name, or else by position.
    """
    for kind, tensors, key in (
        ("input", model.inputs, reference.inputs),
        ("output", model.outputs, reference.outputs),
    ):
        named = {tensor.name: tensor for tensor in key}
        own_names = {tensor.name for tensor in tensors}
        for position, tensor in enumerate(tensors):
            if tensor.name in named:
                yield kind, tensor, named[tensor.name]
            elif position < len(key) and key[position].name not in own_names:
                yield kind, tensor, key[position]


def paired_outputs(pairing: Pairing) -> dict[str, str]:
    """Return the names of the outputs in the reference, by those of the model.
    An inner tensor of the other model can have the name of an output."""
    pairs = pair_interfaces(pairing.model, pairing.reference)
    return {tensor.name: twin.name for kind, tensor, twin in pairs if kind == "output"}


def _complete_pairing(pairing: Pairing) -> Pairing:
    """Pair the remaining tensors of two models, by interface, name and structure, and return the
    pairing.
    """
    for _, tensor, twin in pair_interfaces(pairing.model, pairing.reference):
        pairing.tensors[tensor.name] = twin.name
    _pair_by_names(pairing)
    _pair_by_structure(pairing)
    _pair_crossed_outputs(pairing)
    while crossed := _crossed_nodes(pairing):
        for index, other_index in crossed.items():
            pairing.pair(index, other_index)
    return pairing


def _pair_crossed_outputs(pairing: Pairing) -> None:
    """Pair the nodes that compute the same output in both models if they were paired crosswise:
    two exchanged outputs can have the same structure."""
    model, reference = pairing.model, pairing.reference
    crossed: list[tuple[str, str, int, int]] = []
    for kind, tensor, twin in pair_interfaces(model, reference):
        index, other_index = model.operation_producers.get(
            tensor.name
        ), reference.operation_producers.get(twin.name)
        if kind != "output" or index is None or other_index is None:
            continue
        if index in pairing.nodes and pairing.tensors.get(tensor.name) != twin.name:
            crossed.append((tensor.name, twin.name, index, other_index))
    pairs = {index: other_index for _, _, index, other_index in crossed}
    is_exchange = {pairing.nodes[index] for index in pairs} == {*pairs.values()}
    if is_exchange:
        for index, other_index in pairs.items():
            pairing.pair(index, other_index)
        pairing.tensors.update((name, twin) for name, twin, _, _ in crossed)


def _crossed_nodes(pairing: Pairing) -> dict[int, int]:
    """Return nodes that were paired crosswise because each reads what the other should,
    with the nodes of the same names, if the nodes that read their outputs are paired by the
    same names."""
    model, reference = pairing.model, pairing.reference
    twins = {
        index: reference.operation_producers[node.makes[0]]
        for index, node in model.operations.items()
        if index in pairing.nodes and node.makes and node.makes[0] in reference.operation_producers
    }
    crossed = {
        index: twin
        for index, twin in twins.items()
        if pairing.nodes[index] != twin
        and _kind(model.nodes[index]) == _kind(reference.nodes[twin])
        and model.nodes[index].outputs == reference.nodes[twin].outputs
        and _have_readers_same_names(pairing, model.nodes[index])
    }
    while True:
        partners, wanted = {pairing.nodes[index] for index in crossed}, {*crossed.values()}
        exchanged = {
            index: twin
            for index, twin in crossed.items()
            if twin in partners and pairing.nodes[index] in wanted
        }
        if len(exchanged) == len(crossed):
            return crossed
        crossed = exchanged


def _have_readers_same_names(pairing: Pairing, node: Node) -> bool:
    """Return whether a node has readers, and their counterparts read tensors of the same names."""
    operands = [
        (name, reader, position)
        for name in node.makes
        for reader, position in pairing.model.readers.get(name, ())
    ]
    return bool(operands) and all(
        reader in pairing.nodes
        and name in pairing.reference.nodes[pairing.nodes[reader]].inputs[position : position + 1]
        for name, reader, position in operands
    )


def _pair_by_names(pairing: Pairing) -> None:
    """Pair the nodes that have the same outputs and operator in both models."""
    model, reference = pairing.model, pairing.reference
    common = model.operation_producers.keys() & reference.operation_producers.keys()
    if len(common) < _MOST * min(
        len(model.operation_producers), len(reference.operation_producers)
    ):
        return
    for name in model.operation_producers:
        if name not in common:
            continue
        index, other_index = model.operation_producers[name], reference.operation_producers[name]
        node, twin = model.nodes[index], reference.nodes[other_index]
        # A generated name may belong to a different tensor in the other model.
        if index in pairing.nodes or not set(node.inputs) & set(twin.inputs):
            continue
        if _kind(node) == _kind(twin) and node.inputs == twin.inputs:
            pairing.pair(index, other_index)
        elif _kind(node) != _kind(twin):
            pairing.tensors.setdefault(name, name)


def _pair_by_structure(pairing: Pairing) -> None:
    """Pair the remaining nodes by structure, the most certain pairs first,
    because each pair helps the next ones."""
    rounds: list[Callable[[], bool]] = [
        lambda: _pair_forward(pairing, _exact_key),
        lambda: _pair_backward(pairing, _exact_parameters),
        lambda: _pair_forward(pairing, _shape_key),
        lambda: _pair_forward(pairing, _key_without_order),
        lambda: _pair_backward(pairing, _parameter_key),
        lambda: _pair_forward(pairing, _partial_key),
        lambda: _pair_backward(pairing, _any_parameters),
        lambda: _pair_forward(pairing, _exact_key, allows_several=True),
        lambda: _pair_forward(pairing, _shape_key, allows_several=True),
    ]
    while any(step() for step in rounds):
        pass


def _pair_forward(
    pairing: Pairing,
    key: Callable[[Graph, Node, Mapping[str, str] | None], Key],
    allows_several: bool = False,
) -> bool:
    """Pair nodes with paired inputs and equal keys; return whether any was paired.
    A key is unique, or equally many nodes have it on both sides.
    """
    nodes = set(pairing.nodes.values())
    tensors = set(pairing.tensors.values())
    reference_groups: dict[Key, list[int]] = defaultdict(list)
    for index, node in pairing.reference.operations.items():
        if index not in nodes and _are_inputs_known(pairing.reference, node, tensors):
            reference_groups[key(pairing.reference, node, None)].append(index)
    own_groups: dict[Key, list[int]] = defaultdict(list)
    for index, node in pairing.model.operations.items():
        if index not in pairing.nodes and _are_inputs_known(pairing.model, node, pairing.tensors):
            own_groups[key(pairing.model, node, pairing.tensors)].append(index)
    forward = False
    for name, indices in own_groups.items():
        other_indices = reference_groups.get(name, [])
        if len(indices) == len(other_indices) and (len(other_indices) == 1 or allows_several):
            for number, other_index in zip(indices, other_indices):
                pairing.pair(number, other_index)
            forward = True
    return forward


def _are_inputs_known(side: Graph, node: Node, is_paired: Any) -> bool:
    """Return whether all inputs of a node are weights or known."""
    return all(not name or name in side.constants or name in is_paired for name in node.inputs)


def _pair_backward(pairing: Pairing, key: Callable[[Graph, Node], Key]) -> bool:
    """Pair nodes whose outputs feed equal inputs of paired nodes; return whether any was paired."""
    nodes = set(pairing.nodes.values())
    backward = False
    votes: dict[int, set[int]] = defaultdict(set)
    for index, node in pairing.nodes.items():
        for a, b in zip(pairing.model.nodes[index].inputs, pairing.reference.nodes[node].inputs):
            first, two = pairing.model.operation_producers.get(
                a
            ), pairing.reference.operation_producers.get(b)
            if (
                first is not None
                and two is not None
                and first not in pairing.nodes
                and two not in nodes
            ):
                votes[first].add(two)
    for name, their_name in list(pairing.tensors.items()):
        first = pairing.model.operation_producers.get(name)
        two = pairing.reference.operation_producers.get(their_name)
        if (
            first is not None
            and two is not None
            and first not in pairing.nodes
            and two not in nodes
        ):
            votes[first].add(two)
    for first, vote in votes.items():
        unused = [
            two
            for two in vote
            if two not in nodes
            and key(pairing.model, pairing.model.nodes[first])
            == key(pairing.reference, pairing.reference.nodes[two])
        ]
        if len(unused) == 1 and len(vote) == 1:
            pairing.pair(first, unused[0])
            nodes.add(unused[0])
            backward = True
    return backward


def _kind(node: Node) -> tuple[str, str]:
    """Return domain and operator of a node."""
    return (
        node.domain.replace("ai.onnx", "", 1) if node.domain == "ai.onnx" else node.domain
    ), node.op


def _operand(side: Graph, name: str, names: Mapping[str, str] | None, exact: bool) -> Key:
    """Return the key of an operand: weights by type and shape, if exact also by content."""
    if name in side.constants:
        weight = side.constants[name]
        dtype = weight.dtype if side.narrow is None else ""
        return ("weight", dtype, weight.shape, side.digest(name) if exact else "")
    return ("tensor", name if names is None else names.get(name, name))


def _exact_key(side: Graph, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands, weights by content."""
    operands = tuple(_operand(side, name, names, True) for name in node.inputs)
    return _kind(node), operands, attribute_digests(node)


def _shape_key(side: Graph, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands, weights by shape."""
    return _kind(node), tuple(_operand(side, name, names, False) for name in node.inputs)


def _key_without_order(side: Graph, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands in any order, weights by shape."""
    operands = (_operand(side, name, names, False) for name in node.inputs)
    return _kind(node), tuple(sorted(operands, key=repr))


def _partial_key(side: Graph, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return a key of the node's operator and tensor inputs, whatever its weights are."""
    read = (name for name in node.inputs if name and name not in side.constants)
    return _kind(node), tuple(name if names is None else names.get(name, name) for name in read)


def _exact_parameters(side: Graph, node: Node) -> Key:
    """Return the key of a node by its weights and attributes."""
    digests = tuple(side.digest(name) if name in side.constants else "" for name in node.inputs)
    return _kind(node), digests, attribute_digests(node)


def _parameter_key(side: Graph, node: Node) -> Key:
    """Return the key of a node by the shapes of its weights."""
    return _kind(node), tuple(
        side.constants[name].shape if name in side.constants else None for name in node.inputs
    )


def _any_parameters(side: Graph, node: Node) -> Key:
    """Return the key of a node by its operator alone."""
    return _kind(node)


def _comparable_graph(graph: Graph, narrow: str | None, around: Graph | None = None) -> Graph:
    """Return a graph to be paired, with the same numbering of nodes.

    Args:
        graph: the graph.
        narrow: the less precise type, if the other graph has floating-point numbers of another
            type: readers of a cast between such types then read its input instead.
        around: the graph around it, whose weights it sees, if it is the body of a node.
    """
    outer_weights = () if around is None else tuple(around.constants.values())
    nodes = graph.nodes if narrow is None else tuple(_skip_casts(graph.nodes))
    if narrow is None and not outer_weights:
        return graph
    return evolve(graph, weights=(*outer_weights, *graph.weights), nodes=nodes, narrow=narrow)


def _skip_casts(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes; those that read a cast to a floating-point type read its input instead."""
    names: dict[str, str] = {}
    for node in nodes:
        read = tuple(names.get(name, name) for name in node.inputs)
        if is_float_cast(node):
            names[node.outputs[0]] = read[0]
        yield evolve(node, inputs=read) if read != node.inputs else node


def is_quantized(pairing: Pairing) -> bool:
    """Return whether the model computes in quantized types and the reference does not."""
    return _quantizes(pairing.model) and not _quantizes(pairing.reference)


def _quantizes(side: Graph) -> bool:
    """Return whether a model has quantizing nodes, or reads weights that are stored as codes."""
    return any(is_coarse(node.op) or _reads_codes(node, side) for node in side.operations.values())


def _reads_codes(node: Node, side: Graph) -> bool:
    """Return whether a node converts a weight of small integers to floating point."""
    weight = side.constants.get(node.inputs[0]) if node.op == "Cast" else None
    return weight is not None and str(weight.dtype) in _CODES and len(weight.shape) > 1


def describe_gap(
    pairing: Pairing, missing: Node, beside: Sequence[int], readers: Sequence[tuple[int, int]]
) -> tuple[list[str], tuple[int, str] | None, Any]:
    """Return the operators next to a missing node, the input, and its constant value.

    If a constant replaces the result of a node of the reference, they are the operator that reads
    the constant, position and name of that input, and the value of a short constant. Otherwise,
    input and value are None.

    Args:
        pairing: the models.
        missing: the node of the reference.
        beside: the positions of nodes of the model beside it.
        readers: the positions of nodes that read its result in the reference: in the model, there.
    """
    model = pairing.model
    for index, twin in readers:
        operands = zip(model.nodes[index].inputs, pairing.reference.nodes[twin].inputs)
        for at, (name, expected) in enumerate(operands):
            if expected in missing.outputs and name in model.constants:
                return _describe_constant(model, index, at)
    return [model.nodes[index].op for index in beside[:2]], None, None


def _describe_constant(
    side: Graph, index: int, position: int
) -> tuple[list[str], tuple[int, str], Any]:
    """Return the operator of a node, position and name of a constant input, and its value.

    The value is that of a short constant.
    """
    node = side.nodes[index]
    values = side.constants[node.inputs[position]].values
    is_short = values is not None and np.size(values) <= _SHORT
    value = np.asarray(values).tolist() if is_short else None
    return [node.op], (position, node.inputs[position]), value


def find_frozen_operand(
    pairing: Pairing, index: int
) -> tuple[str, list[str], tuple[int, str], Any] | None:
    """Return an operator whose result became a constant, and where it is read; or None.

    Both models compute the result, but a node of the model reads it as a constant. The other items
    are those of `describe_gap`.
    """
    model, reference = pairing.model, pairing.reference
    computed = {*pairing.tensors.values()} & reference.operation_producers.keys()
    inputs = reference.nodes[pairing.nodes[index]].inputs
    for at, (name, expected) in enumerate(zip(model.nodes[index].inputs, inputs)):
        if name in model.constants and expected in computed:
            maker = reference.nodes[reference.operation_producers[expected]]
            return (maker.op, *_describe_constant(model, index, at))
    return None


def own_names(side: Graph, index: int) -> list[str]:
    """Return the inputs of a node: names of tensors, contents of weights."""
    return [
        side.digest(name) if name in side.constants else name for name in side.nodes[index].inputs
    ]


def are_computed_alike(side: Graph, name: str, reference_name: str) -> bool:
    """Return whether two tensors are computed in the same way from the same inputs."""
    first, second = side.operation_producers.get(name), side.operation_producers.get(reference_name)
    if first is None or second is None:
        return False
    nodes = side.nodes[first], side.nodes[second]
    if nodes[0].outputs.index(name) != nodes[1].outputs.index(reference_name):
        return False
    is_same = own_names(side, first) == own_names(side, second)
    return is_same and attribute_digests(nodes[0]) == attribute_digests(nodes[1])
