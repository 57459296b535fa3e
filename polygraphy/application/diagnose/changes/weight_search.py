"""Which weight of a node differs, or which one it lacks: the one with which it computes what is
expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.changes.change_search import ChangeSearch, output_name
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.diagnosis.solving.bodies import in_body, inner_nodes
from polygraphy.domain.diagnosis.solving.weights import solve_missing_bias
from polygraphy.domain.diagnosis.two_models import QUANTIZING
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.search.arrays import nearest_array
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import Compute

_WORK = 1 << 30
"""Bytes that all tried runs of a node compute together; the fewest may compute more."""
_TRIES = (64, 6000)
"""The fewest and the most runs."""
_CODES = (np.dtype(np.int8), np.dtype(np.uint8))
"""Types of quantized weights, of which a result is as linear as of others."""
_BEHIND = 2
"""Positions behind the last input where an operator may have another one."""
_VARIADIC = frozenset({"Concat", "Einsum", "Max", "Mean", "Min", "Sum"})
"""Operators with any number of inputs, so that none of them is optional."""
_LARGEST = float(np.finfo(np.float32).max)
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def find_lost_inputs(
    search: ChangeSearch, position: int, output: Any, goal: Any
) -> Iterator[Variant]:
    """Yield the variant of a node with an optional weight that it lacks,
    if it computes the expected value.

    Args:
        search: tries changes of the node alone.
        position: the node.
        output: the result of its part.
        goal: the expected result of its part.
    """
    node = search.graph.nodes[position]
    lost_values = _missing_inputs(search.graph, node, goal)
    names = {f"input {at}": at for at in lost_values}
    is_bias = node.op not in ("Clip", "Pad")

    def variant_with(name: str, values: Any) -> Variant:
        """Return the variant that reads a weight as an additional input."""
        at = names[name]
        read = [*node.inputs, *("" for _ in range(at + 1 - len(node.inputs)))]
        read[at] = name
        change = changes.missing_bias(node.op) if is_bias else changes.missing_input(node.op)
        return Variant("structure", change, evolve(node, inputs=tuple(read)), {name: values})

    solved = {
        name: array.astype(start.dtype)
        for name, at in names.items()
        for start in (lost_values[at],)
        for array in solve_missing_bias(node, at, start, output, goal)
        if np.isfinite(array).all()
    }
    yield from search.select_matching(variant_with(name, array) for name, array in solved.items())
    other_values = {name: lost_values[at] for name, at in names.items() if name not in solved}
    yield from _fit_weight(search, goal, other_values, variant_with)


def find_fitted_weights(
    search: ChangeSearch, position: int, output: Any, goal: Any
) -> Iterator[Variant]:
    """Yield the variants of a node with other elements of a weight, or with one more weight,
    if it computes the expected value.

    Args:
        search: tries changes of the node alone.
        position: the node.
        output: the result of its part.
        goal: the expected result of its part.
    """
    yield from find_other_weights(search, position, goal)
    yield from _find_other_inputs(search, position, output, goal)


def _find_other_inputs(
    search: ChangeSearch, position: int, output: Any, goal: Any
) -> Iterator[Variant]:
    """Yield the variant of a node with one more weight, if it computes the expected value;
    zeros there are the same as nothing, so that the backend shows which weights are optional."""
    node = search.graph.nodes[position]
    zeros = dict(_optional_zeros(search.graph, node, np.asarray(goal)))

    def variant_with(name: str, values: Any) -> Variant:
        """Return the variant that reads a weight as an additional input."""
        at = int(name.split()[1])
        read = [*node.inputs, *("" for _ in range(at + 1 - len(node.inputs)))]
        read[at] = name
        change = changes.missing_input(node.op)
        return Variant("structure", change, evolve(node, inputs=tuple(read)), {name: values})

    unchanged = evolve(search, goals={next(iter(search.goals)): output})
    accepted = unchanged.select_matching(variant_with(*pair) for pair in zeros.items())
    starts = {name: value for variant in accepted for name, value in variant.weights.items()}
    yield from _fit_weight(search, goal, starts, variant_with)


def _optional_zeros(graph: Graph, node: Node, goal: Any) -> Iterator[tuple[str, Any]]:
    """Yield the zeros that each absent input may be, as a name with its position and a shape:
    a bias of the result, of query, key and value, or of each matrix in a weight."""
    if node.op in _VARIADIC or not goal.ndim or not is_float(goal):
        return
    channels = goal.shape[-1]
    shapes = {(channels,): None, (3 * channels,): None}
    for name in node.inputs:
        shape = np.shape(graph.constants[name].values) if name in graph.constants else ()
        if shape:
            shapes |= dict.fromkeys([shape[-1:], (*shape[:-2], shape[-1]), shape[:-1] or shape])
    at_end = range(len(node.inputs), len(node.inputs) + _BEHIND)
    for at in (*(at for at, name in enumerate(node.inputs) if not name), *at_end):
        for shape in shapes:
            yield f"input {at} {shape}", np.zeros(shape, goal.dtype)


def find_other_weights(search: ChangeSearch, position: int, goal: Any) -> Iterator[Variant]:
    """Yield the variant of a node with other elements of one of its weights, or of one in its
    bodies, if it computes the expected value, for any operator.
    """
    node, weights = search.graph.nodes[position], search.graph.constants
    if node.op in QUANTIZING:  # Rounding hides the scale; `solving` estimates it instead.
        return
    starts = {
        name: np.asarray(weights[name].values)
        for name in dict.fromkeys(node.inputs)
        if name in weights and weights[name].values is not None
    }
    starts = {
        name: start
        for name, start in starts.items()
        if start.size and (is_float(start) or start.dtype in _CODES)
    }

    def variant_with(name: str, values: Any) -> Variant:
        """Return the variant with other elements of a weight."""
        if starts[name].size == 1:
            change = changes.is_value(starts[name].reshape(-1)[0], values.reshape(-1)[0])
        else:
            change = changes.differs()
        weight = changes.other_weight("weight", name, change, node.op)
        return Variant("weight", weight, node, {name: values})

    yield from _fit_weight(search, goal, starts, variant_with)
    yield from _find_body_weights(search, position, goal)


def _find_body_weights(search: ChangeSearch, position: int, goal: Any) -> Iterator[Variant]:
    """Yield the variant of a node with other elements of a weight in its bodies,
    if it computes the expected value."""
    outer = search.graph.nodes[position]
    readers, starts = {}, {}
    for body, index in inner_nodes(outer):
        node = body.nodes[index]
        for name in node.inputs:
            weight = body.constants.get(name) or search.graph.constants.get(name)
            values = None if weight is None else weight.values
            if values is not None and is_float(values) and np.size(values):
                readers[name], starts[name] = node, np.asarray(values)

    def variant_with(name: str, values: Any) -> Variant:
        """Return the variant with other elements of a weight."""
        node, start = readers[name], starts[name]
        if start.size == 1:
            change = changes.is_value(start.reshape(-1)[0], values.reshape(-1)[0])
        else:
            change = changes.differs()
        weight = changes.other_weight("weight", name, change, node.op)
        return in_body(outer, Variant("weight", weight, node, {name: values}))

    yield from _fit_weight(search, goal, starts, variant_with)


def _fit_weight(
    search: ChangeSearch,
    expected: Any,
    starts: Mapping[str, Any],
    variant: Callable[[str, Any], Variant],
) -> Iterator[Variant]:
    """Yield the variant with the weight that computes the expected value."""
    goal = np.asarray(expected)
    if not starts or not is_float(goal) or goal.size < 2 or not np.isfinite(goal).all():
        return
    fit = partial(_nearest_weight, search, starts, variant)
    match = search.try_runs(fit, _TRIES[1])
    if match is not None:
        name, values = match
        start = np.asarray(starts[name])
        array = np.asarray(values).reshape(start.shape)
        array = (np.rint(array) if start.dtype in _CODES else array).astype(start.dtype)
        yield from search.select_matching([variant(name, array)])


def _nearest_weight(
    search: ChangeSearch,
    starts: Mapping[str, Any],
    variant: Callable[[str, Any], Variant],
) -> tuple[str, Any] | None:
    """Return the name and elements of the weight that gives the goal; None if there is none."""
    part, goals = search.part, search.goals
    read = sum(int(getattr(value, "nbytes", 0)) for value in (*part.feed.values(), *goals.values()))
    tries = int(np.clip(_WORK // max(read, 1), *_TRIES))
    functions = {}
    for name, start in starts.items():
        try:
            other_variant = variant(name, start)
            change = part.change(output_name(other_variant), other_variant, asks=True)
            compute = change.load_first(search.runners)
        except PolygraphyException:
            continue
        functions[name] = _weight_function(change, compute, goals)
    start_weights = {name: starts[name] for name in functions}
    wanted = _join(goals, goals)

    def matches(result: Any) -> bool:
        """Return whether all tensors are as expected, relative to their RMS."""
        return result is not None and float(np.max(np.abs(result - wanted))) <= search.share

    return nearest_array(functions, start_weights, wanted, matches, tries)


def _weight_function(part: Submodel, compute: Compute, goals: Values) -> Callable[[Any], Any]:
    """Return a function from the last input of a part to its tensors, as one vector."""
    *_, last = part.feed

    def function(array: Any) -> Any:
        """Return the tensors for an array as input; None if they cannot be computed."""
        try:
            return _join(compute({**part.feed, last: array}), goals)
        except PolygraphyException:
            return None

    return function


def _join(values: Values, goals: Values) -> Any:
    """Return tensors as one vector, each as a multiple of the RMS of its goal, or None.
    The result is None if one is not comparable.
    """
    parts = []
    for name, goal in goals.items():
        wanted = np.asarray(goal, np.float64)
        value = np.asarray(values.get(name), np.float64)
        if value.shape != wanted.shape or not np.isfinite(value).all():
            return None
        parts.append((value / (float(np.sqrt(np.mean(np.square(wanted)))) or 1.0)).reshape(-1))
    return np.concatenate(parts)


def _missing_inputs(side: Graph, node: Node, expected: Any) -> dict[int, Any]:
    """Return, by position of each optional weight that a node lacks, the value that its absence
    stands for."""

    shape, usual = np.shape(expected), dict[int, Any]()
    if node.domain not in ("", "com.microsoft") or not shape:
        return {}
    scale = side.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if node.op in ("Conv", "ConvTranspose", "FusedConv") and len(shape) > 1:
        usual = {2: np.zeros(shape[1], np.float32)}
    elif node.op in ("Gemm", "FusedGemm"):
        usual = {2: np.zeros(shape[-1], np.float32)}
    elif node.op == "SkipLayerNormalization":
        usual = {at: np.zeros(shape[-1], np.float32) for at in (3, 4)}
    elif node.op == "LayerNormalization" and scale is not None:
        usual = {2: np.zeros(scale.shape, np.float32)}
    elif node.op in _GATES and scale is not None and len(scale.shape) == 3:
        usual = {3: np.zeros((scale.shape[0], 2 * scale.shape[1]), np.float32)}
    elif node.op == "Clip":
        usual = {1: np.array(np.float32(-_LARGEST)), 2: np.array(np.float32(_LARGEST))}
    elif node.op == "Pad" and node.attribute("mode", "constant") == "constant":
        usual = {2: np.array(np.float32(0))}
    return {
        at: value for at, value in usual.items() if len(node.inputs) <= at or not node.inputs[at]
    }
