"""Selections that differ because elements are equal: neither is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import MOVES, region_before
from polygraphy.domain.rounding import LARGE
from polygraphy.domain.tensors.maps import common_keys, numbers_of_maps
from polygraphy.domain.tensors.precision import epsilon_of, is_float

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


def count_tied_labels(
    graph: Graph,
    name: str,
    values: Mapping[str, Any],
    expected: Mapping[str, Any],
    matching: Sequence[str],
    *,
    is_defined: bool,
) -> int:
    """Return how many labels differ, if labels differ only where the two classes have the largest
    scores, which are equal except for rounding; else 0.

    Args:
        graph: the model.
        name: the output with the labels.
        values: the outputs of the model.
        expected: the same outputs as they are expected.
        matching: the outputs that match, which may be the scores.
        is_defined: whether a model computes the expected outputs, too. If ONNX defines the choice
            among equal scores, both must then make it.
    """
    sides = values[name], expected[name]
    for side in sides:
        is_text = isinstance(side, list) and all(isinstance(one, str) for one in side)
        if not is_text and not isinstance(side, np.ndarray):
            return 0  # A sequence, a map or nothing.
    labels, expected_labels = map(np.asarray, sides)
    if is_float(labels) or labels.shape != expected_labels.shape or not labels.size:
        return 0
    pair = labels.ravel().tolist(), expected_labels.ravel().tolist()
    classes = _classes_of(graph, name)
    selects = any(graph.nodes[index].op in _SELECTING for index in region_before(graph, name, ()))
    for scores in matching:
        for table in _tables_of_scores(values[scores], expected[scores], labels.shape):
            if _differ_by_ties(pair, table, classes, is_defined=is_defined and selects):
                return sum(label != other for label, other in zip(*pair))
    return 0


def _classes_of(graph: Graph, name: str) -> list[Any]:
    """Return the labels of a classifier that an output depends on, in the order of its scores;
    empty if they are unknown."""
    for index in region_before(graph, name, ()):
        for kind in ("classlabels_int64s", "classlabels_ints", "classlabels_strings"):
            if classes := graph.nodes[index].attribute(kind, None):
                return [one.decode() if isinstance(one, bytes) else one for one in classes]
    return []


def _tables_of_scores(value: Any, expected: Any, shape: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Yield two outputs as tables with a row for each label and a column for each class."""
    if keys := common_keys(value, expected):
        value, expected = (numbers_of_maps(side, keys) for side in (value, expected))
    if not is_float(value) or not is_float(expected) or value.shape != expected.shape:
        return
    sizes = [size for size in shape if size != 1]
    for axis, count in enumerate(value.shape):
        others = [size for at, size in enumerate(value.shape) if at != axis and size != 1]
        if count > 1 and others == sizes:
            first, second = (
                np.moveaxis(side, axis, -1).reshape(-1, count) for side in (value, expected)
            )
            yield first, second


def _differ_by_ties(
    labels: tuple[Sequence[Any], Sequence[Any]],
    scores: tuple[Any, Any],
    classes: Sequence[Any],
    *,
    is_defined: bool,
) -> bool:
    """Return whether labels are the classes with the largest scores, and differ only where these
    are equal except for rounding.

    Args:
        labels: a label for each row, and the expected ones.
        scores: the score of each class, for each row, and the expected ones.
        classes: the labels in the order of the scores; empty if they are unknown.
        is_defined: whether both sides must choose the same of exactly equal scores.
    """
    first, second = (side.astype(np.float64) for side in scores)
    if not np.isfinite(first).all() or not np.isfinite(second).all():
        return False
    error = float(np.max(np.abs(first - second), initial=0.0))
    if not error <= LARGE * root_mean_square(second):
        return False  # More than rounding, so that it explains too much.
    largest = np.abs(second).max(axis=1, keepdims=True)
    tolerance = 2 * np.maximum(error, epsilon_of(scores[0].dtype) * largest)
    at_top = second >= second.max(axis=1, keepdims=True) - tolerance
    is_tied = (at_top.sum(axis=1) > 1).tolist()
    apart = [row for row, pair in enumerate(zip(*labels)) if pair[0] != pair[1]]
    if not all(is_tied[row] for row in apart):
        return False
    if is_defined:
        sides = (side[apart] for side in (first, second))
        equal = [(side == side.max(axis=1, keepdims=True)).sum(axis=1) > 1 for side in sides]
        if np.logical_and(*equal).any():
            return False  # Rounding did not make these scores equal.
    columns = dict(zip(classes, range(first.shape[1])))
    is_known = bool(columns)
    for label, other, tied, column in zip(*labels, is_tied, second.argmax(axis=1).tolist()):
        if label == other and not tied and columns.setdefault(label, column) != column:
            return False  # Labels are not the classes with the largest scores.
    if not columns or len({*columns.values()}) < len(columns):
        return False
    free = [column not in columns.values() for column in range(first.shape[1])]
    return all(
        (
            at_top[row, columns[label]]
            if label in columns
            else not is_known and (at_top[row] & free).any()
        )
        for row in apart
        for label in (labels[0][row], labels[1][row])
    )
