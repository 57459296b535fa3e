"""In what a model differs from one that is right: what may be to blame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from attrs import field, frozen

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.pairing import (
    FLOATS,
    Pairing,
    Side,
    attribute_digests,
    attribute_text,
    pair_graphs,
    paired_interfaces,
)
from polygraphy.domain.diagnosis.words import changes, errors, reasons
from polygraphy.domain.model.description import Attribute, Node
from polygraphy.domain.tensors.precision import epsilon_of, is_float

SYMMETRIC = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal"})
QUANTISING = frozenset({"QuantizeLinear", "DequantizeLinear"})
_ROUNDED_TYPES: tuple[Any, ...] = (np.float16, ml_dtypes.bfloat16)
_LAYOUT = frozenset({"ReorderInput", "ReorderOutput"})
"""Operators by which ONNX Runtime changes the layout of images: no other model lacks them."""
_DIGITS = 16
"""Epsilons by which folded weights may differ."""
_TINY = 1e-2
"""A number that is added to keep another away from zero is no larger where it is right."""
_GUARDING = frozenset({"Sqrt", "Pow", "Div", "Log", "Reciprocal"})
"""Operators before which an epsilon is added."""


@frozen
class Suspect:
    """One thing in which a model differs from the reference.

    Attributes:
        nodes: the positions of nodes in the model that have it, or stand beside what is missing.
        cause: ``weight``, ``quantisation``, ``epsilon``, ``attribute`` or ``structure``.
        change: what differs.
        weights: pairs of weights that differ: the name here, and there.
        twins: which nodes to take from the reference, so that this difference goes away: the
            position here, and there.
        inner: the names of the nodes in the body of a node that have it, if it is in one.
        op: the operator of the last of these.
        attribute: the name of the attribute that differs, if one does.
    """

    nodes: tuple[int, ...]
    cause: str
    change: Fact
    weights: tuple[tuple[str, str], ...] = ()
    twins: tuple[tuple[int, int], ...] = ()
    inner: tuple[str, ...] = ()
    op: str = ""
    attribute: str = ""


def suspect_names(side: Side, suspect: Suspect) -> list[str]:
    """Return the names of the model nodes that have a difference."""
    return list(suspect.inner) or [side.identity(index) for index in suspect.nodes]


def describe_stranger(pairing: Pairing) -> str:
    """Return why a reference cannot be the same model, such as a different input or output; empty
    if it can. Floating-point types and output sizes may differ.
    """
    for kind, mine, theirs in paired_interfaces(pairing.model.graph, pairing.reference.graph):
        both = [(tensor.dtype, tensor.shape) for tensor in (mine, theirs)]
        (dtype, shape), (other, there) = both
        is_typed = dtype and other and dtype != other
        differs = is_typed and not {dtype, other} <= set(FLOATS)
        if not differs and shape is not None and there is not None:
            fixed = [
                {d for d in dims if isinstance(d, int) and d > 0} for dims in zip(shape, there)
            ]
            is_resized = kind == "input" and any(len(sizes) > 1 for sizes in fixed)
            differs = len(shape) != len(there) or is_resized
        if differs:
            return reasons.different_end(kind, mine.name, *both)
    return ""


def suspects(pairing: Pairing) -> list[Suspect]:
    """Return the differences between model and reference, in the order of the model's nodes."""
    found = [
        *_weights(pairing),
        *_attributes(pairing),
        *_operand_suspects(pairing),
        *_presence_suspects(pairing),
    ]
    return sorted(found, key=lambda one: one.nodes)


def _weights(pairing: Pairing) -> Iterator[Suspect]:
    """Yield weights with different values; a weight that several nodes read is one suspect."""
    seen: dict[tuple[str, str], list[tuple[int, int]]] = {}
    mine, theirs = pairing.model, pairing.reference
    for index, other in pairing.nodes.items():
        for position, name in enumerate(mine.nodes[index].inputs):
            their_inputs = theirs.nodes[other].inputs
            their_name = their_inputs[position] if position < len(their_inputs) else ""
            both = name in mine.weights and their_name in theirs.weights
            if both and mine.digest(name) != theirs.digest(their_name):
                seen.setdefault((name, their_name), []).append((index, position))
    for (name, their_name), places in seen.items():
        if _has_exchanged_operands(pairing, places[0][0]):
            continue
        one, other = mine.weights[name].values, theirs.weights[their_name].values
        if _is_rounding(one, other):
            continue
        readers = tuple(sorted({index for index, _ in places}))
        cause = cause_of_weight(mine, places, one, other)
        yield Suspect(
            readers,
            cause,
            changes.other_weight(role_of(cause), name, change_of_weight(one, other)),
            ((name, their_name),),
            tuple((index, pairing.nodes[index]) for index in readers),
        )


