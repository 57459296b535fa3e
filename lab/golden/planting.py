"""Faults of single nodes: each changes one thing that a row leaves open, or two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .nodes import Draw, Node, Row

WEIGHT, ATTRIBUTE, STRUCTURE = ("weight",), ("attribute",), ("structure",)
NUMBER = ("weight", "attribute")
QUANTIZATION = ("quantization", "weight")
_SHIFTS = {"int4": 3, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""How far a zero point is moved, by its type: as far as values are cut off."""


class Fault(NamedTuple):
    """A changed node, and what there is to find."""

    kind: str
    node: Any
    causes: tuple[str, ...]
    nodes: tuple[str, ...] = ("node",)
    """Naming one of these, and nothing else, is right."""
    number: str = ""
    """The weight that the explanation must mention."""


def draw_node(row: Row, rng: Draw) -> Node:
    """Return a random healthy node of a row."""
    weights = {**row.weights(rng)}
    own_attributes = weights.pop("", {})
    for name, values in row.numbers.items():
        weights[name] = np.array(_choice(rng, values), np.int64)
    attributes = {name: _choice(rng, values) for name, values in row.attributes.items()}
    return Node(row, row.op, row.read, row.made, {**row.fixed, **own_attributes, **attributes},
                weights, str(_choice(rng, row.before)), {})  # fmt: skip


def faults(node: Node, rng: Draw) -> Iterator[Fault]:
    """Yield each fault of a node: one for each part that can change."""
    row = node.row
    is_quantized = row.behind == "DequantizeLinear"
    for name, value in node.weights.items():
        if name and name not in node.read:
            continue
        if name in row.numbers:
            other_values = [v for v in row.numbers[name] if not np.array_equal(v, value)]
            if other_values:
                value_instead = np.array(_choice(rng, other_values), np.int64)
                yield Fault("integers", _weight(node, name, value_instead), NUMBER)
        elif is_quantized:
            yield _quantization(node, name, rng)
        elif np.asarray(value).dtype == bool:
            yield Fault("weight", _weight(node, name, ~value), (*WEIGHT, *STRUCTURE))
        elif np.asarray(value).dtype.kind in "iu":
            yield from _integers(node, name, np.array(value), rng)
        else:
            yield from _weights(node, name, value, rng)
    for name, values in row.attributes.items():
        other_values = [v for v in values if v != node.attributes.get(name)]
        if other_values:
            changed = {**node.attributes, name: _choice(rng, other_values)}
            cause = ("epsilon",) if name == "epsilon" else ATTRIBUTE
            yield Fault("attribute", node._replace(attributes=changed), cause)
    yield from _lists(node, rng)
    for op in row.ops:
        if op != node.op:
            dropped = {"alpha", "count_include_pad"} if op in ("Elu", "MaxPool") else set()
            kept_attributes = {k: v for k, v in node.attributes.items() if k not in dropped}
            yield Fault("operator", node._replace(op=op, attributes=kept_attributes), STRUCTURE)
    for first, second in row.swaps:
        yield Fault("inputs", node._replace(read=_swap(node.read, first, second)), STRUCTURE)
    for first, second in row.turns:
        yield Fault("outputs", node._replace(made=_swap(node.made, first, second)), STRUCTURE)
    for name in row.optional:
        if name == node.read[-1]:
            yield Fault("absent", node._replace(read=node.read[:-1]), STRUCTURE)


def two(node: Node, rng: Draw) -> Fault | None:
    """Return a node with two different faults, or None if it cannot have them."""
    first = [fault for fault in faults(node, rng) if fault.nodes == ("node",)]
    if not first:
        return None
    first_fault = first[int(rng.integers(len(first)))]
    second = [fault for fault in faults(first_fault.node, rng) if fault.kind != first_fault.kind]
    second = [fault for fault in second if fault.nodes == ("node",)]
    if not second:
        return None
    second_fault = second[int(rng.integers(len(second)))]
    causes = (*first_fault.causes, *second_fault.causes, "changed")
    return Fault("two in one node", second_fault.node, tuple(dict.fromkeys(causes)))


