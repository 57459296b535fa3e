"""Step: an output of a model with states continues a different input than it should."""

from __future__ import annotations

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.state_steps import ModelWithStates
from polygraphy.application.diagnose.comparisons.step_runs import (
    Judge,
    PartyRuns,
    run_side_by_side,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.states.self_check import explain_wires
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.words import state_evidence


def explain_by_wiring(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outputs that continue incorrect inputs according to the graph, and the first step
    at which that shows."""
    candidate, reference = states.own, states.right
    if not states.conflicts:
        return Skip("each state output is connected to the correct input")
    expected = {
        conflict.output: conflict.expected for conflict in states.conflicts if conflict.expected
    }
    inputs = {
        pair.output: pair.input
        for pair in candidate.plan.pairs
        if pair.input not in expected.values()
    }
    wires = {**inputs, **expected}
    known_names = {pair.output for pair in candidate.plan.pairs} | {*expected}
    party = states.with_pairs([(name, wires[name]) for name in wires if name in known_names])
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
                    conflict.output, conflict.input, conflict.expected, conflict.source
                ),
            ],
        )
        for conflict in states.conflicts
    ]
    return Found(DiagnosisResult(FAULT, culprits), case)
