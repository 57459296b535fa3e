"""The differences between a model and a correct one, which may be at fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import ml_dtypes
import numpy as np
from attrs import evolve, field, frozen

from polygraphy.domain.arithmetic.passes.selection import quantile
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.pairing import (
    Pairing,
    are_computed_alike,
    describe_gap,
    find_frozen_operand,
    own_names,
    pair_graphs,
    pair_interfaces,
)
from polygraphy.domain.diagnosis.rounded_weights import differ_by_rounding
from polygraphy.domain.diagnosis.words import changes, errors, reasons
from polygraphy.domain.model.code_operands import scales_codes
from polygraphy.domain.model.graph import (
    FLOATS,
    Attribute,
    Graph,
    Node,
    Weight,
    attribute_text,
)
from polygraphy.domain.tensors.precision import is_float

SYMMETRIC = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal"})
QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear"})
_ROUNDED_TYPES: tuple[Any, ...] = (np.float16, ml_dtypes.bfloat16)
_LAYOUT = frozenset({"ReorderInput", "ReorderOutput"})
"""Operators by which ONNX Runtime changes the layout of images: no other model lacks them."""
_TINY = 1e-2
"""Largest number that counts as an epsilon, which keeps a denominator away from zero."""
WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators whose bias may be missing."""
_GUARDING = frozenset({"Sqrt", "Pow", "Div", "Log", "Reciprocal"})
"""Operators before which an epsilon is added."""


@frozen
class Suspect:
    """A difference between a model and its reference.

    Attributes:
        nodes: the positions of nodes in the model that have it, or stand beside what is missing.
        cause: ``weight``, ``quantization``, ``epsilon``, ``attribute`` or ``structure``.
        change: the difference.
        weights: pairs of weights that differ: the name here, and there.
        twins: the nodes to take from the reference so that this difference disappears: the
            position here, and there.
        inner: the names of the nodes in the body of a node that have it, if it is in one.
        op: the operator of the last of these.
        attribute: the name of the attribute that differs, if one does.
        is_any: whether only one of the nodes has it, and it is not known which.
    """

    nodes: tuple[int, ...]
    cause: str
    change: Fact
    weights: tuple[tuple[str, str], ...] = ()
    twins: tuple[tuple[int, int], ...] = ()
    inner: tuple[str, ...] = ()
    op: str = ""
    attribute: str = ""
    is_any: bool = False


def suspect_names(side: Graph, suspect: Suspect) -> list[str]:
    """Return the names of the model nodes that have a difference."""
    return list(suspect.inner) or [side.nodes[index].label for index in suspect.nodes]


def describe_interface_mismatch(pairing: Pairing) -> str:
    """Return why a reference cannot be the same model, such as a different input or output.
    The result is empty if it can. Floating-point types and output sizes may differ."""
    for kind, own_stranger, reference_tensor in pair_interfaces(pairing.model, pairing.reference):
        stranger = [(tensor.dtype, tensor.shape) for tensor in (own_stranger, reference_tensor)]
        (dtype, shape), (other_name, reference_shape) = stranger
        is_typed = dtype and other_name and dtype != other_name
        differs = is_typed and not {dtype, other_name} <= set(FLOATS)
        if not differs and shape is not None and reference_shape is not None:
            fixed = [
                {d for d in dims if isinstance(d, int) and d > 0}
                for dims in zip(shape, reference_shape)
            ]
            is_resized = kind == "input" and any(len(sizes) > 1 for sizes in fixed)
            differs = len(shape) != len(reference_shape) or is_resized
        if differs:
            return reasons.different_end(kind, own_stranger.name, *stranger)
    return ""


def suspects(pairing: Pairing) -> list[Suspect]:
    """Return the differences between model and reference, in the order of the model's nodes."""
    alike = {
        index: twin
        for index, twin in pairing.nodes.items()
        if pairing.model.nodes[index].op == pairing.reference.nodes[twin].op
    }
    same_operators = evolve(pairing, nodes=alike)
    differences = [
        *_weights(same_operators),
        *_attributes(same_operators),
        *_operand_suspects(same_operators),
        *_output_suspects(pairing),
        *_presence_suspects(pairing),
    ]
    return sorted(differences, key=lambda suspect: suspect.nodes)


