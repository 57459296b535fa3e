"""What is right of a model with states over several steps: a reference, another backend, or the
model itself with all inputs at once. The verdict says which step is the first wrong one, and
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
    changed_states,
    rewire_states,
)
from polygraphy.application.diagnose.comparisons.step_runs import (
    FirstWrong,
    Judge,
    Party,
    Run,
    SideBySide,
    feed_with_states,
    output_names,
    reference_party,
    run_side_by_side,
    state_names,
)
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, Step, StepOutcome, take_steps
from polygraphy.application.diagnose.steps.states.failing_step import explain_failing_step
from polygraphy.application.diagnose.steps.states.self_check import explain_by_self_check
from polygraphy.application.diagnose.steps.states.wiring import explain_by_wiring
from polygraphy.application.diagnose.steps.states.wrong_step import (
    blame_first_model,
    blame_output,
    explain_by_own_steps,
    explain_by_single_step,
)
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.words import (
    errors,
    reasons,
    state_evidence,
    steps,
    titles,
)
from polygraphy.domain.errors import BackendError
from polygraphy.domain.rounding import deviation
from polygraphy.domain.states.aligning import padding
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.states.pairs import Conflict, describe_pairs
from polygraphy.domain.states.plan import StatePlan
from polygraphy.ports.editing import open_model

STEPS_ON_WRONG_STEP: Sequence[Step[StepComparison]] = (
    blame_first_model,
    explain_by_single_step,
    explain_by_own_steps,
    blame_output,
)
"""What explains that a step differs, in order."""
_SETS = 4
"""Steps whose data the search of a single step gets."""


def over_steps(case: Case, request: Request) -> StepOutcome:
    """Return the step of a model with states that is wrong, and the cause.

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
    return take_steps(STEPS, case, _open_states(case, request, loader))


def _open_states(case: Case, request: Request, loader: StepLoader) -> ModelWithStates:
    """Return the model with its states, and the reference with the corresponding ones."""
    describe_model(loader, case.model.inputs, case.model.facts)
    plan, feeds = loader.plan, list(loader)
    first = case.parties[0]
    other = None if loader.first_model is None else open_model(loader.first_model)
    own = Party(first.name, first, case.model, plan, feeds, case.model.facts(), other)
    with case.attempt("states") as notes:
        notes.append(describe_pairs(plan.pairs))
    if request.program is not None:
        right: Party = program_party(own, request.program)
        return ModelWithStates(request, loader, own, plan, right, plan.conflicts)
    if request.reference is None:
        return ModelWithStates(request, loader, own, plan, None, plan.conflicts)
    right = reference_party(case, own, loader, open_model(request.reference))
    own = _with_states(own, loader, right.plan)
    conflicts = _other_wires(own, plan, right.plan) or plan.conflicts
    return ModelWithStates(request, loader, own, plan, right, conflicts)


def _with_states(own: Party, loader: StepLoader, right: StatePlan) -> Party:
    """Return a party with additional states taken from a reference with the same interface."""
    known = {pair.output for pair in own.plan.pairs} | {pair.input for pair in own.plan.pairs}
    outputs = {tensor.name for tensor in own.plan.graph.outputs}
    more = [
        (pair.output, pair.input)
        for pair in right.pairs
        if pair.output in outputs
        and pair.input in own.plan.inputs
        and not {pair.output, pair.input} & known
    ]
    if not more:
        return own
    return rewire_states(
        own, loader, [*((pair.output, pair.input) for pair in own.plan.pairs), *more]
    )


def _other_wires(own: Party, plan: StatePlan, right: StatePlan) -> list[Conflict]:
    """Return the outputs that continue a different input than in a reference with the same
    interface.
    """
    expected = {pair.output: pair.input for pair in right.pairs}
    makers = {name: node.name for node in own.model.nodes for name in node.makes}
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