def _is_rounding(one: Any, other: Any) -> bool:
    """Return whether a weight was folded twice, in another order: only the last digits differ."""
    if not is_float(one) or not is_float(other) or one.shape != other.shape:
        return False
    epsilon = max(epsilon_of(one.dtype), epsilon_of(other.dtype))
    here, there = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if not np.isfinite(there).all():
        return False
    size = np.abs(there) + np.sqrt(np.mean(np.square(there)))
    return bool(np.all(np.abs(here - there) <= _DIGITS * epsilon * size))


def precision_of_rounding(one: Any, other: Any) -> str | None:
    """Return the half precision to which a float32 weight was rounded; None if it is not the other
    one rounded.
    """
    if one is None or other is None or one.dtype != other.dtype or one.dtype != np.float32:
        return None
    if one.shape != other.shape or np.array_equal(one, other) or not np.isfinite(one).all():
        return None
    with np.errstate(over="ignore", under="ignore"):
        for narrow in _ROUNDED_TYPES:
            if np.array_equal(other.astype(narrow).astype(np.float32), one):
                return str(np.dtype(narrow).name)
    return None


def _has_exchanged_operands(pairing: Pairing, index: int) -> bool:
    """Return whether a node has the inputs of its twin in another order."""
    mine, theirs = pairing.model, pairing.reference
    one = sorted(_reference_input_names(mine, pairing, index))
    other = sorted(_own_names(theirs, pairing.nodes[index]))
    return one == other


def _reference_input_names(side: Side, pairing: Pairing, index: int) -> list[str]:
    """Return the inputs of a node by the names of the other model, weights by content."""
    return [
        side.digest(name) if name in side.weights else pairing.tensors.get(name, f"? {name}")
        for name in side.nodes[index].inputs
    ]


def _own_names(side: Side, index: int) -> list[str]:
    """Return the inputs of a node, weights by content."""
    return [
        side.digest(name) if name in side.weights else name for name in side.nodes[index].inputs
    ]


def is_guard(side: Side, index: int) -> bool:
    """Return whether a node adds something before a root, a logarithm or a division."""
    node = side.nodes[index]
    read = {side.nodes[i].op for name in node.outputs for i, _ in side.readers.get(name, ())}
    return node.op in ("Add", "Max", "Clip") and bool(read & _GUARDING)


def cause_of_weight(
    side: Side, places: Sequence[tuple[int, int]], value: Any, reference: Any
) -> str:
    """Return the cause name for a weight with a different value.

    Args:
        side: the model.
        places: the nodes that read it, and as which operand.
        value: its value.
        reference: the value that is right.
    """
    ops = {side.nodes[index].op for index, _ in places}
    if ops & QUANTISING and all(position > 0 for _, position in places):
        return "quantisation"
    if (
        ops <= {"Add", "Max", "Clip"}
        and value is not None
        and reference is not None
        and np.size(value) == np.size(reference) == 1
    ):
        _, right = (abs(float(np.asarray(value).reshape(-1)[0])) for value in (value, reference))
        guards = all(is_guard(side, index) for index, _ in places)
        # A bound of zero is an epsilon only where a root, a logarithm or a division follows.
        if is_float(np.asarray(reference)) and right < _TINY and (right or guards):
            return "epsilon"
    return "weight"


def role_of(cause: str) -> str:
    """Return the role of a weight, such as "bias", from the cause of a fault."""
    return reasons.ROLES.get(cause, "weight")


def change_of_weight(value: Any, expected: Any) -> Fact:
    """Return the fact that describes how a weight differs from its expected value."""
    if value is None or expected is None:
        return changes.differs()
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape:
        return changes.has_shape(value.shape, expected.shape)
    if value.dtype.kind in "OUS" or expected.dtype.kind in "OUS":
        return changes.has_other_strings()
    differing = np.flatnonzero((value != expected).reshape(-1))
    if value.size == 1:
        return changes.is_value(value.reshape(-1)[0], expected.reshape(-1)[0])
    if value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, expected.T):
        return changes.is_transposed()
    if not differing.size:
        return changes.has_other_signs()
    scale = _scale(value.astype(np.float64), expected.astype(np.float64))
    if scale is not None:
        return changes.is_scaled(scale)
    place = tuple(map(int, np.unravel_index(int(differing[0]), value.shape)))
    count = int(differing.size)
    return changes.has_other_elements(value[place], expected[place], place, count, value.size)