def _weights(pairing: Pairing) -> Iterator[Suspect]:
    """Yield weights with different values; a weight that several nodes read is one suspect."""
    seen_values: dict[tuple[str, str], list[tuple[int, int]]] = {}
    model, reference = pairing.model, pairing.reference
    for index, node in pairing.nodes.items():
        for position, name in enumerate(model.nodes[index].inputs):
            their_inputs = reference.nodes[node].inputs
            their_name = their_inputs[position] if position < len(their_inputs) else ""
            is_in_both = name in model.constants and their_name in reference.constants
            if is_in_both and model.digest(name) != reference.digest(their_name):
                seen_values.setdefault((name, their_name), []).append((index, position))
    for (name, their_name), operands in seen_values.items():
        if _has_exchanged_operands(pairing, operands[0][0]):
            continue
        values, node = model.constants[name].values, reference.constants[their_name].values
        readers = [(model.nodes[index], position) for index, position in operands]
        if differ_by_rounding(values, node, readers):
            continue
        indices = tuple(sorted({index for index, _ in operands}))
        cause = cause_of_weight(model, operands, values, node)
        yield Suspect(
            indices,
            cause,
            changes.other_weight(role_of(cause), name, change_of_weight(values, node)),
            ((name, their_name),),
            tuple((index, pairing.nodes[index]) for index in indices),
        )


def precision_of_rounding(first: Any, second: Any) -> str | None:
    """Return the half precision to which a float32 weight was rounded, or None.
    The result is None if rounding does not explain the difference."""
    if first is None or second is None or first.dtype != second.dtype or first.dtype != np.float32:
        return None
    if first.shape != second.shape or np.array_equal(first, second) or not np.isfinite(first).all():
        return None
    with np.errstate(over="ignore", under="ignore"):
        for narrow in _ROUNDED_TYPES:
            if np.array_equal(second.astype(narrow).astype(np.float32), first):
                return str(np.dtype(narrow).name)
    return None


def _has_exchanged_operands(pairing: Pairing, index: int) -> bool:
    """Return whether a node has the inputs of its counterpart in a different order."""
    model, reference = pairing.model, pairing.reference
    reference_input_names = sorted(_reference_input_names(model, pairing, index))
    names = sorted(own_names(reference, pairing.nodes[index]))
    return reference_input_names == names


def _reference_input_names(side: Graph, pairing: Pairing, index: int) -> list[str]:
    """Return the inputs of a node by the names of the other model, weights by content."""
    return [
        side.digest(name) if name in side.constants else pairing.tensors.get(name, f"? {name}")
        for name in side.nodes[index].inputs
    ]


def is_guard(side: Graph, index: int) -> bool:
    """Return whether a node adds a number before a root, a logarithm or a division."""
    node = side.nodes[index]
    read = {side.nodes[i].op for name in node.outputs for i, _ in side.readers.get(name, ())}
    return node.op in ("Add", "Max", "Clip") and bool(read & _GUARDING)


def cause_of_weight(
    side: Graph, operands: Sequence[tuple[int, int]], value: Any, reference: Any
) -> str:
    """Return the cause name for a weight with a different value.

    Args:
        side: the model.
        operands: the nodes that read it, and as which operand.
        value: its value.
        reference: the correct value.
    """
    nodes = [(side.nodes[index], position) for index, position in operands]
    if all(scales_codes(node.op, node.inputs, position) for node, position in nodes):
        return "quantization"
    ops = {node.op for node, _ in nodes}
    is_known = value is not None and reference is not None
    if is_known and ops <= {"Add", "Max", "Clip"} and np.size(value) == np.size(reference) == 1:
        _, expected = (abs(float(np.asarray(value).reshape(-1)[0])) for value in (value, reference))
        guards = all(is_guard(side, index) for index, _ in operands)
        # A bound of zero is an epsilon only where a root, a logarithm or a division follows.
        if is_float(np.asarray(reference)) and expected < _TINY and (expected or guards):
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
    if not differing.size:
        return changes.has_other_signs()
    if (rearranged := _rearrangement(value, expected)) is not None:
        return rearranged
    scale = _scale(value.astype(np.float64), expected.astype(np.float64))
    if scale is not None:
        return changes.is_scaled(scale)
    index = tuple(map(int, np.unravel_index(int(differing[0]), value.shape)))
    count = int(differing.size)
    return changes.has_other_elements(value[index], expected[index], index, count, value.size)


def _rearrangement(value: Any, expected: Any) -> Fact | None:
    """Return the fact that a weight has the expected elements in another arrangement, or None.
    The result is None if it has others."""
    if value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, expected.T):
        return changes.is_transposed()
    moved = _moved_slices(value, expected)
    return None if moved is None else changes.has_moved_slices(*moved)


