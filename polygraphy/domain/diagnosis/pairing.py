"""Which nodes of two models are the same ones, whatever they are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from polygraphy.domain.model.graph import (
    FLOATS,
    Graph,
    Node,
    Tensor,
    Weight,
    attribute_digests,
    constant_weight,
    weight_digest,
)
from polygraphy.domain.quantization.sites import is_coarse

_MOST = 0.5
"""From this share of tensors on that two models call alike, names say what belongs together."""

Key = Hashable


_CODES = frozenset({"int4", "uint4", "int8", "uint8"})
"""The types of weights that are codes, if they are converted to floating point."""


class Side:
    """A graph to be paired: its nodes without constants, its weights, producers and consumers.

    Args:
        graph: the graph.
        narrow: where the other graph has floating-point numbers of another type: the narrower one.
            Weights are the same then if they are after rounding, and casts are left out.
        around: the graph around it, whose weights it sees, if it is the body of a node.
    """

    def __init__(self, graph: Graph, narrow: str | None = None, around: Side | None = None) -> None:
        """Index a graph; `around` is the graph that contains it."""
        self.graph = graph
        self.narrow = narrow
        self.weights: dict[str, Weight] = {} if around is None else dict(around.weights)
        self.weights.update((weight.name, weight) for weight in graph.all_weights)
        self.nodes = [node for node in graph.nodes if constant_weight(node) is None]
        if narrow is not None:
            self.nodes = _without_casts(self.nodes)
        self.producer: dict[str, int] = {}
        self.readers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            for name in filter(None, node.outputs):
                self.producer[name] = index
            for position, name in enumerate(node.inputs):
                if name:
                    self.readers[name].append((index, position))
        self._digests: dict[str, str] = {}

    def digest(self, name: str) -> str:
        """Return a digest that is equal for weights with equal values only."""
        if name not in self._digests:
            self._digests[name] = weight_digest(self.weights[name], self.narrow)
        return self._digests[name]

    def identity(self, index: int) -> str:
        """Return the label of a node: its name or, if unnamed, its first output."""
        node = self.nodes[index]
        return node.name or next(filter(None, node.outputs), node.op)


@frozen
class Pairing:
    """The corresponding nodes and tensors of two graphs.

    Attributes:
        model: the first graph.
        reference: the second.
        nodes: positions of nodes of the first, and of those in the second that are the same.
        tensors: the same for names of tensors.
    """

    model: Side
    reference: Side
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
        around: what belongs together in the graphs around them, if they are bodies of nodes.
    """
    if around is not None:
        sides = around.model, around.reference
        pairing = Pairing(
            Side(model, sides[0].narrow, sides[0]), Side(reference, sides[1].narrow, sides[1])
        )
        pairing.tensors.update(around.tensors)
        return _complete_pairing(pairing)
    types = [
        {weight.dtype for weight in graph.all_weights} & set(FLOATS) for graph in (model, reference)
    ]
    differing = types[0] ^ types[1] if all(types) else set()
    narrow = (
        min(differing, key=FLOATS.index) if len(types[0] | types[1]) > 1 and differing else None
    )
    return _complete_pairing(Pairing(Side(model, narrow), Side(reference, narrow)))


