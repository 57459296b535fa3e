"""Steps: why a step of a model with states is wrong on equal states."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.state_steps import StepComparison
from polygraphy.application.diagnose.comparisons.step_errors import (
    StepError,
    are_small,
    errors_on_equal_states,
    is_accumulation,
    next_step_to_examine,
)
from polygraphy.application.diagnose.comparisons.step_runs import Judge, run_side_by_side
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.states.self_check import check_itself
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.pairing import is_quantized, pair_graphs
from polygraphy.domain.diagnosis.words import state_evidence, state_reasons, steps, titles
from polygraphy.domain.errors import PolygraphyException

_EXAMINED = 3
"""Steps that are searched at most if no node of a step is wrong. Chosen, not measured."""


def blame_first_model(case: Case, comparison: StepComparison) -> StepOutcome:
    """Return the culprit in the model of the first step, if that step is incorrect."""
    candidate, output = comparison.judge.own, comparison.output
    if comparison.at > 0 or candidate.first is None:
        return Skip("the first step is correct, or no other model runs it")
    facts = [*comparison.facts, state_evidence.first_model_differs(output)]
    culprit = Culprit(candidate.maker_of(output), output, MODEL, "output", facts=facts)
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def explain_by_single_step(case: Case, comparison: StepComparison) -> StepOutcome:
    """Return the diagnosis of the incorrect step as a model without states, on equal states.
    If no node is wrong in it, a later step with larger differences is diagnosed.
    """
    outcome = _diagnose_step(case, comparison)
    result = outcome.result
    if result.verdict == FAULT and result.culprits:
        return outcome
    if result.verdict == ILL_CONDITIONED:
        return outcome
    request = comparison.states.request
    if result.verdict == INCONCLUSIVE and _is_quantized(comparison):
        # A quantization fault is a loss that many nodes share, not a different tensor.
        own_steps = explain_by_own_steps(case, comparison)
        return own_steps if isinstance(own_steps, Found) else outcome
    candidate = comparison.judge.own
    step = candidate.feeds[comparison.wrong.at].step
    errors = errors_on_equal_states(comparison.judge)
    if result.verdict == AGREE:
        later = explain_by_growth(case, comparison, errors)
        if isinstance(later, Found):
            return later
    is_shared = comparison.output in comparison.judge.right.model.outputs
    agree = state_reasons.equal_states_agree(step.index, step.start)
    reason = result.reason if result.verdict == INCONCLUSIVE and result.reason else agree
    unexplained = Found(DiagnosisResult(INCONCLUSIVE, reason=reason), outcome.case)
    is_same_tensor = result.verdict == AGREE and request.reference is not None and is_shared
    if is_same_tensor or are_small(errors):
        own_steps = explain_by_own_steps(case, comparison)
        return own_steps if isinstance(own_steps, Found) else unexplained
    if request.reference is not None or request.program is not None:
        return Skip("no node of the step explains it")
    return unexplained


def _diagnose_step(case: Case, comparison: StepComparison) -> Found:
    """Return the diagnosis of a step as a model without states."""
    request, sets = comparison.states.request, comparison.data
    try:
        outcome = request.diagnose(evolve(case, feed=sets[0]), evolve(request, data_loader=sets))
    except PolygraphyException as error:
        return Found(DiagnosisResult(INCONCLUSIVE, reason=str(error)), case)
    result = outcome.result
    if result.verdict != FAULT or not result.culprits:
        return outcome
    culprits = [
        evolve(culprit, facts=[*comparison.facts, *culprit.facts]) for culprit in result.culprits
    ]
    result = evolve(result, culprits=culprits)
    return Found(_prove_remedy(case, comparison.judge, result, outcome.case), outcome.case)


def explain_by_growth(
    case: Case, comparison: StepComparison, errors: Sequence[StepError]
) -> StepOutcome:
    """Return "agree" if only the recurrence makes rounding grow;
    or the fault of a later step that differs by more than the examined ones.

    Args:
        case: the model.
        comparison: a step in which no node is wrong.
        errors: the differences of all steps on equal states.
    """
    judge = comparison.judge
    examined = [comparison.at]
    while errors and len(examined) <= _EXAMINED:
        at = next_step_to_examine(errors, examined)
        if at is None:
            break
        data = StepData([dict(errors[at].feed)], comparison.states.loader.options())
        step = judge.own.feeds[at].step
        facts = [state_evidence.first_wrong_step(step.index, step.start, comparison.wrong.output)]
        later = _diagnose_step(case, evolve(comparison, at=at, data=data, facts=facts))
        if later.result.verdict == FAULT and later.result.culprits:
            return later
        if later.result.verdict != AGREE:
            return Skip("a later step is not explained")
        examined.append(at)
    if not errors or next_step_to_examine(errors, examined) is not None:
        return Skip("some steps that differ were not examined")
    if not is_accumulation(judge, errors):
        return Skip("the differences of single steps do not add up to the difference")
    step = judge.own.feeds[comparison.wrong.at].step
    rounding = state_reasons.rounding_over_steps(step.index, comparison.wrong.position)
    return Found(DiagnosisResult(AGREE, reason=rounding), case)


def _is_quantized(comparison: StepComparison) -> bool:
    """Return whether the model is quantized and its reference is not, or the other way around."""
    own_side, expected = comparison.judge.own, comparison.judge.right
    if comparison.states.request.reference is None:
        return False
    graphs = (own_side.model.graph, expected.model.graph)
    return is_quantized(pair_graphs(*graphs))


def explain_by_own_steps(case: Case, comparison: StepComparison) -> StepOutcome:
    """Return the result of the model's self-check, if it names a node."""
    try:
        culprit, _ = check_itself(case, comparison.judge.own)
    except REFUSALS:
        return Skip("a step fails")
    if culprit is None or not culprit.nodes:
        return Skip("the model agrees with itself")
    culprit = evolve(culprit, facts=[*comparison.facts, *culprit.facts])
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def blame_output(case: Case, comparison: StepComparison) -> StepOutcome:
    """Return the wrong output and the node that computes it as the culprit."""
    output, at = comparison.output, comparison.at
    culprit = Culprit(
        comparison.judge.own.maker_of(output),
        output,
        MODEL,
        "state" if comparison.differing_states else "output",
        facts=[*comparison.facts, state_evidence.output_is_another_tensor(output, at)],
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _prove_remedy(
    case: Case, judge: Judge, result: DiagnosisResult, step_case: Case
) -> DiagnosisResult:
    """Return a result whose remedy was verified over all steps, if the model can be repaired
    here."""
    repaired = step_case.repaired() if step_case.repaired is not None else None
    if repaired is None or not all(culprit.remedy.proven for culprit in result.culprits):
        return result
    try:
        wrong = run_side_by_side(judge, repaired.proto).first
    except REFUSALS:
        return result
    with case.record_step(titles.FIX_OVER_ALL_STEPS) as notes:
        notes.append(
            steps.steps_with_fix(len(judge.own.feeds), None if wrong is None else wrong.at)
        )
    if wrong is None:
        return result
    culprits = [
        evolve(culprit, remedy=evolve(culprit.remedy, proven=False)) for culprit in result.culprits
    ]
    return evolve(result, culprits=culprits)