def _moved_slices(value: Any, expected: Any) -> tuple[int, list[int]] | None:
    """Return the axis along which a weight is reordered, and the positions there; or None.

    The slices of the weight are those of the expected one in another order.
    """
    if value.min() != expected.min() or value.max() != expected.max():
        return None  # Hashing large weights takes longer.
    for axis in range(value.ndim):
        own, others = (_slice_hashes(array, axis) for array in (value, expected))
        places = {digest: index for index, digest in enumerate(others)}
        # Equal slices have no order.
        if 1 < len(own) == len(places) and {*own} == places.keys():
            return axis, [places[digest] for digest in own]
    return None


def _slice_hashes(array: Any, axis: int) -> list[bytes]:
    """Return the hash of each slice along an axis."""
    slices = np.moveaxis(array, axis, 0)
    return [blake2b(part.tobytes(), digest_size=16).digest() for part in slices]


def _scale(value: Any, expected: Any) -> float | None:
    """Return the factor by which a weight was multiplied; None if there is none."""
    nonzero = expected != 0
    if not nonzero.any() or value[~nonzero].any() or not np.isfinite([value, expected]).all():
        return None
    ratios = value[nonzero] / expected[nonzero]
    middle = quantile(ratios, 0.5)
    return middle if middle and np.allclose(ratios, middle, rtol=1e-3) else None


def _attributes(pairing: Pairing) -> Iterator[Suspect]:
    """Yield a suspect for each attribute that differs between paired nodes."""
    for index, other_node in pairing.nodes.items():
        node, reference_node = pairing.model.nodes[index], pairing.reference.nodes[other_node]
        if node.op != reference_node.op:
            continue
        own_attributes = {attribute.name: attribute for attribute in node.attributes}
        reference_attributes = {
            attribute.name: attribute for attribute in reference_node.attributes
        }
        bodies: dict[str, Suspect] = {}  # A weight that several bodies read is one suspect.
        for name in sorted(own_attributes.keys() | reference_attributes.keys()):
            attribute, two = own_attributes.get(name), reference_attributes.get(name)
            if attribute is not None and two is not None and attribute.kind == two.kind == "graph":
                for suspect in _bodies(pairing, (index, other_node), attribute, two):
                    known = bodies.setdefault(str(suspect.change), suspect)
                    if known is not suspect:
                        inner = tuple(dict.fromkeys((*known.inner, *suspect.inner)))
                        bodies[str(suspect.change)] = evolve(known, inner=inner)
                continue
            texts = [
                None if attribute is None or attribute.is_default else attribute_text(attribute)
                for attribute in (attribute, two)
            ]
            if texts[0] == texts[1]:
                continue
            own_value, value = (
                None if attribute is None else attribute.value for attribute in (attribute, two)
            )
            yield Suspect(
                (index,),
                "epsilon" if name == "epsilon" else "attribute",
                changes.other_attribute(node.op, name, own_value, value),
                twins=((index, other_node),),
                attribute=name,
            )
        yield from bodies.values()


def _bodies(
    pairing: Pairing, twins: tuple[int, int], attribute: Attribute, reference_attribute: Attribute
) -> Iterator[Suspect]:
    """Yield differences between the bodies of two nodes;
    the fix copies the whole node of the reference.
    """
    inner = pair_graphs(attribute.value, reference_attribute.value, pairing)
    inner_suspects = suspects(inner)
    if inner_suspects:
        # A different operator also changes the inputs of neighboring nodes, so only report the node
        # itself.
        inner_suspects = (
            inner_suspects[:1] if inner_suspects[0].cause == "structure" else inner_suspects
        )
        names = [name for suspect in inner_suspects for name in suspect_names(inner.model, suspect)]
        op = pairing.model.nodes[twins[0]].op
        yield Suspect(
            (twins[0],),
            inner_suspects[0].cause,
            changes.in_subgraph(inner_suspects[0].change, op, pairing.model.nodes[twins[0]].label),
            twins=(twins,),
            inner=tuple(dict.fromkeys(names)),
            op=inner_suspects[-1].op or inner.model.nodes[inner_suspects[-1].nodes[-1]].op,
        )


