"""Step: nodes or weights of a model differ from its reference, which changes the outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.comparisons.differences import (
    add_copy_command,
    find_differences,
)
from polygraphy.application.diagnose.comparisons.model_pair import (
    ModelComparison,
    matches_reference,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.tensor_trace import Trace, rename_tensors, trace_tensors
from polygraphy.application.diagnose.wrong_nodes import (
    compare_isolated_nodes,
    describe_first_error,
    first_non_finite,
)
from polygraphy.domain.diagnosis.closeness import introduces_nan
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
    merge_same_nodes,
    with_nan,
)
from polygraphy.domain.diagnosis.facts import Statement
from polygraphy.domain.diagnosis.pairing import is_quantized
from polygraphy.domain.diagnosis.quantizing import find_other_selection
from polygraphy.domain.diagnosis.words import evidence, reasons, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.ports.editing import adopt_opset, open_model

_MOST_SEARCHES = 4
"""Most searches for differences, each with one more input set."""


def explain_by_differences(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the model differences that explain the outputs, or the node that creates NaN."""
    pair, feed, goal = comparison.pair, comparison.feed, comparison.goal
    differences = _find_on_all_data(case, comparison)
    case = evolve(case, repaired=differences.repaired)
    _measure_layers(case, comparison)
    culprits = differences.culprits
    broken = None
    if introduces_nan(comparison.outputs, goal):
        broken = first_non_finite(case, trace_tensors(case, pair.party, feed))
    if broken is not None and _is_informative(case, broken, culprits):
        if not culprits:

            # Few diagnoses find NaN, so import this module here.
            from polygraphy.application.diagnose.precision.limited_numbers import (
                add_limiting_command,
            )

            feeds, expected = comparison.feeds, comparison.expected
            [broken] = add_limiting_command(case, [broken], feeds, pair.arbiter, expected)
        culprits = with_nan(broken, culprits)
    if not culprits:
        return Skip("no difference between the models explains why the outputs differ")
    if is_quantized(pair.pairing) and all(culprit.cause == "structure" for culprit in culprits):

        # Few diagnoses search sites, so import these modules here.
        from polygraphy.application.diagnose.steps.quantization import find_costly_operators

        costly = find_costly_operators(case, comparison)
        if costly:
            return Found(DiagnosisResult(FAULT, costly), case)
        # If many operators that compute in integers lose a little, none of them is at fault.
        tensor = culprits[0].tensor or culprits[0].nodes[-1]
        selection = find_other_selection(comparison.outputs, goal)
        reason = (
            reasons.quantization_shows(comparison.compared.largest_error, tensor)
            if selection is None
            else reasons.selection_differs(*selection)
        )
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    if differences.is_open and differences.culprits:
        names = {name for culprit in culprits for name in culprit.nodes}
        return Found(
            DiagnosisResult(INCONCLUSIVE, culprits, reason=_open_reason(culprits)(len(names))), case
        )
    return Found(DiagnosisResult(FAULT, merge_same_nodes(culprits)), case)


