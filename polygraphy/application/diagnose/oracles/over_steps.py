"""What is right of a model with states over several steps: a reference, another backend, or the
model itself with all inputs at once. The verdict says which step is the first wrong step, and
whether a state was wrong before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed
from polygraphy.application.diagnose.comparisons.program_steps import program_party
from polygraphy.application.diagnose.comparisons.state_steps import (
    ModelWithStates,
    StepComparison,
    rewire_states,
    select_states,
)
from polygraphy.application.diagnose.comparisons.step_errors import errors_on_equal_states
from polygraphy.application.diagnose.comparisons.step_runs import (
    FirstWrongStep,
    Judge,
    Party,
    PartyRuns,
    Run,
    feed_with_states,
    output_names,
    reference_party,
    run_side_by_side,
    state_names,
)
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, Step, StepOutcome, take_steps
from polygraphy.application.diagnose.steps.program_device import explain_steps_by_device
from polygraphy.application.diagnose.steps.states.failing_step import explain_failing_step
from polygraphy.application.diagnose.steps.states.self_check import explain_by_self_check
from polygraphy.application.diagnose.steps.states.wide_states import explain_in_wide_states
from polygraphy.application.diagnose.steps.states.wiring import (
    explain_by_wiring,
    keep_exchanged_outputs,
)
from polygraphy.application.diagnose.steps.states.wrong_step import (
    blame_first_model,
    blame_output,
    explain_by_own_steps,
    explain_by_single_step,
)
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.words import (
    errors,
    reasons,
    state_evidence,
    state_reasons,
    steps,
    titles,
)
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import deviation
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.states.aligning import padding
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.states.pairs import Conflict, state_pairs
from polygraphy.domain.states.plan import StatePlan
from polygraphy.ports.editing import open_model

STEPS_ON_WRONG_STEP: Sequence[Step[StepComparison]] = (
    blame_first_model,
    explain_steps_by_device,
    explain_by_single_step,
    explain_by_own_steps,
    blame_output,
)
"""The steps that explain why a step differs, in order."""
_OWN_STEPS = (6, 24)
"""The fewest and the most steps in which outputs must match if only states differ: a window
or a buffer shows its fault when it is full.
"""
_SETS = 4
"""Steps whose data the search of a single step gets."""


def over_steps(case: Case, request: Request) -> StepOutcome:
    """Return the outcome of comparing a model with states over several steps.

    Raises:
        UsageError: they are to be compared with saved results, or reach a goal.
        BackendError: a step fails in all backends.
    """
    loader = request.data_loader
    assert isinstance(loader, StepLoader)
    if request.golden:
        raise errors.steps_with_saved_results()
    if request.goal is not None:
        raise errors.goal_over_steps()
    states = keep_exchanged_outputs(case, _open_states(case, request, loader))
    return take_steps(STEPS, case, states)


def _open_states(case: Case, request: Request, loader: StepLoader) -> ModelWithStates:
    """Return the model with its states, and the reference with the corresponding ones."""
    describe_model(loader, case.model.inputs, case.model.facts)
    plan, feeds = loader.plan, list(loader)
    first = case.parties[0]
    model = None if loader.first_model is None else open_model(loader.first_model)
    candidate = Party(first.name, first, case.model, plan, feeds, case.model.facts(), model)
    with case.record_step("states") as notes:
        notes.append(plan.describe_states())
    if request.program is not None:
        reference: Party = program_party(candidate, request.program)
        return ModelWithStates(request, loader, candidate, plan, reference, plan.conflicts)
    if request.reference is None:
        return ModelWithStates(request, loader, candidate, plan, None, plan.conflicts)
    reference = reference_party(case, candidate, loader, open_model(request.reference))
    candidate = _with_states(candidate, loader, reference.plan)
    conflicts = _wiring_conflicts(candidate, plan, reference.plan) or plan.conflicts
    return ModelWithStates(request, loader, candidate, plan, reference, conflicts)


def _with_states(candidate: Party, loader: StepLoader, reference_plan: StatePlan) -> Party:
    """Return a party with additional states taken from a reference with the same interface."""
    known_names = {pair.output for pair in candidate.plan.pairs} | {
        pair.input for pair in candidate.plan.pairs
    }
    outputs = {tensor.name for tensor in candidate.plan.graph.outputs}
    pairs = [
        (pair.output, pair.input)
        for pair in reference_plan.pairs
        if pair.output in outputs
        and pair.input in candidate.plan.inputs
        and not {pair.output, pair.input} & known_names
    ]
    if not pairs:
        return candidate
    return rewire_states(
        candidate, loader, [*((pair.output, pair.input) for pair in candidate.plan.pairs), *pairs]
    )


def _wiring_conflicts(candidate: Party, plan: StatePlan, state_plan: StatePlan) -> list[Conflict]:
    """Return a conflict for each output that continues another input than in the reference;
    both models have the same interface."""
    expected = {pair.output: pair.input for pair in state_plan.pairs}
    makers = {name: node.label for node in candidate.model.nodes for name in node.makes}
    if {pair.input for pair in plan.pairs} - {*expected.values()}:
        return []
    return [
        Conflict(
            pair.output,
            pair.input,
            expected[pair.output],
            titles.REFERENCE,
            makers.get(pair.output, ""),
        )
        for pair in plan.pairs
        if expected.get(pair.output, pair.input) != pair.input
    ]


def compare_side_by_side(
    case: Case, states: ModelWithStates, beside: PartyRuns | None = None
) -> StepOutcome:
    """Return the outcome of comparing the steps with those of the reference, or of each other
    backend.

    Args:
        case: the model.
        states: its states.
        beside: the runs next to the reference, if they are known and reported.
    """
    candidate = states.own
    parties = [evolve(candidate, name=party.name, party=party) for party in case.parties[1:]]
    for reference in parties if states.right is None else [states.right]:
        comparison = _compare_parties(case, states, reference, beside)
        is_open = isinstance(comparison, StepComparison)
        outcome: StepOutcome = (
            take_steps(STEPS_ON_WRONG_STEP, case, comparison)
            if isinstance(comparison, StepComparison)
            else comparison
        )
        is_fault = isinstance(outcome, Found) and outcome.result.verdict == FAULT
        if not is_fault:
            left_over = explain_in_wide_states(case, states)
            outcome = left_over if isinstance(left_over, Found) else outcome
        if is_open or isinstance(outcome, Found):
            return outcome
    if states.right is None:
        return Skip("all backends agree")
    return Found(DiagnosisResult(AGREE), case)


def compare_own_states(answer: Found, request: Request) -> Found:
    """Return "agree" if a model and its reference only differ in the contents of their states:
    they differ on generated states, but with its own states each gives the same outputs."""
    case, given_loader = answer.case, request.data_loader
    is_asked = request.reference is None or request.goal is not None or request.has_states
    if (
        is_asked
        or answer.result.verdict == AGREE
        or not isinstance(given_loader, DataLoader | None)
    ):
        return answer
    pairs = state_pairs(case.model.graph)[0]
    if len(case.model.inputs) < 2 or not pairs:
        return answer
    if not {*case.model.outputs} - {pair.output for pair in pairs}:
        return answer  # Without other outputs, an incorrect state would not be visible.
    weights = sum(weight.nbytes for weight in case.model.graph.constants.values())
    most = int(RunBudget.for_bytes(weights, *_OWN_STEPS).runs)
    for number in dict.fromkeys((most, _OWN_STEPS[0])):  # A model may support only a few steps.
        loader = StepLoader(case.model.proto, number, data_loader=given_loader)
        try:
            states = _open_states(case, request, loader)
            if states.right is None or states.conflicts:
                return answer
            with case.record_step(titles.OWN_STATES) as notes:
                beside = run_side_by_side(Judge.between(case, states.own, states.right))
                notes.append(_describe_steps(states.own, beside))
        except PolygraphyException:
            continue
        if beside.first is not None and beside.states:
            # Generated states differ between the two models, so only the steps show the fault.
            outcome = compare_side_by_side(case, states, beside)
            is_better = isinstance(outcome, Found) and outcome.result.culprits
            return outcome if isinstance(outcome, Found) and is_better else answer
        if beside.first is not None or beside.unread or not beside.states:
            return answer
        reason = state_reasons.states_hold_other_values(beside.states, number)
        return Found(DiagnosisResult(AGREE, reason=reason), case)
    return answer


def refuse_unsteady_program(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outcome that a program cannot be a reference because two runs of a step differ;
    else a skip."""
    reference = states.right
    if states.request.program is None or reference is None:
        return Skip("there is no program")
    compute, feed = reference.load(), reference.feeds[0]
    values, again = compute(feed), compute(feed)
    if any(deviation(value, again[name]).is_wrong for name, value in values.items()):
        unsteady = DiagnosisResult(INCONCLUSIVE, reason=reasons.UNSTEADY_PROGRAM)
        return Found(unsteady, case)
    return Skip("the program gives the same results twice")