def _operand_suspects(pairing: Pairing) -> Iterator[Suspect]:
    """Yield nodes whose operands are in a different order, missing, or additional."""
    model, reference = pairing.model, pairing.reference
    for index, other_node in pairing.nodes.items():
        node = model.nodes[index]
        own_inputs, reference_inputs = _reference_input_names(model, pairing, index), own_names(
            reference, other_node
        )
        if own_inputs == reference_inputs:
            continue
        if sorted(own_inputs) == sorted(reference_inputs):
            if node.op not in SYMMETRIC:
                yield Suspect(
                    (index,),
                    "structure",
                    changes.swapped_inputs(node.op),
                    twins=((index, other_node),),
                )
            continue
        present = [bool(name) for name in node.inputs], [
            bool(n) for n in reference.nodes[other_node].inputs
        ]
        if sum(present[0]) != sum(present[1]):
            is_less = sum(present[0]) < sum(present[1])
            change = changes.missing_input(node.op) if is_less else changes.extra_input(node.op)
            yield Suspect((index,), "structure", change, twins=((index, other_node),))
            continue
        moved = [
            position
            for position, (a, b) in enumerate(zip(node.inputs, reference.nodes[other_node].inputs))
            if a in pairing.tensors
            and a not in model.constants
            and b not in reference.constants
            and pairing.tensors[a] != b
            and b in pairing.tensors.values()
            and not are_computed_alike(reference, pairing.tensors[a], b)
        ]
        if moved:
            twin, own = reference.nodes[other_node], {b: a for a, b in pairing.tensors.items()}
            pairs = [(node.inputs[at], own[twin.inputs[at]]) for at in moved]
            change = changes.other_inputs(node.op, *zip(*pairs))
        elif frozen := find_frozen_operand(pairing, index):
            change = changes.missing_node(*frozen)
        else:
            continue
        yield Suspect((index,), "structure", change, twins=((index, other_node),))


def _output_suspects(pairing: Pairing) -> Iterator[Suspect]:
    """Yield nodes whose outputs are in a different order, or come from another operator."""
    for index, other_index in pairing.nodes.items():
        node, twin = pairing.model.nodes[index], pairing.reference.nodes[other_index]
        if node.op != twin.op:
            change = changes.other_operator(node.op, twin.op)
            yield Suspect((index,), "structure", change, twins=((index, other_index),))
            continue
        names = [pairing.tensors.get(name, "") for name in node.outputs if name]
        expected = [name for name in twin.outputs if name]
        if names != expected and sorted(names) == sorted(expected):
            yield Suspect(
                (index,),
                "structure",
                changes.swapped_outputs(node.op),
                twins=((index, other_index),),
            )


def _presence_suspects(pairing: Pairing) -> Iterator[Suspect]:
    """Yield nodes that only one model has; a missing node is reported at its neighbor."""
    model, reference = pairing.model, pairing.reference
    replaced = _replacements(pairing)
    for index, node in model.operations.items():
        if index in replaced:
            twin_index = replaced[index]
            change = changes.other_operator(node.op, reference.nodes[twin_index].op)
            yield Suspect((index,), "structure", change, twins=((index, twin_index),))
        elif index not in pairing.nodes:
            behind = {
                (reader, pairing.nodes[reader])
                for name in node.outputs
                for reader, _ in model.readers.get(name, ())
                if reader in pairing.nodes
            }
            change = changes.extra_node(node.op)
            yield Suspect((index,), "structure", change, twins=tuple(sorted(behind)))
    twin_indices = {**pairing.nodes, **replaced}
    back = {other_index: index for index, other_index in twin_indices.items()}
    names = {b: a for a, b in pairing.tensors.items()}
    for twin_index, node in reference.operations.items():
        if twin_index in back or node.op in _LAYOUT:
            continue
        before = {
            model.operation_producers[names[name]]
            for name in node.inputs
            if names.get(name) in model.operation_producers
        }
        after = {
            back[reader]
            for name in node.outputs
            for reader, _ in reference.readers.get(name, ())
            if reader in back
        }
        is_known = all(name in names or name in reference.constants for name in node.inputs if name)
        is_behind = after and (not is_known or len(after) < len(before))
        beside = tuple(sorted((after if is_behind else before) or after))
        if beside:
            twins = tuple(sorted((index, twin_indices[index]) for index in after))
            change = changes.missing_node(node.op, *describe_gap(pairing, node, beside, twins))
            yield Suspect(beside, "structure", change, twins=twins)


