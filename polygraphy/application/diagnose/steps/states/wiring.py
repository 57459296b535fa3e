"""Step: an output of a model with states continues another input than it should."""

from __future__ import annotations

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.state_steps import ModelWithStates
from polygraphy.application.diagnose.comparisons.step_runs import (
    Judge,
    SideBySide,
    run_side_by_side,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.states.self_check import explain_wires
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.words import state_evidence


def explain_by_wiring(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outputs that continue the wrong inputs, which the graph shows. The step at which
    they show first is found by feeding back the right ones.
    """
    own, right = states.own, states.right
    if not states.conflicts:
        return Skip("each output continues the input that it should")
    expected = {each.output: each.expected for each in states.conflicts if each.expected}
    kept = {
        pair.output: pair.input for pair in own.plan.pairs if pair.input not in expected.values()
    }
    wires = {**kept, **expected}
    known = {pair.output for pair in own.plan.pairs} | {*expected}
    party = states.rewired([(name, wires[name]) for name in wires if name in known])
    first = None
    if right is None:
        first = explain_wires(case, party)
    else:
        try:
            beside = run_side_by_side(Judge.between(case, party, right))
        except REFUSALS:
            beside = SideBySide(None)
        if beside.first is not None:
            wrong = beside.first
            first = {"step": wrong.at, "position": wrong.position, "output": wrong.output}
    alone, beside_right = state_evidence.first_wrong_step_alone, state_evidence.first_wrong_step
    step = alone if right is None else beside_right
    facts = [] if first is None else [step(**first)]
    culprits = [
        Culprit(
            [each.node] if each.node else [],
            each.output,
            MODEL,
            "state",
            facts=[
                *facts,
                state_evidence.continues_another(
                    each.output, each.input, each.expected, each.source
                ),
            ],
        )
        for each in states.conflicts
    ]
    return Found(DiagnosisResult(FAULT, culprits), case)
