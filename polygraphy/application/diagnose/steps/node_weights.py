"""Which weight of a node differs, or which one it lacks: the one with which it computes what is
expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.parts import Part
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.two_models import QUANTISING
from polygraphy.domain.diagnosis.variants import Variant, matches_expected
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.description import Node
from polygraphy.domain.search.arrays import nearest_array
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import Compute

Load = Callable[[Part], Compute]
"""Loads a part of a model on a backend that supports it."""

_WORK = 1 << 30
"""Bytes that all tried runs of a node compute together; the fewest may compute more."""
_TRIES = (64, 6000)
"""The fewest and the most runs."""
_LARGEST = float(np.finfo(np.float32).max)
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def find_lost_input(
    part: Part, name: str, side: Side, index: int, expected: Any, load: Load
) -> Variant | None:
    """Return the variant of a node with an optional weight that it lacks; None if that does not
    explain the expected result.

    Args:
        part: the node with its inputs.
        name: the tensor that it computes.
        side: the model.
        index: the position of the node.
        expected: what that tensor should be.
        load: how parts are run.
    """
    node = side.nodes[index]
    tried = {f"input {at}": (at, start) for at, start in _lost_inputs(side, node, expected).items()}
    is_bias = node.op in ("Conv", "ConvTranspose", "Gemm", "LayerNormalization", *_GATES)

    def variant(key: str, values: Any) -> Variant:
        at, _ = tried[key]
        read = [*node.inputs, *("" for _ in range(at + 1 - len(node.inputs)))]
        read[at] = key
        change = changes.lost_bias(node.op) if is_bias else changes.lost_input(node.op)
        other = evolve(node, inputs=tuple(read))
        return Variant("structure", change, other, {key: values})

    starts = {key: start for key, (_, start) in tried.items()}
    return _search(part, name, expected, load, starts, variant)


def find_other_weight(
    part: Part, name: str, side: Side, index: int, expected: Any, load: Load
) -> Variant | None:
    """Return the variant of a node with other elements of one of its weights; None if none of them
    explains the expected result. See `find_lost_input` for the arguments.
    """
    node = side.nodes[index]
    if node.op in QUANTISING:  # Its rounding hides which scale it is; others solve for it.
        return None
    starts = {
        weight: np.asarray(side.weights[weight].values)
        for weight in dict.fromkeys(node.inputs)
        if weight in side.weights and side.weights[weight].values is not None
    }
    starts = {key: start for key, start in starts.items() if is_float(start) and start.size}

    def variant(key: str, values: Any) -> Variant:
        if starts[key].size == 1:
            change = changes.is_value(starts[key].reshape(-1)[0], values.reshape(-1)[0])
        else:
            change = changes.differs()
        said = changes.other_weight("weight", key, change, node.op)
        return Variant("weight", said, node, {key: values})

    return _search(part, name, expected, load, starts, variant)


def _search(
    part: Part,
    name: str,
    expected: Any,
    load: Load,
    starts: Mapping[str, Any],
    variant: Callable[[str, Any], Variant],
) -> Variant | None:
    """Return the variant with the one weight that explains the expected result."""
    goal = np.asarray(expected)
    if not starts or not is_float(goal) or goal.size < 2 or not np.isfinite(goal).all():
        return None
    read = sum(int(getattr(value, "nbytes", 0)) for value in part.feed.values())
    tries = int(np.clip(_WORK // max(read + goal.nbytes, 1), *_TRIES))
    functions = {}
    for key, start in starts.items():
        try:
            asked = part.change(name, variant(key, start), asks=True)
            compute = load(asked)
        except PolygraphyException:
            continue
        functions[key] = _function(asked, compute, name)
    known = {key: starts[key] for key in functions}
    match = nearest_array(
        functions, known, goal, lambda result: matches_expected(result, goal), tries
    )
    if match is None:
        return None
    key, values = match
    start = starts[key]
    return variant(key, np.asarray(values).reshape(start.shape).astype(start.dtype))


def _function(asked: Part, compute: Compute, name: str) -> Callable[[Any], Any]:
    *_, last = asked.feed

    def function(array: Any) -> Any:
        try:
            return compute({**asked.feed, last: array}).get(name)
        except PolygraphyException:
            return None

    return function


def _lost_inputs(side: Side, node: Node, expected: Any) -> dict[int, Any]:
    """Return the positions of optional weights that a node lacks, and what their absence means."""

    def is_absent(position: int) -> bool:
        return len(node.inputs) <= position or not node.inputs[position]

    shape = np.shape(expected)
    if node.domain or not shape:
        return {}
    if node.op in ("Conv", "ConvTranspose") and is_absent(2) and len(shape) > 1:
        return {2: np.zeros(shape[1], np.float32)}
    if node.op == "Gemm" and is_absent(2):
        return {2: np.zeros(shape[-1], np.float32)}
    scale = side.weights.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if node.op == "LayerNormalization" and is_absent(2) and scale is not None:
        return {2: np.zeros(scale.shape, np.float32)}
    if node.op in _GATES and is_absent(3) and scale is not None and len(scale.shape) == 3:
        return {3: np.zeros((scale.shape[0], 2 * scale.shape[1]), np.float32)}
    if node.op == "Clip":
        bounds = {1: np.float32(-_LARGEST), 2: np.float32(_LARGEST)}
        return {at: np.array(bound) for at, bound in bounds.items() if is_absent(at)}
    if node.op == "Pad" and is_absent(2) and node.attribute("mode", "constant") == "constant":
        return {2: np.array(np.float32(0))}
    return {}