def _scale(value: Any, expected: Any) -> float | None:
    """Return the factor by which a weight was multiplied; None if there is none."""
    held = expected != 0
    if not held.any() or value[~held].any():
        return None
    ratios = value[held] / expected[held]
    middle = quantile(ratios, 0.5)
    return middle if middle and np.allclose(ratios, middle, rtol=1e-3) else None


def _attributes(pairing: Pairing) -> Iterator[Suspect]:
    """Yield a suspect for each attribute that differs between paired nodes."""
    for index, other in pairing.nodes.items():
        mine, theirs = pairing.model.nodes[index], pairing.reference.nodes[other]
        if mine.op != theirs.op:
            continue
        here = {one.name: one for one in mine.attributes}
        there = {one.name: one for one in theirs.attributes}
        for name in sorted(here.keys() | there.keys()):
            one, two = here.get(name), there.get(name)
            if one is not None and two is not None and one.kind == two.kind == "graph":
                yield from _bodies(pairing, (index, other), one, two)
                continue
            texts = [
                None if each is None or each.is_default else attribute_text(each)
                for each in (one, two)
            ]
            if texts[0] == texts[1]:
                continue
            mine_value, value = (None if each is None else each.value for each in (one, two))
            yield Suspect(
                (index,),
                "epsilon" if name == "epsilon" else "attribute",
                changes.other_attribute(mine.op, name, mine_value, value),
                twins=((index, other),),
                attribute=name,
            )


def _bodies(
    pairing: Pairing, twins: tuple[int, int], attribute: Attribute, reference_attribute: Attribute
) -> Iterator[Suspect]:
    """Yield differences between the bodies of two nodes; the fix copies the whole node of the
    reference.
    """
    inner = pair_graphs(attribute.value, reference_attribute.value, pairing)
    found = suspects(inner)
    if found:
        # A node that is another one is also missed beside its neighbours.
        found = found[:1] if found[0].cause == "structure" else found
        names = [name for each in found for name in suspect_names(inner.model, each)]
        op = pairing.model.nodes[twins[0]].op
        yield Suspect(
            (twins[0],),
            found[0].cause,
            changes.in_subgraph(found[0].change, op, pairing.model.identity(twins[0])),
            twins=(twins,),
            inner=tuple(dict.fromkeys(names)),
            op=found[-1].op or inner.model.nodes[found[-1].nodes[-1]].op,
        )


def _operand_suspects(pairing: Pairing) -> Iterator[Suspect]:
    """Yield nodes with operands in another order, missing, or additional."""
    mine, theirs = pairing.model, pairing.reference
    for index, other in pairing.nodes.items():
        node = mine.nodes[index]
        here, there = _reference_input_names(mine, pairing, index), _own_names(theirs, other)
        if here == there:
            continue
        if sorted(here) == sorted(there):
            if node.op not in SYMMETRIC:
                yield Suspect(
                    (index,),
                    "structure",
                    changes.swapped_inputs(node.op),
                    twins=((index, other),),
                )
            continue
        present = [bool(name) for name in node.inputs], [
            bool(n) for n in theirs.nodes[other].inputs
        ]
        if sum(present[0]) != sum(present[1]):
            is_less = sum(present[0]) < sum(present[1])
            change = changes.lost_input(node.op) if is_less else changes.extra_input(node.op)
            yield Suspect((index,), "structure", change, twins=((index, other),))
            continue
        moved = [
            position
            for position, (a, b) in enumerate(zip(node.inputs, theirs.nodes[other].inputs))
            if a in pairing.tensors
            and a not in mine.weights
            and b not in theirs.weights
            and pairing.tensors[a] != b
            and b in pairing.tensors.values()
            and not _equal(theirs, pairing.tensors[a], b)
        ]
        if moved:
            change = changes.other_inputs(node.op, [node.inputs[position] for position in moved])
            yield Suspect((index,), "structure", change, twins=((index, other),))


