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
    node: Node
    causes: tuple[str, ...]
    nodes: tuple[str, ...] = ("node",)
    """Naming one of these, and nothing else, is right."""


def drawn(row: Row, rng: Draw) -> Node:
    """Return a healthy node of a row."""
    held = {**row.weights(rng)}
    own = held.pop("", {})
    for name, values in row.numbers.items():
        held[name] = np.array(_choice(rng, values), np.int64)
    attributes = {name: _choice(rng, values) for name, values in row.attributes.items()}
    return Node(row, row.op, row.read, row.made, {**row.fixed, **own, **attributes}, held,
                str(_choice(rng, row.before)), {})  # fmt: skip


def faults(node: Node, rng: Draw) -> Iterator[Fault]:
    """Yield faults of a node, one for each thing that can be another."""
    row = node.row
    is_quantized = row.behind == "DequantizeLinear"
    for name, value in node.weights.items():
        if name and name not in node.read:
            continue
        if name in row.numbers:
            others = [v for v in row.numbers[name] if not np.array_equal(v, value)]
            if others:
                other = np.array(_choice(rng, others), np.int64)
                yield Fault("integers", _weight(node, name, other), NUMBER)
        elif is_quantized:
            yield _quantization(node, name, rng)
        elif np.asarray(value).dtype == bool:
            yield Fault("weight", _weight(node, name, ~value), (*WEIGHT, *STRUCTURE))
        elif np.asarray(value).dtype.kind in "iu":
            yield from _integers(node, name, np.array(value), rng)
        else:
            yield from _weights(node, name, value, rng)
    for name, values in row.attributes.items():
        others = [v for v in values if v != node.attributes.get(name)]
        if others:
            changed = {**node.attributes, name: _choice(rng, others)}
            cause = ("epsilon",) if name == "epsilon" else ATTRIBUTE
            yield Fault("attribute", node._replace(attributes=changed), cause)
    yield from _lists(node, rng)
    for op in row.ops:
        if op != node.op:
            lost = {"alpha", "count_include_pad"} if op in ("Elu", "MaxPool") else set()
            kept = {k: v for k, v in node.attributes.items() if k not in lost}
            yield Fault("operator", node._replace(op=op, attributes=kept), STRUCTURE)
    for one, two in row.swaps:
        yield Fault("inputs", node._replace(read=_swapped(node.read, one, two)), STRUCTURE)
    for one, two in row.turns:
        yield Fault("outputs", node._replace(made=_swapped(node.made, one, two)), STRUCTURE)
    for name in row.optional:
        if name == node.read[-1]:
            yield Fault("absent", node._replace(read=node.read[:-1]), STRUCTURE)


def two(node: Node, rng: Draw) -> Fault | None:
    """Return a node with two faults."""
    first = [one for one in faults(node, rng) if one.nodes == ("node",)]
    if not first:
        return None
    one = first[int(rng.integers(len(first)))]
    second = [each for each in faults(one.node, rng) if each.kind != one.kind]
    second = [each for each in second if each.nodes == ("node",)]
    if not second:
        return None
    other = second[int(rng.integers(len(second)))]
    causes = (*one.causes, *other.causes, "changed")
    return Fault("two in one node", other.node, tuple(dict.fromkeys(causes)))


def _weights(node: Node, name: str, value: Any, rng: Draw) -> Iterator[Fault]:
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
    other = array.copy()
    at = int(rng.integers(array.size))
    other.flat[at] = np.float32(float(array.flat[at]) + rng.choice([2.0, 5.0]))
    yield Fault("weight element", _weight(node, name, other), WEIGHT)
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        yield Fault("weight transposed", _weight(node, name, array.T.copy()), NUMBER)


def _integers(node: Node, name: str, array: Any, rng: Draw) -> Iterator[Fault]:
    """Yield faults of integers: of a zero point, or of a weight whose scale is apart."""
    other = array.copy()
    at = int(rng.integers(array.size))
    other.flat[at] = int(array.flat[at]) + (25 if int(array.flat[at]) < 60 else -25)
    if array.size < 2:
        yield Fault("zero point", _weight(node, name, other), QUANTIZATION)
        return
    yield Fault("integer", _weight(node, name, other), WEIGHT)
    yield Fault("integers in another order", _weight(node, name, np.roll(array, 1, 0)), WEIGHT)


def _quantization(node: Node, name: str, rng: Draw) -> Fault:
    value = np.asarray(node.weights[name])
    if name == "z":
        other = np.asarray(value).astype(np.float32) + _SHIFTS.get(str(value.dtype), 60)
        nodes, kind = ("node", "last0"), "zero point"
    else:
        other = value.astype(np.float32).copy()
        if other.size > 1:
            other.flat[int(rng.integers(other.size))] *= rng.choice([0.5, 2.0])
        else:
            other = other * np.float32(rng.choice([0.6, 2.5]))
        nodes, kind = (("node",) if name == "s" else ("last0",)), "scale"
    changed = _weight(node, name, np.asarray(other).astype(value.dtype))
    return Fault(kind, changed, QUANTIZATION, nodes)


def _lists(node: Node, rng: Draw) -> Iterator[Fault]:
    """Yield nodes with one number of an attribute changed that holds what was learned."""
    held = node.attributes
    inner = [at for at, mode in enumerate(held.get("nodes_modes", ())) if mode != "LEAF"]
    for name in ("nodes_values", "nodes_featureids", "nodes_modes", "children"):
        if not inner:
            break
        at = int(_choice(rng, inner))
        changed = {
            key: list(each) if isinstance(each, list) else each for key, each in held.items()
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
        if not isinstance(held.get(name), list):
            continue
        values = list(held[name])
        at = int(rng.integers(len(values)))
        if name.endswith("ids"):
            values[at] = (values[at] + 1) % (max(values) + 1)
        else:
            values[at] = float(np.float32(values[at] * -2 + 1))
        changed = {**held, name: values}
        yield Fault(f"list {name}", node._replace(attributes=changed), ATTRIBUTE)


def _weight(node: Node, name: str, value: Any) -> Node:
    return node._replace(weights={**node.weights, name: value})


def _swapped(names: tuple[str, ...], one: int, two: int) -> tuple[str, ...]:
    held = list(names)
    held[one], held[two] = held[two], held[one]
    return tuple(held)


def _choice(rng: Draw, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]
