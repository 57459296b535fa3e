"""Variants of a node with other integers: sizes, bounds, axes or indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.two_models import QUANTIZING
from polygraphy.domain.diagnosis.variants import SWITCHES, Variant, with_attribute
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.tensors.precision import is_float

_FEW = 8
"""Integers of the longest list that is tried with others."""
_USUAL = (0, 1, -1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
"""Integers that are tried in place of others."""
_LARGEST = 1 << 62
"""Integers above stand for the end of an axis."""
_TABLES = frozenset({"Gather", "GatherElements", "GatherND", "Where", "Compress"})
"""Operators whose first input is looked up, whatever it is."""
_TREES = ("nodes_", "tree_roots", "target_", "class_", "leaf_")
"""Attributes that hold the branches of trees: with other integers a tree may never end."""


def integer_variants(side: Graph, index: int) -> Iterator[Variant]:
    """Yield variants with one integer input changed or several reordered.

    Inputs and attributes are sizes, bounds, axes or indices.
    """
    node = side.nodes[index]
    for position, name in enumerate(node.inputs):
        values = side.constants[name].values if name in side.constants else None
        if values is None or np.asarray(values).dtype.kind in "bOSUV" or np.size(values) > _FEW:
            continue
        if is_float(np.asarray(values)):
            continue
        if node.op in QUANTIZING or (node.op in _TABLES and not position):
            continue
        array = np.asarray(values)
        limits = np.iinfo(array.dtype)
        for value in _nearby_lists(tuple(map(int, array.reshape(-1)))):
            if not all(limits.min <= index <= limits.max for index in value):
                continue
            other_integers = np.array(value, np.int64)
            change = changes.other_weight(
                "weight", name, difference_of_integers(array, other_integers), node.op
            )
            shaped = other_integers.reshape(array.shape).astype(array.dtype)
            yield Variant("weight", change, node, {name: shaped})
    for attribute in node.attributes:
        if node.op.startswith("TreeEnsemble") and attribute.name.startswith(_TREES):
            continue
        is_known = attribute.name in (
            *SWITCHES.get(node.op, ()),
            "keepdims",
            "to",
            "perm",
            "dtype",
            "num_outputs",
        )
        if is_known or attribute.kind not in ("int", "ints"):
            continue
        own_indices = (
            (int(attribute.value),) if attribute.kind == "int" else tuple(map(int, attribute.value))
        )
        for value in _nearby_lists(own_indices) if len(own_indices) <= _FEW else ():
            shown_value = value[0] if attribute.kind == "int" else value
            own_number = own_indices[0] if attribute.kind == "int" else own_indices
            if attribute.name == "batch_dims" and min(value) < 0:
                continue  # No operator accepts it, and shape inference crashes.
            change = changes.other_attribute(node.op, attribute.name, own_number, shown_value)
            yield Variant(
                "attribute",
                change,
                with_attribute(node, attribute.name, attribute.kind, shown_value),
            )


def difference_of_integers(array: Any, other_value: Any) -> Fact:
    """Return the fact that integers differ from the expected ones."""
    values, expected = array.reshape(-1).tolist(), other_value.reshape(-1).tolist()
    if len(values) == len(expected) == 1:
        return changes.is_value(values[0], expected[0])
    return changes.contains(values, expected)


def _nearby_lists(values: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield lists of integers that differ a little from the given ones."""
    visited = {values}
    turned = [values[i:] + values[:i] for i in range(1, len(values))]
    moved = [tuple(value + step for value in values) for step in (1, -1)]
    single = [
        (*values[:at], value, *values[at + 1 :])
        for at, number in enumerate(values)
        for value in (
            *((1 - number,) if number in (0, 1) else ()),  # It may be a switch.
            *(number + 1, number - 1, *_USUAL, number + 2, number - 2, -number, 2 * number),
        )
    ]
    for other_indices in [values[::-1], *turned, *moved, *single]:
        if other_indices not in visited and all(
            abs(index) < _LARGEST for index in other_indices if index not in values
        ):
            visited.add(other_indices)
            yield other_indices
