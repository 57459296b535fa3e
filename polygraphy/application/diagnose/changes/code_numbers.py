"""Which scale or zero point of an operator on codes differs: the one with which it computes the
expected codes, and of which other nodes show no other value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from polygraphy.application.diagnose.changes.change_search import ChangeSearch
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.two_models import QUANTIZING, change_of_weight, role_of
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.code_operands import CodeOperand, operands_of
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.search.code_numbers import (
    MOST_RUNS,
    Solution,
    solve_scale,
    solve_zero_point,
)
from polygraphy.domain.tensors.precision import is_float

_CHANNELS = {"QLinearConv": 1, "QLinearMatMul": -1, "QGemm": -1}
"""The axis of the result along which a weight may have several scales, by operator."""
Numbers = Mapping[str, Any]


def find_code_numbers(
    search: ChangeSearch, position: int, wrong: Collection[str]
) -> Iterator[Variant]:
    """Yield the variant of an operator on codes with another scale or zero point,
    if it computes the expected codes: with those that another node has for the same tensor, or
    with one number solved. If several numbers explain the result alone, the change names all.

    Args:
        search: tries changes of the node alone.
        position: the node.
        wrong: the tensors that nodes do not reproduce.
    """
    graph = search.graph
    node = graph.nodes[position]
    operands = _operands(node)
    if not operands or node.op in QUANTIZING:
        return
    seen = {
        operand.tensor: [*_numbers_elsewhere(graph, position, operand.tensor, wrong)]
        for operand in operands
    }
    pairs = _variants_of_pairs(graph, node, operands, seen)
    yield from search.select_matching(pairs)
    solutions = [*_solutions(search, position, operands)]
    exact = [(name, solved) for name, solved in solutions if solved.is_exact]
    open_numbers = _unconfirmed(graph, node, operands, seen, exact or solutions)
    facts = [_describe(node, name, solved.start, solved.number) for name, solved in open_numbers]
    candidates = [
        Variant("quantization", fact, node, {name: solved.number})
        for fact, (name, solved) in zip(facts, open_numbers)
    ]
    for variant in search.select_matching(candidates):
        change = variant.change if len(facts) == 1 else changes.one_of_numbers(node.op, facts)
        yield Variant("quantization", change, node, variant.weights)
        return


def find_shared_number(searches: Sequence[tuple[ChangeSearch, int]], name: str) -> Variant | None:
    """Return the variant of the first of several nodes with another value of a scale or zero point
    that all read, if each then computes its expected result; None if there is no such value.

    Args:
        searches: try changes of each node alone, with its position.
        name: the scale or zero point.
    """
    common: Solution | None = None
    for search, position in searches:
        node = search.graph.nodes[position]
        own = [operand for operand in _operands(node) if name in _names(node, operand)]
        solved = dict(_solutions(search, position, own)).get(name)
        if solved is None:
            return None
        common = solved if common is None else common.intersect(solved)
        if common is None:
            return None
    if common is None:
        return None
    search, position = searches[0]
    node = search.graph.nodes[position]
    change = _describe(node, name, common.start, common.number)
    return Variant("quantization", change, node, {name: common.number})


def is_code_number(graph: Graph, position: int, name: str) -> bool:
    """Return whether a node reads a tensor as a scale or zero point."""
    node = graph.nodes[position]
    return any(name in _names(node, operand) for operand in _operands(node))


def _operands(node: Node) -> list[CodeOperand]:
    """Return the codes that a node reads and computes."""
    if not node.outputs or not all(node.outputs[:1]):
        return []
    return operands_of(node.op, node.inputs, node.outputs)


def _names(node: Node, operand: CodeOperand) -> tuple[str, str]:
    """Return the names of the scale and the zero point of codes; empty where there is none."""
    scale, zero = (
        node.inputs[at] if at < len(node.inputs) else ""
        for at in (operand.scale, operand.zero_point)
    )
    return scale, zero


def _numbers_elsewhere(
    graph: Graph, position: int, tensor: str, wrong: Collection[str]
) -> Iterator[Numbers]:
    """Yield the scale and zero point, by kind, of a tensor in other correct nodes,
    which reproduce their results."""
    makers = [graph.operation_producers.get(tensor)]
    for other in (*makers, *(index for index, _ in graph.readers.get(tensor, ()))):
        if other is None or other == position or other not in graph.operations:
            continue
        node = graph.nodes[other]
        if not {*node.outputs}.isdisjoint(wrong):
            continue
        for operand in _operands(node):
            if operand.tensor == tensor:
                names = _names(node, operand)
                known = [_constant(graph, name) for name in names]
                if known[0] is not None and (known[1] is not None or not names[1]):
                    yield {"scale": known[0], "zero": known[1], "node": node.label}


def _constant(graph: Graph, name: str) -> Any | None:
    """Return the value of a constant; None if it is not one."""
    weight = graph.constants.get(name)
    return None if weight is None or weight.values is None else np.asarray(weight.values)


def _equals_constant(graph: Graph, name: str, expected: Any) -> bool:
    """Return whether a tensor is a constant with these values."""
    value = _constant(graph, name)
    return value is not None and np.array_equal(value, expected)


def _variants_of_pairs(
    graph: Graph, node: Node, operands: Sequence[CodeOperand], seen: Mapping[str, Sequence[Numbers]]
) -> Iterator[Variant]:
    """Yield variants with the scale and zero point that other nodes have for the same tensor."""
    for operand in operands:
        names = _names(node, operand)
        for numbers in seen[operand.tensor]:
            weights, facts = {}, []
            for name, expected in zip(names, (numbers["scale"], numbers["zero"])):
                own = _constant(graph, name) if name else None
                if own is None or expected is None or own.shape != expected.shape:
                    continue
                if own.dtype == expected.dtype and not np.array_equal(own, expected):
                    weights[name] = expected
                    facts.append(_describe(node, name, own, expected))
            if facts:
                change = facts[0] if len(facts) == 1 else changes.both_numbers(facts)
                yield Variant("quantization", change, node, weights)


def _solutions(
    search: ChangeSearch, position: int, operands: Sequence[CodeOperand]
) -> Iterator[tuple[str, Solution]]:
    """Yield the scales and zero points of a node that can be solved for, by name."""
    graph, node = search.graph, search.graph.nodes[position]
    [goal] = [search.goals.get(name) for name in node.outputs[:1]]
    if goal is None:
        return
    solved = set[str]()
    for operand in operands:
        for name, solve in zip(_names(node, operand), (solve_scale, solve_zero_point)):
            value = _constant(graph, name) if name else None
            if value is None or name in solved or value.ndim > 1 or not value.size:
                continue
            if is_float(value) != (solve is solve_scale):
                continue
            solved.add(name)
            axis = _channel_axis(node, operand, value, np.shape(goal))
            if value.size > 1 and axis is None:
                continue
            if search.budget.is_spent:
                search.budget.is_cut_short = True
                return
            for asks in (True, False):  # Some kernels crash unless the number is a constant.
                load = partial(_load, search, node, name, asks=asks)
                function = partial(_solve, load, solve, value, goal, axis)
                solutions = search.try_runs(function, MOST_RUNS)
                if solutions is not None:
                    yield from ((name, solution) for solution in solutions)
                    break


def _solve(
    load: Callable[[Any], Callable[[Any], Any]],
    solve: Callable[..., Solution | None],
    value: Any,
    goal: Any,
    axis: int | None,
) -> Sequence[Solution] | None:
    """Return the solution for a number of a node, empty if there is none;
    None if the part does not run."""
    try:
        compute = load(value)
        compute(value)
    except PolygraphyException:
        return None

    def result_of(number: Any) -> Any:
        """Return the result for a number; None if it cannot be computed."""
        try:
            return compute(number)
        except PolygraphyException:
            return None

    solution = solve(result_of, value, goal, axis)
    return [] if solution is None else [solution]


def _load(
    search: ChangeSearch, node: Node, name: str, value: Any, *, asks: bool
) -> Callable[[Any], Any]:
    """Return a function from a number of a node to its result:
    as an input of the loaded part, or as a constant of a part that is loaded for each number.

    Raises:
        PolygraphyException: the part cannot be loaded.
    """
    part, output = search.part, next(filter(None, node.outputs))

    def change(number: Any, asks: bool) -> Submodel:
        """Return the part with another number."""
        variant = Variant("quantization", changes.differs(), node, {name: number})
        return part.change(output, variant, asks=asks)

    if not asks:
        return lambda number: change(number, False).run(search.runners[-1], plain=True).get(output)
    asking = change(value, True)
    compute = asking.load_first(search.runners)
    *_, last = asking.feed
    return lambda number: compute({**asking.feed, last: number}).get(output)


def _channel_axis(node: Node, operand: CodeOperand, value: Any, shape: Sequence[int]) -> int | None:
    """Return the axis of the result along which each channel has its own number;
    None if there is none."""
    if value.size < 2 or not shape:
        return None
    axis = _CHANNELS.get(node.op)
    if node.op in QUANTIZING:
        axis = int(node.attribute("axis", 1))
    if axis is None or not -len(shape) <= axis < len(shape) or shape[axis] != value.size:
        return None
    return axis % len(shape)


def _unconfirmed(
    graph: Graph,
    node: Node,
    operands: Sequence[CodeOperand],
    seen: Mapping[str, Sequence[Numbers]],
    solutions: Sequence[tuple[str, Solution]],
) -> Sequence[tuple[str, Solution]]:
    """Return names and values of solved numbers that no other node has.

    If other nodes have all of them, all are returned.
    """
    confirmed = {
        name
        for operand in operands
        for numbers in seen[operand.tensor]
        for name, expected in zip(_names(node, operand), (numbers["scale"], numbers["zero"]))
        if name and expected is not None and _equals_constant(graph, name, expected)
    }
    return [pair for pair in solutions if pair[0] not in confirmed] or solutions


def _describe(node: Node, name: str, value: Any, expected: Any) -> Fact:
    """Return the fact that a scale or zero point of a node differs."""
    role = "scale" if is_float(np.asarray(value)) else "zero_point"
    return changes.other_weight(role_of(role), name, change_of_weight(value, expected), node.op)