def pair_interfaces(model: Graph, reference: Graph) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield kind, tensor and reference tensor of matching inputs and outputs, by name or else by
    position.
    """
    for kind, tensors, key in (
        ("input", model.inputs, reference.inputs),
        ("output", model.outputs, reference.outputs),
    ):
        named = {tensor.name: tensor for tensor in key}
        for position, tensor in enumerate(tensors):
            if tensor.name in named:
                yield kind, tensor, named[tensor.name]
            elif position < len(key):
                yield kind, tensor, key[position]


def _complete_pairing(pairing: Pairing) -> Pairing:
    """Pair the remaining tensors of two models, by interface, name and structure, and return the
    pairing.
    """
    for _, tensor, twin in pair_interfaces(pairing.model.graph, pairing.reference.graph):
        pairing.tensors[tensor.name] = twin.name
    _pair_by_names(pairing)
    _by_structure(pairing)
    _pair_crossed_outputs(pairing)
    return pairing


def _pair_crossed_outputs(pairing: Pairing) -> None:
    """Pair the nodes that compute the same output in both models if they were paired crosswise: two
    exchanged outputs can have the same structure."""
    model, reference = pairing.model, pairing.reference
    crossed: list[tuple[str, str, int, int]] = []
    for kind, tensor, twin in pair_interfaces(model.graph, reference.graph):
        index, other_index = model.producer.get(tensor.name), reference.producer.get(twin.name)
        is_computed = kind == "output" and index in pairing.nodes and other_index is not None
        if is_computed and pairing.tensors.get(tensor.name) != twin.name:
            crossed.append((tensor.name, twin.name, index, other_index))  # type: ignore[arg-type]
    pairs = {index: other_index for _, _, index, other_index in crossed}
    is_exchange = {pairing.nodes[index] for index in pairs} == {*pairs.values()}
    if is_exchange:
        for index, other_index in pairs.items():
            pairing.pair(index, other_index)
        pairing.tensors.update((name, twin) for name, twin, _, _ in crossed)


def _pair_by_names(pairing: Pairing) -> None:
    """Pair the nodes that have the same outputs and operator in both models."""
    model, reference = pairing.model, pairing.reference
    common = model.producer.keys() & reference.producer.keys()
    if len(common) < _MOST * min(len(model.producer), len(reference.producer)):
        return
    for name in model.producer:
        if name not in common:
            continue
        index, other_index = model.producer[name], reference.producer[name]
        node, twin = model.nodes[index], reference.nodes[other_index]
        # A name that a program made up may be that of another tensor in the other model.
        if index in pairing.nodes or not set(node.inputs) & set(twin.inputs):
            continue
        if _kind(node) == _kind(twin) and node.inputs == twin.inputs:
            pairing.pair(index, other_index)
        elif _kind(node) != _kind(twin):
            pairing.tensors.setdefault(name, name)


def _by_structure(pairing: Pairing) -> None:
    """Pair the remaining nodes by structure, the most certain pairs first, because each pair helps
    the next ones."""
    rounds: list[Callable[[], bool]] = [
        lambda: _pair_forward(pairing, _exact),
        lambda: _pair_backward(pairing, _exact_parameters),
        lambda: _pair_forward(pairing, _shape_key),
        lambda: _pair_forward(pairing, _key_without_order),
        lambda: _pair_backward(pairing, _parameter_key),
        lambda: _pair_forward(pairing, _partial_key),
        lambda: _pair_backward(pairing, _any_parameters),
        lambda: _pair_forward(pairing, _exact, allows_several=True),
        lambda: _pair_forward(pairing, _shape_key, allows_several=True),
    ]
    while any(step() for step in rounds):
        pass


def _pair_forward(
    pairing: Pairing,
    key: Callable[[Side, Node, Mapping[str, str] | None], Key],
    allows_several: bool = False,
) -> bool:
    """Pair nodes with paired inputs that share a unique key, or equally many on both sides; return
    whether any was paired.
    """
    nodes = set(pairing.nodes.values())
    tensors = set(pairing.tensors.values())
    reference_groups: dict[Key, list[int]] = defaultdict(list)
    for index, node in enumerate(pairing.reference.nodes):
        if index not in nodes and _inputs_known(pairing.reference, node, tensors):
            reference_groups[key(pairing.reference, node, None)].append(index)
    own_groups: dict[Key, list[int]] = defaultdict(list)
    for index, node in enumerate(pairing.model.nodes):
        if index not in pairing.nodes and _inputs_known(pairing.model, node, pairing.tensors):
            own_groups[key(pairing.model, node, pairing.tensors)].append(index)
    forward = False
    for name, indices in own_groups.items():
        other_indices = reference_groups.get(name, [])
        if len(indices) == len(other_indices) and (len(other_indices) == 1 or allows_several):
            for number, other_index in zip(indices, other_indices):
                pairing.pair(number, other_index)
            forward = True
    return forward


def _inputs_known(side: Side, node: Node, known_value: Any) -> bool:
    """Return whether all inputs of a node are weights or known."""
    return all(not name or name in side.weights or name in known_value for name in node.inputs)


def _pair_backward(pairing: Pairing, key: Callable[[Side, Node], Key]) -> bool:
    """Pair nodes whose outputs feed equal inputs of paired nodes; return whether any was paired."""
    nodes = set(pairing.nodes.values())
    backward = False
    votes: dict[int, set[int]] = defaultdict(set)
    for index, node in pairing.nodes.items():
        for a, b in zip(pairing.model.nodes[index].inputs, pairing.reference.nodes[node].inputs):
            first, two = pairing.model.producer.get(a), pairing.reference.producer.get(b)
            if (
                first is not None
                and two is not None
                and first not in pairing.nodes
                and two not in nodes
            ):
                votes[first].add(two)
    for name, their_name in list(pairing.tensors.items()):
        first = pairing.model.producer.get(name)
        two = pairing.reference.producer.get(their_name)
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


def _operand(side: Side, name: str, names: Mapping[str, str] | None, exact: bool) -> Key:
    """Return the key of an operand: weights by type and shape, if exact also by content."""
    if name in side.weights:
        weight = side.weights[name]
        dtype = weight.dtype if side.narrow is None else ""
        return ("weight", dtype, weight.shape, side.digest(name) if exact else "")
    return ("tensor", name if names is None else names.get(name, name))


def _exact(side: Side, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands, weights by content."""
    operands = tuple(_operand(side, name, names, True) for name in node.inputs)
    return _kind(node), operands, attribute_digests(node)