def _equal(side: Side, name: str, reference_name: str) -> bool:
    """Return whether two tensors are computed in the same way from the same inputs."""
    first, second = side.producer.get(name), side.producer.get(reference_name)
    if first is None or second is None:
        return False
    nodes = side.nodes[first], side.nodes[second]
    if nodes[0].outputs.index(name) != nodes[1].outputs.index(reference_name):
        return False
    same = _own_names(side, first) == _own_names(side, second)
    return same and attribute_digests(nodes[0]) == attribute_digests(nodes[1])


def _presence_suspects(pairing: Pairing) -> Iterator[Suspect]:
    """Yield nodes that only one model has; a missing node is reported at its neighbor."""
    mine, theirs = pairing.model, pairing.reference
    replaced = _replacements(pairing)
    for index, node in enumerate(mine.nodes):
        if index in replaced:
            other = replaced[index]
            change = changes.other_operator(node.op, theirs.nodes[other].op)
            yield Suspect((index,), "structure", change, twins=((index, other),))
        elif index not in pairing.nodes:
            behind = {
                (reader, pairing.nodes[reader])
                for name in node.outputs
                for reader, _ in mine.readers.get(name, ())
                if reader in pairing.nodes
            }
            change = changes.extra_node(node.op)
            yield Suspect((index,), "structure", change, twins=tuple(sorted(behind)))
    same = {**pairing.nodes, **replaced}
    back = {other: index for index, other in same.items()}
    names = {b: a for a, b in pairing.tensors.items()}
    for other, node in enumerate(theirs.nodes):
        if other in back or node.op in _LAYOUT:
            continue
        before = {
            mine.producer[names[name]] for name in node.inputs if names.get(name) in mine.producer
        }
        after = {
            back[reader]
            for name in node.outputs
            for reader, _ in theirs.readers.get(name, ())
            if reader in back
        }
        beside = tuple(sorted(before or after))
        if beside:
            change = changes.lost_node(node.op, [mine.nodes[index].op for index in beside[:2]])
            twins = tuple(sorted((index, same[index]) for index in after))
            yield Suspect(beside, "structure", change, twins=twins)


def _replacements(pairing: Pairing) -> dict[int, int]:
    """Return, by model node, the reference node that it replaces: their outputs feed the same
    inputs.
    """
    places: dict[frozenset[tuple[int, int]], list[int]] = {}
    taken = set(pairing.nodes.values())
    for other, node in enumerate(pairing.reference.nodes):
        if other not in taken:
            read = {at for name in node.outputs for at in pairing.reference.readers.get(name, ())}
            places.setdefault(frozenset(read), []).append(other)
    makers = pairing.reference.producer
    found = {}
    for index, node in enumerate(pairing.model.nodes):
        if index in pairing.nodes:
            continue
        named = {makers.get(pairing.tensors.get(name, "")) for name in node.outputs} - {None}
        read = {at for name in node.outputs for at in pairing.model.readers.get(name, ())}
        there = {(pairing.nodes.get(reader, -1), position) for reader, position in read}
        alike = places.get(frozenset(there), []) if there else []
        twins = [one for one in named or alike if one is not None and one not in taken]
        if len(twins) == 1 and len(node.outputs) == len(pairing.reference.nodes[twins[0]].outputs):
            found[index] = twins[0]
            taken.add(twins[0])
    return found


@frozen
class NodeCopy:
    """A node of the reference, and how it is connected in the model.

    Attributes:
        twin: the first output of the node in the reference.
        inputs: what it reads, by the names of the model.
        outputs: what it makes.
        replaces: the first output of the node of the model whose place it takes; None for a node
            that is new there.
        captured: what the graphs that it holds read of those around them: the name in the
            reference, and in the model.
        attributes: the attributes that are taken, where all else of the node of the model stays but
            its inputs; None for the whole node.
    """

    twin: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    replaces: str | None = None
    captured: dict[str, str] = field(factory=dict)
    attributes: tuple[str, ...] | None = None


@frozen
class Mending:
    """What is taken from the reference: nodes, each after those that it reads, and weights by their
    names there, and their new names here.
    """

    nodes: tuple[NodeCopy, ...] = ()
    weights: dict[str, str] = field(factory=dict)


