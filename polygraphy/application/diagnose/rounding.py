"""What differs though every node is right: rounding that adds up, or that a network makes more of,
and backends that do not compute the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.oracle import TensorDifferences
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.wrong_nodes import SMALL
from polygraphy.domain.catalog.precisions import COARSE, HALF
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.facts import Fact, join_statements
from polygraphy.domain.diagnosis.solving.ties import (
    count_tied_labels,
    find_near_ties,
    selecting_nodes,
)
from polygraphy.domain.diagnosis.words import evidence, reasons
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.regions import BOUNDED, computing_op
from polygraphy.domain.rounding import (
    BESIDE,
    WIDE,
    Deviation,
    Rounding,
    allowance,
    deviation,
    parts_beyond_limit,
    rounding_between,
    rounding_between_runs,
)
from polygraphy.domain.tensors.facts import (
    compute_dtype,
    is_bounded,
    is_ordered,
)
from polygraphy.domain.tensors.precision import is_float, precision_of

_GAIN = 30.0
"""A node that amplifies errors by this factor is ill-conditioned. Chosen, not measured."""


def rounding_accumulates(
    case: Case, feeds: Sequence[Feed], outputs: Mapping[int, Sequence[Values]]
) -> bool:
    """Return whether accumulated rounding explains all differences between backends,
    so that no node must be examined.
    """
    first, *other_items = outputs.values()
    excesses: list[tuple[int, tuple[str, int], Rounding, float]] = []
    for number in range(len(feeds)):
        for other_outputs in other_items:
            for name, difference in case.find_deviations(
                first[number], other_outputs[number]
            ).items():
                rounding = case.rounding(name, first[number][name], other_outputs[number][name])
                if rounding is None or difference.excess > rounding.largest_factor:
                    return False
                excesses += [
                    (number, (name, part), limits, excess)
                    for part, limits, excess in parts_beyond_limit(difference, rounding)
                ]
    sets = {
        number: [indices for indices in excesses if indices[0] == number] for number, *_ in excesses
    }
    # For each part, the smallest accumulated rounding that was measured.
    known_values: dict[tuple[str, int], float] = {}
    for own_set in sorted(
        sets.values(), key=lambda rows: (-len(rows), -max(indices[3] for indices in rows))
    ):
        # Skip the measurement if rounding measured on earlier input sets explains the difference.
        if all(excess <= known_values.get(part, 0.0) for _, part, _, excess in own_set):
            continue
        perturb_outputs = case.perturb_outputs(feeds[own_set[0][0]])
        for _, part, rounding, excess in own_set:
            rounding_excess = _rounding_excess(case, perturb_outputs, part[0], rounding, excess)
            if excess > allowance(rounding_excess, rounding.rtol):
                return False
            known_values[part] = min(rounding_excess, known_values.get(part, rounding_excess))
    return True


def with_acceptance(
    answer: Found,
    case: Case,
    feeds: Sequence[Feed],
    pairs: Sequence[tuple[Sequence[Values], Sequence[Values]]],
    describe: Callable[[str], Fact],
) -> Found:
    """Return a result with the fact that `run --rtol auto` accepts the outputs of a quantized
    model, if they differ by less than the rounding limit.

    Args:
        answer: the result, with a culprit.
        case: the model, the backends and the data to diagnose.
        feeds: the data.
        pairs: outputs that are compared with each other.
        describe: returns the fact, by the data type.
    """
    dtype = accepted_dtype(case, feeds, pairs)
    if dtype is None:
        return answer
    first, *other_culprits = answer.result.culprits
    first = evolve(first, facts=[*first.facts, describe(dtype)])
    return evolve(answer, result=evolve(answer.result, culprits=[first, *other_culprits]))


def accepted_dtype(
    case: Case,
    feeds: Sequence[Feed],
    pairs: Sequence[tuple[Sequence[Values], Sequence[Values]]],
) -> str | None:
    """Return the type with whose rounding limit `run --rtol auto` accepts the differing outputs
    of a quantized model; None if it does not accept them.

    Args:
        case: the model, the backends and the data to diagnose.
        feeds: the data.
        pairs: outputs that are compared with each other.
    """
    types = {
        compute_dtype(case.facts, name)
        for values, expected in pairs
        for value, expected_values in zip(values, expected)
        for name in case.find_deviations(value, expected_values)
    }
    dtype = types.pop() if len(types) == 1 else None
    if dtype is None or dtype in (*WIDE, *HALF):
        return None
    is_accepted = all(rounding_explains(case, feeds, *pair, by_steps=True) for pair in pairs)
    return dtype if is_accepted else None


def rounding_explains(
    case: Case,
    feeds: Sequence[Feed],
    values: Sequence[Values],
    expected: Sequence[Values],
    *,
    by_steps: bool = False,
    is_amplified: bool = False,
) -> bool:
    """Return whether rounding explains the differences from expected outputs, judged like `run
    --rtol auto`.

    Args:
        case: the model, the backends and the data to diagnose.
        feeds: the data.
        values: the outputs of the model on each of them.
        expected: the correct outputs, for the first feed or for all.
        by_steps: whether the steps of quantized types are rounding, as beside what is not
            quantized; else they may hide that a backend computes something else.
        is_amplified: whether any measured effect of rounding is an explanation, also one that is
            too large for a model of any use.
    """
    for feed, value, expected_values in zip(feeds, values, expected):
        for name in case.find_deviations(value, expected_values):
            rounding = _compute_type_rounding(case, name, value[name], expected_values[name])
            if rounding is None or not (by_steps or rounding.dtype in (*WIDE, *HALF)):
                return False
            is_sorted = is_ordered(case.facts, name)
            measured = deviation(
                value[name], expected_values[name], rounding=rounding, is_sorted=is_sorted
            )
            if measured.is_wrong:
                is_seen = rounding.dtype in (*WIDE, *HALF)
                perturb_outputs = case.perturb_outputs(feed, rounding.dtype) if is_seen else ()
                for _, limits, excess in parts_beyond_limit(measured, rounding):
                    runs = rounding_between_runs(perturb_outputs, name, limits, excess)
                    most = BESIDE * runs if is_amplified else allowance(runs, limits.rtol)
                    if excess > most:
                        return False
    return True


def _compute_type_rounding(case: Case, name: str, value: Any, expected: Any) -> Rounding | None:
    """Return the rounding limit of an output in its compute type, or None.
    The result is None unless both are arrays of equal shape.
    """
    inside = compute_dtype(case.facts, name)
    type_rounding = part_rounding(case, name, inside, value, expected)
    if type_rounding is not None and inside in COARSE and not is_float(expected):
        # The limit of the quantized type lets a few integers differ.
        return evolve(type_rounding, dtype=inside)
    return type_rounding


def part_rounding(
    case: Case, name: str, dtype: str | None, value: Any, expected: Any
) -> Rounding | None:
    """Return the rounding limit of an output, and of each of its parts, in a data type, or None.
    The result is None unless both values are arrays of equal shape.
    """
    if not isinstance(value, np.ndarray) or not isinstance(expected, np.ndarray):
        return None
    if value.shape != expected.shape:
        return None
    return rounding_between(
        (value, expected),
        (dtype, expected.dtype.name),
        is_bounded=is_bounded(case.facts, name),
        name=name,
        layout=case.layout(name),
    )


def _rounding_excess(
    case: Case,
    new_outputs: Sequence[Mapping[str, Any]],
    name: str,
    rounding: Rounding | None,
    excess: float,
) -> float:
    """Return the measured effect of rounding as a multiple of the limit.
    The result is 0 for low-precision or quantized outputs.
    """
    dtype = compute_dtype(case.facts, name)
    is_wide = dtype is None or dtype in WIDE
    return rounding_between_runs(new_outputs, name, rounding, excess) if is_wide else 0.0


def diagnose_rounding(
    case: Case, deviations: Mapping[str, Deviation], trace: Trace
) -> DiagnosisResult:
    """Return the verdict if outputs differ by more than accumulated rounding although no backend
    computes a node incorrectly.
    """
    selection = _without_other_selection(case, deviations, trace)
    if selection is None:
        return _diagnose_accumulation(case, deviations, trace)
    nodes, remaining = selection
    why = reasons.near_ties(nodes, is_all=not remaining)
    if not remaining:
        return DiagnosisResult(AGREE, reason=why)
    result = _diagnose_accumulation(case, remaining, trace)
    return evolve(result, reason=join_statements(why, result.reason))


def describe_tied_labels(
    case: Case,
    compared: TensorDifferences,
    values: Sequence[Values],
    expected: Sequence[Values],
    *,
    is_defined: bool = True,
) -> str:
    """Return the sentence that only labels differ, in rows whose two largest scores are equal
    except for rounding; empty if that does not explain all differences.

    Args:
        case: the model.
        compared: the outputs that differ.
        values: the outputs of the model for each input set.
        expected: the expected ones.
        is_defined: whether a model computes the expected outputs, too, so that the operator
            defines the choice among equal scores.
    """
    differing_rows = 0
    for differing, outputs, goals in zip(compared.sets, values, expected):
        known = [name for name in case.model.outputs if name in outputs and name in goals]
        matching = [name for name in known if name not in differing]
        for name in differing:
            rows = (
                count_tied_labels(
                    case.model.graph, name, outputs, goals, matching, is_defined=is_defined
                )
                if name in known
                else 0
            )
            if not rows:
                return ""
            differing_rows += rows
    names = [name for name in case.model.outputs if name in compared.names]
    all_rows = sum(np.size(outputs[name]) for outputs in values for name in names)
    return reasons.tied_labels(names, differing_rows, all_rows) if names else ""


def _without_other_selection(
    case: Case, deviations: Mapping[str, Deviation], trace: Trace
) -> tuple[list[str], dict[str, Deviation]] | None:
    """Return nodes that select other elements, and deviations without that; or None.

    The elements are nearly equal. The deviations of outputs are those if all backends select the
    elements of the trace. None if this does not reduce the differences.
    """
    graph, left = case.model.graph, dict[str, Deviation]()
    selecting = selecting_nodes(graph)
    if not selecting:
        return None
    rest = [index for index in range(len(graph.nodes)) if index not in {*selecting}]
    near = dict[int, None]()
    try:
        part = cut_part(case.model, rest, trace.all_values, [*deviations])
        for party in case.parties:
            if party is trace.party:
                continue
            values = trace_tensors(case, party, trace.feed).all_values
            near.update(dict.fromkeys(find_near_ties(graph, values, trace.all_values)))
            if not near:
                return None
            for name, difference in case.find_deviations(part.run(party), trace.values).items():
                if name not in left or left[name].relative < difference.relative:
                    left[name] = difference
    except PolygraphyException:
        return None
    is_less = all(off.relative < deviations[name].relative for name, off in left.items())
    names = [graph.nodes[index].label for index in sorted(near)]
    return (names, left) if names and is_less else None


def _diagnose_accumulation(
    case: Case, deviations: Mapping[str, Deviation], trace: Trace
) -> DiagnosisResult:
    """Return the verdict on outputs that differ although each node is computed correctly
    and selects the same elements.
    """
    worst = max(relative_error(case, name, difference) for name, difference in deviations.items())
    if all(
        _is_compute_type_rounding(case, name, difference) for name, difference in deviations.items()
    ):
        return DiagnosisResult(AGREE, reason=reasons.WITHIN_TYPE)
    types = {compute_dtype(case.facts, name) or "" for name in deviations}
    if not all(_adds_up(case, trace, name, off) for name, off in deviations.items()):
        if worst <= SMALL and types == {"float32"}:
            # Not a pass: `run` knows only the outputs, and fails for them.
            return DiagnosisResult(INCONCLUSIVE, reason=reasons.kernels_differ(worst, SMALL))
        return DiagnosisResult(INCONCLUSIVE, reason=reasons.no_explanation(worst))
    if types <= HALF.keys():
        # In half precision, any node may choose differently between nearly equal numbers.
        return DiagnosisResult(AGREE, reason=reasons.rounding_only(types.pop()))
    culprit = _amplifier(case, trace)
    return DiagnosisResult(ILL_CONDITIONED, [culprit] if culprit else [])


def _adds_up(case: Case, trace: Trace, name: str, difference: Deviation) -> bool:
    """Return whether rounding all tensors changes an output about as much as the difference."""
    value, inside = trace.values.get(name), compute_dtype(case.facts, name)
    rounding = case.rounding(name, value, value)
    if rounding is None:
        return False
    is_half = inside in HALF
    moved = case.perturb_outputs(trace.feed, inside if inside in HALF else "float32")
    return all(
        excess
        <= BESIDE
        * (
            rounding_between_runs(moved, name, limits, excess)
            if is_half
            else _rounding_excess(case, moved, name, limits, excess)
        )
        for _, limits, excess in parts_beyond_limit(difference, rounding)
    )


def _is_compute_type_rounding(case: Case, name: str, measured: Deviation) -> bool:
    """Return whether rounding to the compute type explains a deviation,
    which is beyond rounding to the output's own type.
    """
    inside = precision_of(compute_dtype(case.facts, name) or "")
    precision = precision_of(np.asarray(measured.expected).dtype.name)
    if inside is None or precision is None:
        return False
    return measured.excess * precision.epsilon <= inside.epsilon


def relative_error(case: Case, output: str, measured: Deviation) -> float:
    """Return the error of an output relative to its size, or to the size it could have."""
    is_bounded = computing_op(case.model.graph, output) in BOUNDED
    return min(measured.relative, measured.largest) if is_bounded else measured.relative


def _amplifier(case: Case, trace: Trace) -> Culprit | None:
    """Return the node that amplifies rounding most; None if there is none."""
    party = next((party for party in case.parties if party is not trace.party), trace.party)
    try:
        values = trace_tensors(case, party, trace.feed).values
    except REFUSALS:
        return None
    nodes = case.model.nodes
    errors = {
        name: deviation(value, trace.values[name]).relative
        for name, value in values.items()
        if name in trace.values
    }
    best, culprit = 0.0, None
    for index, node in enumerate(nodes):
        before = max((errors.get(name, 0.0) for name in node.reads), default=0.0)
        after = max((errors.get(name, 0.0) for name in node.makes), default=0.0)
        gain = after / max(before, 1e-7)
        if np.isfinite(gain) and gain > best:
            best, culprit = gain, index
    if culprit is None:
        return None
    node = nodes[culprit]
    return Culprit(
        [node.label], next(iter(node.makes), None), MODEL, ILL_CONDITIONED,
        facts=[
            evidence.agrees_by_itself(),
            evidence.amplifies_errors(node.operator, node.label, best)
            if best > _GAIN
            else evidence.errors_grow(node.operator, node.label),
        ],
        op=node.operator,
    )  # fmt: skip
