"""Features that lie on a threshold of a tree, so that rounding decides which leaf a row reaches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.variants import Variant, with_attribute
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Node
from polygraphy.domain.tensors.precision import is_float

_STEPS = 2
"""A feature this many float32 numbers away from a threshold may be rounded across it."""
_SPLITS = ("nodes_values", "nodes_values_as_tensor", "nodes_splits")
"""Attributes with the thresholds, in ai.onnx.ml 1, 3 and 5."""

_UPWARD = ("BRANCH_LT", b"BRANCH_LT", 1, "BRANCH_GTE", b"BRANCH_GTE", 2)
"""Modes, by name and by number, in which an equal feature takes the other branch if the threshold
is larger."""


_OPPOSITE = {
    "BRANCH_LT": "BRANCH_LEQ",
    "BRANCH_LEQ": "BRANCH_LT",
    "BRANCH_GT": "BRANCH_GTE",
    "BRANCH_GTE": "BRANCH_GT",
}
"""The mode that differs only for features that equal the threshold."""


@frozen
class Tie:
    """A threshold that equals a feature of some rows.

    Attributes:
        value: the threshold.
        moved: the next number on the other side of these features.
        rows: the rows.
    """

    value: float
    moved: float
    rows: frozenset[int]


def is_tree(node: Node) -> bool:
    """Return whether a node is an ensemble of trees."""
    return node.op.startswith("TreeEnsemble") and bool(_split_name(node))


def is_short(threshold: float) -> bool:
    """Return whether a float32 threshold is a number of few decimal digits, such as 2 or 0.5:
    then the original threshold was probably equal, and not rounded to it."""
    return float(f"{threshold:.6g}") == threshold


def opposite_mode(node: Node) -> tuple[str, str] | None:
    """Return the mode of all splits of a tree, and its opposite for equal features; or None.

    The opposite differs only for features that equal the threshold. None if splits have several
    modes, or one without an opposite.
    """
    modes = {
        mode.decode() if isinstance(mode, bytes) else str(mode)
        for mode in node.attribute("nodes_modes", ())
    } - {"LEAF"}
    [mode] = modes if len(modes) == 1 else [""]
    return (mode, _OPPOSITE[mode]) if mode in _OPPOSITE else None


def _split_name(node: Node) -> str:
    """Return the name of the attribute with the thresholds; empty if there is none."""
    return next((name for name in _SPLITS if np.size(node.attribute(name, ())) > 0), "")


def find_ties(node: Node, features: Any) -> list[Tie]:
    """Return the thresholds that features equal, up to rounding.

    Args:
        node: a node for which `is_tree` holds.
        features: its input, of shape ``[rows, features]``.
    """
    table = np.asarray(features)
    if table.ndim != 2 or not _is_number(table):
        return []
    table = table.astype(np.float32)
    splits = np.asarray(node.attribute(_split_name(node)), np.float32).reshape(-1)
    ids = np.asarray(node.attribute("nodes_featureids", ()), np.int64).reshape(-1)
    modes = list(node.attribute("nodes_modes", ()))
    tied: dict[float, tuple[float, set[int]]] = {}
    branches = {
        (float(value), int(feature), mode in _UPWARD)
        for value, feature, mode in zip(splits, ids, modes)
        if mode not in ("LEAF", b"LEAF") and 0 <= feature < table.shape[1]
    }
    for value, feature, is_upward in sorted(branches):
        column = table[:, feature]
        near = np.abs(column - np.float32(value)) <= _STEPS * np.spacing(np.float32(abs(value)))
        rows = np.flatnonzero(near)
        if not rows.size:
            continue
        reached = np.less if is_upward else np.less_equal
        down = bool(reached(column[rows], np.float32(value)).any())
        edge = column[rows].min() if down else column[rows].max()
        moved = float(np.nextafter(edge, np.float32(-np.inf if down else np.inf)))
        before = tied.setdefault(value, (moved, set()))
        before[1].update(map(int, rows))
    return [Tie(value, moved, frozenset(rows)) for value, (moved, rows) in tied.items()]


def move_thresholds(node: Node, ties: Collection[Tie]) -> Variant:
    """Return the variant of a node with tied thresholds on the other side of the features."""
    name = _split_name(node)
    kind = next(attribute.kind for attribute in node.attributes if attribute.name == name)
    thresholds = node.attribute(name)
    splits = np.array(thresholds, np.float32)
    for tie in ties:
        splits[np.float32(tie.value) == np.asarray(thresholds, np.float32)] = tie.moved
    value = (
        splits.astype(thresholds.dtype) if isinstance(thresholds, np.ndarray) else splits.tolist()
    )
    change = changes.thresholds_beyond_features(sorted(tie.value for tie in ties))
    return Variant("rounding", change, with_attribute(node, name, kind, value))


def differing_rows(values: Any, expected: Any) -> frozenset[int] | None:
    """Return the rows in which an output differs by more than rounding, or None.
    The result is None if the outputs have different numbers of rows."""
    arrays = [_as_array(outputs) for outputs in (values, expected)]
    if any(array is None for array in arrays) or arrays[0].shape != arrays[1].shape:
        return None
    value, expected_value = arrays
    if not value.ndim:
        return None
    if not (_is_number(value) and _is_number(expected_value)):
        wrong = value != expected_value
    else:
        value, expected_value = value.astype(np.float64), expected_value.astype(np.float64)
        size = float(np.sqrt(np.mean(np.square(expected_value)))) if expected_value.size else 0.0
        wrong = ~(
            np.abs(value - expected_value)
            <= 16 * np.finfo(np.float32).eps * (size + np.abs(expected_value))
        )
    return frozenset(map(int, np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))))


def _is_number(array: Any) -> bool:
    """Return whether elements are numbers, as opposed to strings and booleans."""
    return is_float(array) or np.issubdtype(array.dtype, np.integer)


def _as_array(value: Any) -> Any:
    """Return an output as an array; rows that are maps become rows of numbers.
    None for other types."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if not all(isinstance(row, dict) for row in value):
            return None
        keys = sorted({key for row in value for key in row}, key=str)
        return np.array([[row.get(key, np.nan) for key in keys] for row in value], np.float64)
    return np.asarray(value)