def _replacements(pairing: Pairing) -> dict[int, int]:
    """Return, by model node, the reference node that it replaces:
    their outputs feed the same inputs.
    """
    groups: dict[frozenset[tuple[int, int]], list[int]] = {}
    nodes = set(pairing.nodes.values())
    for twin_index, node in pairing.reference.operations.items():
        if twin_index not in nodes:
            read = {at for name in node.outputs for at in pairing.reference.readers.get(name, ())}
            groups.setdefault(frozenset(read), []).append(twin_index)
    makers = pairing.reference.operation_producers
    replacements = {}
    for index, node in pairing.model.operations.items():
        if index in pairing.nodes:
            continue
        named = {makers.get(pairing.tensors.get(name, "")) for name in node.outputs} - {None}
        read = {at for name in node.outputs for at in pairing.model.readers.get(name, ())}
        reference_readers = {(pairing.nodes.get(reader, -1), position) for reader, position in read}
        alike = groups.get(frozenset(reference_readers), []) if reference_readers else []
        twins = [index for index in named or alike if index is not None and index not in nodes]
        if len(twins) == 1 and len(node.outputs) == len(pairing.reference.nodes[twins[0]].outputs):
            replacements[index] = twins[0]
            nodes.add(twins[0])
    return replacements


@frozen
class NodeCopy:
    """A node to copy from the reference, with its connections in the model.

    Attributes:
        twin: the first output of the node in the reference.
        inputs: its inputs, by their names in the model.
        outputs: its outputs.
        replaces: the first output of the node of the model whose place it takes; None for a node
            that is new there.
        captured: the tensors that its subgraphs read from the surrounding graphs: the name in the
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
class CopyPlan:
    """The parts to copy from the reference: nodes, in an order in which each can be inserted, and
    weights with their old and new names; a weight that has a new name already is replaced."""

    nodes: tuple[NodeCopy, ...] = ()
    weights: dict[str, str] = field(factory=dict)


def plan_copies(pairing: Pairing, suspects: Iterable[Suspect]) -> CopyPlan:
    """Return a plan of copies that makes the model equal to the reference in the suspects, and in
    nothing else.

    Raises:
        UsageError: what is to be copied reads an input that the model does not have.
    """
    plan = _Plan(pairing)
    chosen: dict[tuple[int, int], list[Suspect]] = {}
    for suspect in suspects:
        for twins in suspect.twins:
            chosen.setdefault(twins, []).append(suspect)
    for (index, twin_index), group in dict(chosen).items():
        if all(suspect.weights or suspect.attribute for suspect in group):
            weights = {name for suspect in group for name, _ in suspect.weights}
            attributes = tuple(suspect.attribute for suspect in group if suspect.attribute)
            plan.change(index, twin_index, weights, attributes)
        else:
            plan.replace(index, twin_index)
    return CopyPlan(tuple(plan.nodes), plan.weights)


def copies_more(pairing: Pairing, chosen: Sequence[Suspect]) -> bool:
    """Return whether restoring structural differences also copies other weights, or other nodes
    that have weights, so that these may be the fault."""
    restored = {twins for suspect in chosen if suspect.weights for twins in suspect.twins}
    constants = pairing.reference.constants
    for suspect in chosen:
        if suspect.cause != "structure" or not suspect.twins:
            continue
        new = [copy for copy in plan_copies(pairing, [suspect]).nodes if copy.replaces is None]
        nodes = [
            pairing.reference.nodes[pairing.reference.operation_producers[copy.twin]]
            for copy in new
        ]
        with_weights = [
            node
            for node in nodes
            if any(name in constants and not _is_size(constants[name]) for name in node.inputs)
        ]
        if len(with_weights) > (suspect.change.kind == "missing_node"):
            return True
        replaced = {*suspect.twins} - restored
        if any(_has_other_weights(pairing, *twins) for twins in replaced):
            return True
    return False


def _is_size(weight: Weight) -> bool:
    """Return whether a weight can only be part of a size: a few integers."""
    return weight.dtype in ("int32", "int64") and len(weight.shape) < 2


def _has_other_weights(pairing: Pairing, index: int, twin_index: int) -> bool:
    """Return whether two nodes have different weights at the same position."""
    model, reference = pairing.model, pairing.reference
    return any(
        name in model.constants
        and twin in reference.constants
        and model.digest(name) != reference.digest(twin)
        and not differ_by_rounding(
            model.constants[name].values,
            reference.constants[twin].values,
            [(model.nodes[index], position)],
        )
        for position, (name, twin) in enumerate(
            zip(model.nodes[index].inputs, reference.nodes[twin_index].inputs)
        )
    )


class _Plan:
    """Collects the parts to copy."""

    def __init__(self, pairing: Pairing) -> None:
        """Start a plan without parts."""
        self.pairing = pairing
        self.nodes: list[NodeCopy] = []
        self.weights: dict[str, str] = {}
        self._names = {tensor: name for name, tensor in pairing.tensors.items()}
        self._taken = {
            *pairing.model.operation_producers,
            *pairing.model.constants,
            *(tensor.name for tensor in pairing.model.inputs),
        }

    def replace(self, index: int, twin_index: int) -> None:
        """Plan to replace a model node by a reference node."""
        node = self.pairing.model.nodes[index]
        reference_node = self.pairing.reference.nodes[twin_index]
        renamed = dict(zip(reference_node.inputs, node.inputs))
        inputs = tuple(self._operand(name, renamed.get(name, "")) for name in reference_node.inputs)
        outputs = tuple(node.outputs[: len(reference_node.outputs)])
        reordered = tuple(self._names.get(name, "") for name in reference_node.outputs)
        if sorted(reordered) == sorted(outputs):  # The outputs of the node may be swapped.
            outputs = reordered
        output_name = next(filter(None, reference_node.outputs))
        operands = {name: self._operand(name, name) for name in outer_tensors(reference_node)}
        first_output = next(filter(None, node.outputs))
        self.nodes.append(NodeCopy(output_name, inputs, outputs, first_output, operands))

    def change(
        self, index: int, twin_index: int, weights: Collection[str], attributes: tuple[str, ...]
    ) -> None:
        """Plan to copy weights and attributes of a reference node to a model node."""
        own_node = self.pairing.model.nodes[index]
        reference_node = self.pairing.reference.nodes[twin_index]
        twins = [*reference_node.inputs, *[""] * len(own_node.inputs)]
        inputs = tuple(
            self._operand(twin, name) if name in weights else name
            for name, twin in zip(own_node.inputs, twins)
        )
        output_name, first_output = (
            next(filter(None, node.outputs)) for node in (reference_node, own_node)
        )
        self.nodes.append(
            NodeCopy(
                output_name, inputs, tuple(own_node.outputs), first_output, attributes=attributes
            )
        )

    def _operand(self, name: str, own_name: str = "") -> str:
        """Return the model's name for a reference tensor, which is copied if it is missing."""
        sides = self.pairing.model, self.pairing.reference
        if not name or name in self._names:
            return self._names.get(name, "")
        if name in sides[1].constants:
            is_same = own_name in sides[0].constants and sides[0].digest(own_name) == sides[
                1
            ].digest(name)
            if not is_same:
                self.weights.setdefault(name, self._free(name))
            return own_name if is_same else self.weights[name]
        producer = sides[1].operation_producers.get(name)
        if producer is None:
            if name not in self._taken:
                raise errors.missing_input_to_copy(name)
            return name
        node = sides[1].nodes[producer]
        inputs = tuple(self._operand(input_name) for input_name in node.inputs)
        outputs = tuple(self._free(output) if output else "" for output in node.outputs)
        self._names.update(zip(node.outputs, outputs))
        operands = {
            captured_tensor: self._operand(captured_tensor)
            for captured_tensor in outer_tensors(node)
        }
        self.nodes.append(
            NodeCopy(next(filter(None, node.outputs)), inputs, outputs, captured=operands)
        )
        return self._names[name]

    def _free(self, name: str) -> str:
        """Return a tensor name that the model does not use."""
        text, number = name, 0
        while text in self._taken:
            number += 1
            text = f"{name}_reference{number if number > 1 else ''}"
        self._taken.add(text)
        return text


def outer_tensors(node: Node) -> list[str]:
    """Return the outer tensors that the subgraphs of a node read."""
    tensors: dict[str, None] = {}
    for graph in node.graphs:
        names = {tensor.name for tensor in graph.inputs}
        names |= {weight.name for weight in graph.weights}
        names |= {name for inner in graph.nodes for name in inner.outputs}
        for inner in graph.nodes:
            tensors.update(
                dict.fromkeys(n for n in (*inner.inputs, *outer_tensors(inner)) if n not in names)
            )
        tensors.update(dict.fromkeys(t.name for t in graph.outputs if t.name not in names))
    return [name for name in tensors if name]
