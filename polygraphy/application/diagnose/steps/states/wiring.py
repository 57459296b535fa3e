"""Step: an output of a model with states continues a different input than it should."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.state_steps import ModelWithStates
from polygraphy.application.diagnose.comparisons.step_runs import (
    Judge,
    Party,
    PartyRuns,
    Run,
    feed_with_states,
    output_names,
    run_side_by_side,
    state_names,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.states.self_check import explain_wires
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.words import state_evidence


def explain_by_wiring(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outputs that continue incorrect inputs according to the graph, and the first step
    at which that shows."""
    reference = states.right
    if not states.conflicts:
        return Skip("each state output is connected to the correct input")
    party = _with_expected_pairs(states)
    first = None
    if reference is None:
        first = explain_wires(case, party)
    else:
        try:
            beside = run_side_by_side(Judge.between(case, party, reference))
        except REFUSALS:
            beside = PartyRuns(None)
        if beside.first is not None:
            wrong = beside.first
            first = {"step": wrong.at, "position": wrong.position, "output": wrong.output}
    first_wrong_step, beside_right = (
        state_evidence.first_wrong_step_alone,
        state_evidence.first_wrong_step,
    )
    step = first_wrong_step if reference is None else beside_right
    facts = [] if first is None else [step(**first)]
    culprits = [
        Culprit(
            [conflict.node] if conflict.node else [],
            conflict.output,
            MODEL,
            "state",
            facts=[
                *facts,
                state_evidence.continues_another(
                    conflict.output,
                    conflict.input,
                    conflict.expected,
                    conflict.source,
                    may_be_inputs=reference is None,
                ),
            ],
        )
        for conflict in states.conflicts
    ]
    return Found(DiagnosisResult(FAULT, culprits), case)


def keep_exchanged_outputs(case: Case, states: ModelWithStates) -> ModelWithStates:
    """Return the states as the reference continues them if, on its states, no exchange of outputs
    makes all steps match: then a node before the outputs reads the wrong state, and the comparison
    of single steps names it."""
    reference = states.right
    sources = _exchanged_outputs(states)
    if reference is None or sources is None:
        return states
    party = _with_expected_pairs(states)
    if states.request.program is not None:  # It has the pairs of the model.
        reference = evolve(reference, plan=party.plan, feeds=party.feeds)
    try:
        if _match_if_exchanged(Judge.between(case, party, reference), sources):
            return states
    except REFUSALS:
        return states
    return evolve(states, own=party, right=reference, conflicts=[])


def _with_expected_pairs(states: ModelWithStates) -> Party:
    """Return the model with each output connected to the input that it should continue."""
    pairs = states.own.plan.pairs
    expected = {
        conflict.output: conflict.expected for conflict in states.conflicts if conflict.expected
    }
    inputs = {pair.output: pair.input for pair in pairs if pair.input not in expected.values()}
    wires = {**inputs, **expected}
    known_names = {pair.output for pair in pairs} | {*expected}
    return states.with_pairs([(name, wires[name]) for name in wires if name in known_names])


def _exchanged_outputs(states: ModelWithStates) -> Mapping[str, str] | None:
    """Return, by output, the output that continues its input in the graph, or None.
    The result is None if the reference connects them differently, or the outputs do not exchange
    their inputs."""
    if states.right is None or not states.conflicts:
        return None
    by_input = {pair.input: pair.output for pair in states.own.plan.pairs}
    right = {pair.output: pair.input for pair in states.right.plan.pairs}
    sources = {}
    for conflict in states.conflicts:
        is_right = states.request.program is not None or (
            right.get(conflict.output) == conflict.expected
        )
        if conflict.expected not in by_input or not is_right:
            return None
        sources[conflict.output] = by_input[conflict.expected]
    return sources if {*sources} == {*sources.values()} else None


def _match_if_exchanged(judge: Judge, sources: Mapping[str, str]) -> bool:
    """Return whether all outputs of all steps match on the states of the reference if some outputs
    are exchanged.

    Raises:
        BackendError: a step fails.
    """
    own, right = judge.own, judge.right
    names = {**output_names(own, right), **state_names(own, right)}
    compute, run = own.load(), Run(right, right.load())
    for at in range(len(own.feeds)):
        run.advance()
        feed = feed_with_states(own, right, at, None, run.feed)
        if feed is None:
            return True  # States of another kind show nothing.
        values = compute(feed)
        exchanged = {**values, **{name: values[source] for name, source in sources.items()}}
        pairs = exchanged, run.values
        if judge.find_value_deviations(at, (feed, run.feed), pairs, names):
            return False
    return True