def _weights(node: Node, name: str, value: Any, rng: Draw) -> Iterator[Fault]:
    """Yield each fault of one weight of a node."""
    array = np.array(value)
    factor = np.float32(rng.choice([0.5, 1.5, 3.0]))
    # An attribute can have the same effect as multiplying all elements of a weight.
    yield Fault(
        "weight scaled",
        _weight(node, name, array * factor),
        (
            QUANTIZATION
            if node.op.startswith("QLinear")
            else NUMBER if node.op in ("Attention", "Gemm", "FusedMatMul") else WEIGHT
        ),
    )
    if array.size < 2:
        return
    changed = array.copy()
    at = int(rng.integers(array.size))
    changed.flat[at] = np.float32(float(array.flat[at]) + rng.choice([2.0, 5.0]))
    yield Fault("weight element", _weight(node, name, changed), WEIGHT)
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        yield Fault("weight transposed", _weight(node, name, array.T.copy()), NUMBER)


def _integers(node: Node, name: str, array: Any, rng: Draw) -> Iterator[Fault]:
    """Yield faults of integers: of a zero point, or of a weight with its own scale."""
    changed = array.copy()
    at = int(rng.integers(array.size))
    changed.flat[at] = int(array.flat[at]) + (25 if int(array.flat[at]) < 60 else -25)
    if array.size < 2:
        yield Fault("zero point", _weight(node, name, changed), QUANTIZATION)
        return
    yield Fault("integer", _weight(node, name, changed), WEIGHT)
    yield Fault("integers in another order", _weight(node, name, np.roll(array, 1, 0)), WEIGHT)


def _quantization(node: Node, name: str, rng: Draw) -> Fault:
    """Return the fault of a changed scale or zero point of a node."""
    value = np.asarray(node.weights[name])
    if name == "z":
        shifted = np.asarray(value).astype(np.float32) + _SHIFTS.get(str(value.dtype), 60)
        nodes, kind = ("node", "last0"), "zero point"
    else:
        shifted = value.astype(np.float32).copy()
        if shifted.size > 1:
            shifted.flat[int(rng.integers(shifted.size))] *= rng.choice([0.5, 2.0])
        else:
            shifted = shifted * np.float32(rng.choice([0.6, 2.5]))
        nodes, kind = (("node",) if name == "s" else ("last0",)), "scale"
    changed = _weight(node, name, np.asarray(shifted).astype(value.dtype))
    return Fault(kind, changed, QUANTIZATION, nodes)


def _lists(node: Node, rng: Draw) -> Iterator[Fault]:
    """Yield faults that change one learned number of an attribute."""
    attributes = node.attributes
    inner = [at for at, mode in enumerate(attributes.get("nodes_modes", ())) if mode != "LEAF"]
    for name in ("nodes_values", "nodes_featureids", "nodes_modes", "children"):
        if not inner:
            break
        at = int(_choice(rng, inner))
        changed = {
            key: list(value) if isinstance(value, list) else value
            for key, value in attributes.items()
        }
        if name == "children":
            trues, falses = changed["nodes_truenodeids"], changed["nodes_falsenodeids"]
            trues[at], falses[at] = falses[at], trues[at]
        elif name == "nodes_values":
            changed[name][at] = float(np.float32(changed[name][at] + rng.choice([-0.6, 0.6])))
        elif name == "nodes_featureids":
            changed[name][at] = (changed[name][at] + 1 + int(rng.integers(5))) % 6
        else:
            changed[name][at] = str(_choice(rng, ("BRANCH_GT", "BRANCH_GTE")))
        yield Fault(f"tree {name}", node._replace(attributes=changed), ATTRIBUTE)
    for name in ("target_weights", "class_weights", "target_ids", "class_ids", "offset", "scale",
                 "coefficients", "intercepts"):  # fmt: skip
        if not isinstance(attributes.get(name), list):
            continue
        values = list(attributes[name])
        at = int(rng.integers(len(values)))
        if name.endswith("ids"):
            values[at] = (values[at] + 1) % (max(values) + 1)
        else:
            values[at] = float(np.float32(values[at] * -2 + 1))
        changed = {**attributes, name: values}
        yield Fault(f"list {name}", node._replace(attributes=changed), ATTRIBUTE)


def _weight(node: Node, name: str, value: Any) -> Node:
    """Return a node with another value of a weight."""
    return node._replace(weights={**node.weights, name: value})


def _swap(names: tuple[str, ...], first: int, second: int) -> tuple[str, ...]:
    """Return names with two of them exchanged."""
    swapped = list(names)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return tuple(swapped)


def _choice(rng: Draw, values: Any) -> Any:
    """Return a random one of some values."""
    return values[int(rng.integers(len(values)))]