STEPS: Sequence[Step[ModelWithStates]] = (
    refuse_unsteady_program,
    explain_by_wiring,
    compare_side_by_side,
    explain_by_self_check,
)


def _compare_parties(
    case: Case, states: ModelWithStates, reference: Party, beside: PartyRuns | None
) -> StepComparison | StepOutcome:
    """Return the comparison of two parties on their own states,
    with the first step that differs on equal states.

    Args:
        case: the model.
        states: its states.
        reference: the correct party.
        beside: the runs of both, if they are known and reported.
    """
    candidate, is_reference = states.own, states.right is not None
    try:
        judge = Judge.between(case, candidate, reference)
        oracle = titles.REFERENCE_MODEL if is_reference else titles.ANOTHER_BACKEND
        program = states.request.program
        case.record_comparison(oracle if program is None else program.name)
        if beside is None:
            with case.record_step(titles.OWN_STATES) as notes:
                beside = run_side_by_side(judge)
                notes.append(_describe_steps(candidate, beside))
        if allowed := _harmless_differences(judge):
            with case.record_step(titles.NOT_COUNTED) as notes:
                notes.append(steps.not_counted(allowed))
    except BackendError as error:
        return explain_failing_step(case, candidate, error, reference)
    wrong = beside.first
    if beside.unread:
        reason = state_reasons.unread_states(beside.unread, len(candidate.feeds))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    if wrong is None:
        return Skip("all steps agree")
    harmless = [pair.input for pair in candidate.plan.pairs if pair.output in beside.states]
    equal = _first_on_equal_states(judge, wrong, harmless)
    if isinstance(equal, str):
        outcome = _explain_equal_steps(case, states, judge, wrong)
        return outcome or Found(DiagnosisResult(INCONCLUSIVE, reason=equal), case)
    at, different, data = equal
    changed = select_states(judge, different)
    with case.record_step(titles.EQUAL_STATES) as notes:
        notes.append(steps.first_step_on_equal_states(at, changed))
    step = candidate.feeds[wrong.at].step
    facts = [state_evidence.first_wrong_step(step.index, wrong.position, wrong.output)]
    if at != wrong.at or changed:
        facts.append(state_evidence.state_left_wrong((changed or different)[0], at))
    if at != wrong.at:
        exchanged = _correcting_states(judge, wrong, harmless)
        if exchanged:
            with case.record_step(titles.STATES_EXCHANGED) as notes:
                notes.append(steps.effect_of_reference_states(exchanged, wrong.at))
            facts.append(state_evidence.match_with_reference_states(exchanged, wrong.at))
    sets = StepData(data, states.loader.options())
    return StepComparison(states, judge, wrong, at, different, sets, facts)