def explain_by_opset(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the operators that the opset of the reference defines differently,
    if the model matches as soon as it states that opset: somebody changed the number alone.
    """
    pair = comparison.pair
    adopted = adopt_opset(case.model.given, pair.reference.given)
    if adopted is None:
        return Skip("both models state the same opset, or it makes no difference")
    with case.record_step(titles.OPSET) as notes:
        is_right = _matches_on_all_data(case, comparison, adopted.model)
        notes.append(steps.opset_tried(adopted.expected, is_right))
    if not is_right:
        return Skip("the opset is not the reason")
    case = evolve(case, repaired=lambda: open_model(adopted.model))
    wrong = _measure_layers(case, comparison)
    redefined = [node for node in case.model.nodes if node.op in adopted.redefined]
    # Most new versions of an operator only accept more types.
    nodes = [node for node in redefined if {*node.makes} & {*wrong}] or redefined
    ops = list(dict.fromkeys(node.op for node in nodes))
    facts = [
        evidence.other_opset(adopted.version, adopted.expected, ops),
        evidence.match_with_opset(adopted.expected),
    ]
    remedy = Remedy(None, True, remedies.state_opset(adopted.version, adopted.expected))
    culprit = Culprit(
        [node.label for node in nodes],
        next(iter(nodes[0].makes), None) if nodes else None,
        MODEL,
        "opset",
        facts=facts,
        remedy=remedy,
        op=ops[0] if len(ops) == 1 else "",
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _matches_on_all_data(case: Case, comparison: ModelComparison, model: Any) -> bool:
    """Return whether a changed model gives the outputs of the reference for all data."""
    try:
        compute = comparison.pair.party.load(model)
    except PolygraphyException:
        return False
    return all(
        matches_reference(case, compute, *outputs)
        for outputs in zip(comparison.feeds, comparison.expected)
    )


def _open_reason(culprits: Sequence[Culprit]) -> Callable[[int], Statement]:
    """Return the function that writes the sentence on why the node at fault is unknown,
    given the number of nodes."""
    if all(
        any(fact.kind == "match_after_restoring" for fact in culprit.facts) for culprit in culprits
    ):
        return reasons.nodes_to_restore_together
    is_any = all(culprit.remedy.proven for culprit in culprits)
    return reasons.any_of_nodes if is_any else reasons.not_narrowed_down


def _find_on_all_data(case: Case, comparison: ModelComparison) -> Differences:
    """Return the differences that explain the outputs on all data.
    If those of the worst input set do not, the search repeats with others.
    """
    pair, feed, goal = comparison.pair, comparison.feed, comparison.goal
    for _ in range(_MOST_SEARCHES):
        differences = find_differences(case, pair, feed, goal, comparison.compared.largest_error)
        differences = add_copy_command(case, pair, differences, feed, goal)
        open_set = _first_open_set(case, comparison, differences)
        if open_set is None:
            break
        pair = evolve(pair, also=[*pair.also, open_set])
    return differences


def _first_open_set(
    case: Case, comparison: ModelComparison, differences: Differences
) -> tuple[Feed, Values] | None:
    """Return the first input set whose outputs differ after the differences are undone, or None.
    The result is None if there is none, or the differences are unknown.
    """
    repaired = None if differences.repaired is None else differences.repaired()
    pairs = [
        pair
        for number, pair in enumerate(zip(comparison.feeds, comparison.expected))
        if number != comparison.compared.number
    ]
    if repaired is None or not pairs:
        return None
    try:
        compute = comparison.pair.party.load(repaired.proto)
    except PolygraphyException:
        return None
    return next(
        (outputs for outputs in pairs if not matches_reference(case, compute, *outputs)), None
    )


def _measure_layers(case: Case, comparison: ModelComparison) -> Collection[str]:
    """Record the error of each tensor, and of each node run in isolation on correct inputs.

    Returns:
        The tensors that isolated nodes compute incorrectly.
    """
    pair, feed, party = comparison.pair, comparison.feed, comparison.pair.party
    with case.record_step(titles.LAYER_BY_LAYER) as notes:
        try:
            values = trace_tensors(
                case.with_model(pair.reference), party, pair.feed_reference(feed)
            ).values
            twins = {**{name: name for name in case.model.outputs}, **pair.pairing.tensors}
            computed = {name for node in case.model.nodes for name in node.makes}
            paired = {name: twin for name, twin in twins.items() if name in computed}
            trace = Trace(rename_tensors(values, paired), feed, party)
            first = describe_first_error(case, party, trace)
            compared = compare_isolated_nodes(case, case.model, party, trace).compared
            case.keep_errors(party.name, "isolated", compared)
        except (PolygraphyException, KeyError) as error:
            notes.append(steps.cannot_compare(error))
            return set()
        notes.append(steps.ALL_TENSORS_AGREE if first is None else steps.first_difference(first))
    return {name for name, deviation in compared.items() if deviation.is_wrong}


def _is_informative(case: Case, broken: Culprit, culprits: Sequence[Culprit]) -> bool:
    """Return whether the origin of NaN says more than the differences:
    there are none, or they directly precede the node that creates NaN."""
    if not culprits:
        return True
    differing = {name for culprit in culprits for name in culprit.nodes}
    if differing & set(broken.nodes):
        return False
    read = {name for node in case.model.nodes if node.label in broken.nodes for name in node.reads}
    before = {node.label for node in case.model.nodes if read & set(node.makes)}
    return differing <= before