def plan_copies(pairing: Pairing, suspects: Iterable[Suspect]) -> Mending:
    """Return a plan of copies that makes the model agree with the reference in the suspects and
    nothing else.

    Raises:
        UsageError: what is to be copied reads an input that the model does not have.
    """
    plan = _Plan(pairing)
    chosen: dict[tuple[int, int], list[Suspect]] = {}
    for suspect in suspects:
        for twins in suspect.twins:
            chosen.setdefault(twins, []).append(suspect)
    for (index, other), ones in dict(chosen).items():
        if all(one.weights or one.attribute for one in ones):
            weights = {name for one in ones for name, _ in one.weights}
            attributes = tuple(one.attribute for one in ones if one.attribute)
            plan.change(index, other, weights, attributes)
        else:
            plan.replace(index, other)
    return Mending(tuple(plan.nodes), plan.weights)


class _Plan:
    """Collects what is to be copied."""

    def __init__(self, pairing: Pairing) -> None:
        self.pairing = pairing
        self.nodes: list[NodeCopy] = []
        self.weights: dict[str, str] = {}
        self._names = {theirs: mine for mine, theirs in pairing.tensors.items()}
        self._taken = {
            *pairing.model.producer,
            *pairing.model.weights,
            *(tensor.name for tensor in pairing.model.graph.inputs),
        }

    def replace(self, index: int, other: int) -> None:
        """Plan to replace a model node by a reference node."""
        mine = self.pairing.model.nodes[index]
        theirs = self.pairing.reference.nodes[other]
        here = dict(zip(theirs.inputs, mine.inputs))
        inputs = tuple(self._operand(name, here.get(name, "")) for name in theirs.inputs)
        outputs = tuple(mine.outputs[: len(theirs.outputs)])
        made = next(filter(None, theirs.outputs))
        held = {name: self._operand(name, name) for name in captured_tensors(theirs)}
        place = next(filter(None, mine.outputs))
        self.nodes.append(NodeCopy(made, inputs, outputs, place, held))

    def change(
        self, index: int, other: int, weights: Collection[str], attributes: tuple[str, ...]
    ) -> None:
        """Plan to copy weights and attributes of a reference node to a model node."""
        mine = self.pairing.model.nodes[index]
        theirs = self.pairing.reference.nodes[other]
        twins = [*theirs.inputs, *[""] * len(mine.inputs)]
        inputs = tuple(
            self._operand(twin, name) if name in weights else name
            for name, twin in zip(mine.inputs, twins)
        )
        made, place = (next(filter(None, node.outputs)) for node in (theirs, mine))
        self.nodes.append(NodeCopy(made, inputs, tuple(mine.outputs), place, attributes=attributes))

    def _operand(self, name: str, here: str = "") -> str:
        """Return the model's name for a reference tensor, which is copied if it is missing."""
        sides = self.pairing.model, self.pairing.reference
        if not name or name in self._names:
            return self._names.get(name, "")
        if name in sides[1].weights:
            same = here in sides[0].weights and sides[0].digest(here) == sides[1].digest(name)
            if not same:
                self.weights.setdefault(name, self._free(name))
            return here if same else self.weights[name]
        producer = sides[1].producer.get(name)
        if producer is None:
            if name not in self._taken:
                raise errors.missing_input_to_copy(name)
            return name
        node = sides[1].nodes[producer]
        inputs = tuple(self._operand(one) for one in node.inputs)
        outputs = tuple(self._free(one) if one else "" for one in node.outputs)
        self._names.update(zip(node.outputs, outputs))
        held = {one: self._operand(one) for one in captured_tensors(node)}
        self.nodes.append(
            NodeCopy(next(filter(None, node.outputs)), inputs, outputs, captured=held)
        )
        return self._names[name]

    def _free(self, name: str) -> str:
        """Return a name that the model does not have."""
        made, number = name, 0
        while made in self._taken:
            number += 1
            made = f"{name}_reference{number if number > 1 else ''}"
        self._taken.add(made)
        return made


def captured_tensors(node: Node) -> list[str]:
    """Return the outer tensors that the subgraphs of a node read."""
    found: dict[str, None] = {}
    for graph in node.graphs:
        own = {tensor.name for tensor in graph.inputs}
        own |= {weight.name for weight in graph.weights}
        own |= {name for inner in graph.nodes for name in inner.outputs}
        for inner in graph.nodes:
            found.update(
                dict.fromkeys(n for n in (*inner.inputs, *captured_tensors(inner)) if n not in own)
            )
        found.update(dict.fromkeys(t.name for t in graph.outputs if t.name not in own))
    return [name for name in found if name]
