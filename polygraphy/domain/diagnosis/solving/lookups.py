"""Indices with which a node that looks elements up, or writes them, computes what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.solving.integers import difference_of_integers
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node

_MOST = 4_000_000
"""Elements that are compared with each other at most."""


def _rows(data: Any, expected: Any) -> list[int] | None:
    """Return, for each expected row, the first row of an array that equals it, or None.
    The result is None if one has none."""
    if data.shape[1:] != expected.shape[1:]:
        return None
    positions = [
        next((at for at, row in enumerate(data) if np.array_equal(row, value)), None)
        for value in expected
    ]
    return None if None in positions else [at for at in positions if at is not None]


def _gather_indices(node: Node, data: Any, goal: Any, indices: Any) -> Any:
    """Return the indices with which a Gather gives the goal; None if there are none."""
    axis = int(node.attribute("axis", 0))
    if indices.ndim > 1 or data.ndim - 1 + indices.ndim != goal.ndim:
        return None
    expected = np.moveaxis(goal, axis, 0) if indices.ndim else goal[np.newaxis]
    return _rows(np.moveaxis(data, axis, 0), expected)


def _gather_nd_indices(node: Node, data: Any, goal: Any, indices: Any) -> Any:
    """Return the indices with which a GatherND gives the goal; None if there are none."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= data.ndim or int(node.attribute("batch_dims", 0)):
        return None
    leading, remaining_shape = data.shape[:depth], data.shape[depth:]
    rows = None
    if goal.shape == (*indices.shape[:-1], *remaining_shape):
        rows = _rows(data.reshape(-1, *remaining_shape), goal.reshape(-1, *remaining_shape))
    return None if rows is None else np.stack(np.unravel_index(rows, leading), -1)


def _feature_indices(node: Node, data: Any, goal: Any, indices: Any) -> Any:
    """Return the indices with which an ArrayFeatureExtractor gives the goal, or None.
    The result is None if there are none."""
    if data.ndim != goal.ndim or not goal.ndim or goal.shape[-1] != indices.size:
        return None
    return _rows(np.moveaxis(data, -1, 0), np.moveaxis(goal, -1, 0))


def _compress_condition(node: Node, data: Any, goal: Any, condition: Any) -> Any:
    """Return the condition with which a Compress gives the goal; None if there is none."""
    axis = node.attribute("axis")
    if axis is None:
        data, axis = data.reshape(-1), 0
    if data.ndim != goal.ndim or condition.shape != data.shape[int(axis) : int(axis) + 1]:
        return None
    rows = _rows(np.moveaxis(data, int(axis), 0), np.moveaxis(goal, int(axis), 0))
    if rows is None or rows != sorted({*rows}):
        return None
    return np.isin(np.arange(condition.size), rows)


def _scatter_nd_indices(node: Node, data: Any, goal: Any, indices: Any, updates: Any) -> Any:
    """Return the indices with which a ScatterND writes its updates where the goal has them.
    The result is None if there are none."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= data.ndim or goal.shape != data.shape or _adds(node):
        return None
    leading, remaining_shape = data.shape[:depth], data.shape[depth:]
    if updates.shape != (*indices.shape[:-1], *remaining_shape):
        return None
    rows = _rows(goal.reshape(-1, *remaining_shape), updates.reshape(-1, *remaining_shape))
    return None if rows is None else np.stack(np.unravel_index(rows, leading), -1)


def _scatter_element_indices(node: Node, data: Any, goal: Any, indices: Any, updates: Any) -> Any:
    """Return the indices with which a ScatterElements writes its updates where the goal has them.
    The result is None if there are none."""
    if goal.shape != data.shape or updates.shape != indices.shape or _adds(node):
        return None
    return _positions_along_axis(node, goal, updates)


def _gather_element_indices(node: Node, data: Any, goal: Any, indices: Any) -> Any:
    """Return the indices with which a GatherElements gives the goal; None if there are none."""
    return None if goal.shape != indices.shape else _positions_along_axis(node, data, goal)


def _positions_along_axis(node: Node, array: Any, elements: Any) -> Any:
    """Return the first position of each element in an array, along the axis of a node;
    None if the array does not have one."""
    axis = int(node.attribute("axis", 0))
    if array.ndim != elements.ndim or not -array.ndim <= axis < array.ndim:
        return None
    lines, wanted = np.moveaxis(array, axis, -1), np.moveaxis(elements, axis, -1)
    if any(size < least for size, least in zip(lines.shape[:-1], wanted.shape[:-1])):
        return None
    lines = lines[tuple(slice(size) for size in wanted.shape[:-1])]
    is_equal = lines[..., np.newaxis, :] == wanted[..., np.newaxis]
    if not is_equal.any(axis=-1).all():
        return None
    return np.moveaxis(is_equal.argmax(axis=-1), -1, axis)


def _adds(node: Node) -> bool:
    """Return whether a node combines what it writes with what was there."""
    return str(node.attribute("reduction", "none")) != "none"


_LOOKUPS: Mapping[str, Callable[..., Any]] = {
    "ArrayFeatureExtractor": _feature_indices,
    "Compress": _compress_condition,
    "Gather": _gather_indices,
    "GatherElements": _gather_element_indices,
    "GatherND": _gather_nd_indices,
    "Scatter": _scatter_element_indices,
    "ScatterElements": _scatter_element_indices,
    "ScatterND": _scatter_nd_indices,
}
"""By operator, a function of node, data, expected values, second input and, for what is written,
third input, which returns the second."""


def solve_indices(
    side: Graph, node: Node, inputs: Mapping[str, Any], goal: Any
) -> Iterator[Variant]:
    """Yield the variant of a lookup node with the indices at which its data have the expected
    values."""
    name = node.inputs[1] if len(node.inputs) > 1 and node.inputs[1] in side.constants else ""
    find = _LOOKUPS.get(node.op)
    if not name or find is None:
        return
    data, *others = (_value(side, inputs, read) for read in (node.inputs[0], *node.inputs[2:3]))
    if any(each is None or np.size(each) * np.size(goal) > _MOST for each in (data, *others)):
        return
    array = np.asarray(side.constants[name].values)
    indices = find(node, np.asarray(data), goal, array, *map(np.asarray, others))
    if indices is None:
        return
    values = np.asarray(indices).reshape(array.shape).astype(array.dtype)
    if not np.array_equal(values, array):
        difference = difference_of_integers(array, values)
        change = changes.other_weight("weight", name, difference, node.op)
        yield Variant("weight", change, node, {name: values})


def _value(side: Graph, inputs: Mapping[str, Any], name: str) -> Any:
    """Return the value of a weight or of a computed tensor; None if it is unknown."""
    return side.constants[name].values if name in side.constants else inputs.get(name)