def _shape_key(side: Side, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands, weights by shape."""
    return _kind(node), tuple(_operand(side, name, names, False) for name in node.inputs)


def _key_without_order(side: Side, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return the key of a node with its operands in any order, weights by shape."""
    operands = (_operand(side, name, names, False) for name in node.inputs)
    return _kind(node), tuple(sorted(operands, key=repr))


def _partial_key(side: Side, node: Node, names: Mapping[str, str] | None) -> Key:
    """Return a key of the node's operator and tensor inputs, whatever its weights are."""
    read = (name for name in node.inputs if name and name not in side.weights)
    return _kind(node), tuple(name if names is None else names.get(name, name) for name in read)


def _exact_parameters(side: Side, node: Node) -> Key:
    """Return the key of a node by its weights and attributes."""
    digests = tuple(side.digest(name) if name in side.weights else "" for name in node.inputs)
    return _kind(node), digests, attribute_digests(node)


def _parameter_key(side: Side, node: Node) -> Key:
    """Return the key of a node by the shapes of its weights."""
    return _kind(node), tuple(
        side.weights[name].shape if name in side.weights else None for name in node.inputs
    )


def _any_parameters(side: Side, node: Node) -> Key:
    """Return the key of a node by its operator alone."""
    return _kind(node)


def _without_casts(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes without floating-point casts; readers of a cast read its input instead."""
    without_casts: list[Node] = []
    names: dict[str, str] = {}
    for node in nodes:
        read = tuple(names.get(name, name) for name in node.inputs)
        to = str(node.attribute("to", "")).lower()
        if node.op == "Cast" and to in ("float", *FLOATS):
            names[node.outputs[0]] = read[0]
        else:
            without_casts.append(evolve(node, inputs=read) if read != node.inputs else node)
    return without_casts


def is_quantized(pairing: Pairing) -> bool:
    """Return whether the model computes in quantized types and the reference does not."""
    return _quantizes(pairing.model) and not _quantizes(pairing.reference)


def _quantizes(side: Side) -> bool:
    """Return whether a model has quantizing nodes, or reads weights that are stored as codes."""
    return any(is_coarse(node.op) or _reads_codes(node, side) for node in side.nodes)


def _reads_codes(node: Node, side: Side) -> bool:
    """Return whether a node converts a weight of small integers to floating point."""
    weight = side.weights.get(node.inputs[0]) if node.op == "Cast" else None
    return weight is not None and str(weight.dtype) in _CODES and len(weight.shape) > 1
