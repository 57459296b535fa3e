"""Selections that differ because elements are equal: neither is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import MOVES, region_before
from polygraphy.domain.rounding import LARGE

_SELECTING = frozenset({"ArgMax", "ArgMin", "TopK"})


def find_ties(
    graph: Graph, computed: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, str]:
    """Return the tensors that differ only because a node selects another of equal elements, and
    the name of this node.

    Args:
        graph: the model.
        computed: the tensors that differ from the expected ones.
        expected: all known tensors, and the inputs of the model.
    """
    ties = {}
    for name, selected in computed.items():
        node = selecting_node(graph, region_before(graph, name, expected.keys()))
        if node is not None and node.inputs[0] in expected:
            data = expected[node.inputs[0]]
            if selects_equal_elements(node, data, selected, expected[name]):
                ties[name] = node.label
    return ties


def selecting_node(graph: Graph, region: Sequence[int]) -> Node | None:
    """Return the node of a region that selects elements by size,
    if the others only move its result; else None."""
    nodes = [graph.nodes[index] for index in region if graph.nodes[index].op != "Constant"]
    selecting = [node for node in nodes if node.op in _SELECTING and not node.domain]
    moving = [node for node in nodes if node.op in MOVES]
    return selecting[0] if len(selecting) == 1 and len(moving) + 1 == len(nodes) else None


def find_near_ties(
    graph: Graph, values: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[int]:
    """Return the positions of nodes that select different elements,
    which differ by no more than the error of the tensor that they select from, if that is as small
    as rounding.

    Args:
        graph: the model.
        values: its tensors as one backend computes them.
        expected: the same tensors as another backend computes them.
    """
    found = []
    for index in selecting_nodes(graph):
        node = graph.nodes[index]
        names = node.inputs[0], node.outputs[-1]
        if not all(name in values and name in expected for name in names):
            continue
        (data, expected_data), (selected, expected_selected) = (
            (np.asarray(values[name]), np.asarray(expected[name])) for name in names
        )
        if data.shape != expected_data.shape or np.array_equal(selected, expected_selected):
            continue
        error = np.max(np.abs(data.astype(np.float64) - expected_data), initial=0.0)
        if not error <= LARGE * root_mean_square(expected_data):
            continue  # More than rounding, so that it explains too much.
        if selects_equal_elements(node, expected_data, selected, expected_selected, 2 * error):
            found.append(index)
    return found


def selecting_nodes(graph: Graph) -> list[int]:
    """Return the positions of the nodes that select elements by size, and return where they are."""
    return [
        index
        for index, node in graph.operations.items()
        if node.op in _SELECTING and not node.domain and node.inputs and all(node.outputs)
    ]


def selects_equal_elements(
    node: Node, data: Any, indices: Any, expected: Any, tolerance: float = 0.0
) -> bool:
    """Return whether two different results of a node select equal elements of its input.

    Args:
        node: ArgMax, ArgMin or TopK.
        data: its input.
        indices: the selected positions, in any shape with the same order.
        expected: the expected positions.
        tolerance: the largest difference of two elements that count as equal.
    """
    array, axis = np.asarray(data), int(node.attribute("axis", -1 if node.op == "TopK" else 0))
    selections = [np.asarray(indices), np.asarray(expected)]
    if not array.ndim or not -array.ndim <= axis < array.ndim:
        return False
    others = array.size // max(array.shape[axis], 1)
    if any(selection.dtype.kind not in "iu" for selection in selections) or not others:
        return False
    shape = [*array.shape]
    shape[axis] = selections[0].size // others
    elements = []
    for selection in selections:
        if selection.size != np.prod(shape):
            return False
        positions = selection.reshape(shape)
        if positions.min(initial=0) < 0 or positions.max(initial=0) >= array.shape[axis]:
            return False
        ordered = np.sort(positions, axis=axis)
        if not np.diff(ordered, axis=axis).all():
            return False  # One element is selected twice.
        taken = np.take_along_axis(array, positions.astype(np.int64), axis)
        is_sorted = node.op != "TopK" or node.attribute("sorted", 1)
        elements.append(taken if is_sorted else np.sort(taken, axis=axis))
    first, second = elements
    if not tolerance:
        return bool(np.array_equal(first, second))
    apart = np.abs(first.astype(np.float64) - second)
    return bool((apart <= tolerance).all())