def _explain_equal_steps(
    case: Case, states: ModelWithStates, judge: Judge, wrong: FirstWrongStep
) -> Found | None:
    """Return the diagnosis of the first wrong step if no step differs on equal states, or None.
    The result is None if there is none.
    """
    errors = errors_on_equal_states(judge)
    if not errors:
        return None
    data = StepData([dict(errors[wrong.at].feed)], states.loader.options())
    comparison = StepComparison(states, judge, wrong, wrong.at, [wrong.output], data, [])
    outcome = explain_by_single_step(case, comparison)
    is_clear = isinstance(outcome, Found) and outcome.result.verdict in (AGREE, FAULT)
    return outcome if isinstance(outcome, Found) and is_clear else None


def _harmless_differences(judge: Judge) -> list[str]:
    """Return notes on harmless differences."""
    feeds, plan = judge.own.feeds, judge.own.plan
    is_padded = any(padding(plan, feed) is not None for feed in feeds[:1])
    return [*judge.coarse, *([titles.HIDDEN_POSITIONS] if is_padded else [])]


def _describe_steps(candidate: Party, beside: PartyRuns) -> str:
    """Return a sentence about all steps, including states that differ without effect."""
    wrong = beside.first
    if wrong is None:
        return steps.all_steps_agree(len(candidate.feeds), beside.states)
    return steps.first_wrong_step(wrong.at, wrong.position, wrong.output, wrong.off)