def compare_side_by_side(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outcome of comparing the steps with those of the reference, or of each other
    backend.
    """
    own = states.own
    others = [evolve(own, name=party.name, party=party) for party in case.parties[1:]]
    for right in others if states.right is None else [states.right]:
        comparison = _compare_parties(case, states, right)
        if isinstance(comparison, StepComparison):
            return take_steps(STEPS_ON_WRONG_STEP, case, comparison)
        if isinstance(comparison, Found):
            return comparison
    if states.right is None:
        return Skip("all backends agree")
    return Found(DiagnosisResult(AGREE), case)


def refuse_unsteady_program(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return that a program is no reference if two runs of a step differ; else a skip."""
    right = states.right
    if states.request.program is None or right is None:
        return Skip("there is no program")
    compute, feed = right.load(), right.feeds[0]
    values, again = compute(feed), compute(feed)
    if any(deviation(value, again[name]) for name, value in values.items()):
        unsteady = DiagnosisResult(INCONCLUSIVE, reason=reasons.UNSTEADY_PROGRAM)
        return Found(unsteady, case)
    return Skip("the program computes the same again")


STEPS: Sequence[Step[ModelWithStates]] = (
    refuse_unsteady_program,
    explain_by_wiring,
    compare_side_by_side,
    explain_by_self_check,
)


def _compare_parties(
    case: Case, states: ModelWithStates, right: Party
) -> StepComparison | StepOutcome:
    """Return the comparison of two parties on their own states, with the first step that differs on
    equal states.
    """
    own, is_reference = states.own, states.right is not None
    try:
        judge = Judge.between(case, own, right)
        oracle = titles.REFERENCE_MODEL if is_reference else titles.ANOTHER_BACKEND
        program = states.request.program
        case.record_comparison(oracle if program is None else program.name)
        with case.attempt(titles.OWN_STATES) as notes:
            beside = run_side_by_side(judge)
            notes.append(_describe_steps(own, beside))
        if allowed := _harmless_differences(judge):
            with case.attempt(titles.NOT_COUNTED) as notes:
                notes.append(steps.not_counted(allowed))
    except BackendError as error:
        return explain_failing_step(case, own, error, right)
    wrong = beside.first
    if beside.unread:
        reason = reasons.unread_states(beside.unread, len(own.feeds))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    if wrong is None:
        return Skip("all steps agree")
    harmless = [pair.input for pair in own.plan.pairs if pair.output in beside.states]
    equal = _first_on_equal_states(judge, wrong, harmless)
    if isinstance(equal, str):
        return Found(DiagnosisResult(INCONCLUSIVE, reason=equal), case)
    at, different, data = equal
    changed = changed_states(judge, different)
    with case.attempt(titles.EQUAL_STATES) as notes:
        notes.append(steps.first_step_on_equal_states(at, changed))
    step = own.feeds[wrong.at].step
    facts = [state_evidence.first_wrong_step(step.index, wrong.position, wrong.output)]
    if at != wrong.at or changed:
        facts.append(state_evidence.state_left_wrong((changed or different)[0], at))
    if at != wrong.at:
        exchanged = _correcting_states(judge, wrong, harmless)
        if exchanged:
            with case.attempt(titles.STATES_EXCHANGED) as notes:
                notes.append(steps.exchanged_states(exchanged, wrong.at))
            facts.append(state_evidence.exchanged_states(exchanged, wrong.at))
    sets = StepData(data, states.loader.options())
    return StepComparison(states, judge, wrong, at, different, sets, facts)


def _harmless_differences(judge: Judge) -> list[str]:
    """Return notes on harmless differences."""
    feeds, plan = judge.own.feeds, judge.own.plan
    is_padded = any(padding(plan, feed) is not None for feed in feeds[:1])
    return [*judge.coarse, *([titles.HIDDEN_POSITIONS] if is_padded else [])]


def _describe_steps(own: Party, beside: SideBySide) -> str:
    """Return a sentence about all steps, including states that differ without effect."""
    wrong = beside.first
    if wrong is None:
        return steps.all_steps_agree(len(own.feeds), beside.states)
    return steps.first_wrong_step(wrong.at, wrong.position, wrong.output, wrong.off)


def _first_on_equal_states(
    judge: Judge, wrong: FirstWrong, harmless: Sequence[str]
) -> tuple[int, list[str], list[dict[str, Any]]] | str:
    """Return the first step that differs on the reference's states, the differing outputs, and the
    inputs of this and later steps; or why there is none.
    """
    own, right = judge.own, judge.right
    names = {**output_names(own, right), **state_names(own, right)}
    silent = {pair.output for pair in own.plan.pairs if pair.input in harmless}
    names = {name: other for name, other in names.items() if name not in silent}
    compute, run = own.load(), Run(right, right.load())
    mine = Run(own, own.load()) if harmless else None
    data: list[dict[str, Any]] = []
    for at in range(wrong.at + 1):
        run.advance()
        if mine is not None:
            mine.advance()
        feed = feed_with_states(
            own, right, at, None if mine is None else mine.feed, run.feed, harmless
        )
        if feed is None:
            step = own.feeds[wrong.at].step
            return reasons.states_differ_in_kind(step.index, step.start)
        data = [feed, *data][:_SETS]
        values = compute(feed)
        found = judge.differing_values(
            at, (feed, run.feed), (_new_slots(own, feed, values, at), run.shown), names
        )
        if found:
            return at, list(found), data
    step = own.feeds[wrong.at].step
    return reasons.equal_states_agree(step.index, step.start)


def _new_slots(own: Party, feed: Feed, values: Any, at: int) -> Any:
    """Return the slots of states that a step wrote."""
    run = Run(own, lambda _: values)
    return run.memory.keep(own.feeds[at], feed, values, own.name)


def _correcting_states(judge: Judge, wrong: FirstWrong, harmless: Sequence[str]) -> list[str]:
    """Return the states that, copied from the other party, each correct the first incorrect step;
    empty if none does.
    """
    own, right = judge.own, judge.right
    compute, names = wrong.own.compute, output_names(own, right)
    found = []
    for pair in own.plan.pairs:
        kept = [each.input for each in own.plan.pairs if each.input != pair.input]
        feed = feed_with_states(own, right, wrong.at, wrong.own.feed, wrong.right.feed, kept)
        if feed is None or pair.input in harmless:
            continue
        feeds, values = (feed, wrong.right.feed), (compute(feed), wrong.right.values)
        if not judge.differing_values(wrong.at, feeds, values, names):
            found.append(pair.input)
    return found