def _first_on_equal_states(
    judge: Judge, wrong: FirstWrongStep, harmless: Sequence[str]
) -> tuple[int, list[str], list[dict[str, Any]]] | str:
    """Return the first differing step, its differing outputs, and the inputs from there on.

    The steps run on the reference's states. If no step differs, the reason is returned as text.
    """
    candidate, reference = judge.own, judge.right
    names = {**output_names(candidate, reference), **state_names(candidate, reference)}
    silent = {pair.output for pair in candidate.plan.pairs if pair.input in harmless}
    names = {name: other_name for name, other_name in names.items() if name not in silent}
    compute, run = candidate.load(), Run(reference, reference.load())
    own_run = Run(candidate, candidate.load()) if harmless else None
    data: list[dict[str, Any]] = []
    for at in range(wrong.at + 1):
        run.advance()
        if own_run is not None:
            own_run.advance()
        feed = feed_with_states(
            candidate, reference, at, None if own_run is None else own_run.feed, run.feed, harmless
        )
        if feed is None:
            step = candidate.feeds[wrong.at].step
            return state_reasons.states_differ_in_kind(step.index, step.start)
        data = [feed, *data][:_SETS]
        values = compute(feed)
        differing_values = judge.find_value_deviations(
            at, (feed, run.feed), (_new_slots(candidate, feed, values, at), run.shown), names
        )
        if differing_values:
            return at, list(differing_values), data
    step = candidate.feeds[wrong.at].step
    return state_reasons.equal_states_agree(step.index, step.start)


def _new_slots(candidate: Party, feed: Feed, values: Any, at: int) -> Any:
    """Return the part of a state that a step wrote."""
    run = Run(candidate, lambda _: values)
    return run.memory.keep(candidate.feeds[at], feed, values, candidate.name)


def _correcting_states(judge: Judge, wrong: FirstWrongStep, harmless: Sequence[str]) -> list[str]:
    """Return the states that, copied from the other party, each correct the first incorrect step.
    The result is empty if none does.
    """
    candidate, reference = judge.own, judge.right
    compute, names = wrong.own.compute, output_names(candidate, reference)
    correcting_states = []
    for pair in candidate.plan.pairs:
        inputs = [
            state_pair.input
            for state_pair in candidate.plan.pairs
            if state_pair.input != pair.input
        ]
        feed = feed_with_states(
            candidate, reference, wrong.at, wrong.own.feed, wrong.right.feed, inputs
        )
        if feed is None or pair.input in harmless:
            continue
        feeds, values = (feed, wrong.right.feed), (compute(feed), wrong.right.values)
        if not judge.find_value_deviations(wrong.at, feeds, values, names):
            correcting_states.append(pair.input)
    return correcting_states
