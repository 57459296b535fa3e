"""Step: a backend refuses a step of a model with states."""

from __future__ import annotations

import re

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.step_runs import Party, Run
from polygraphy.application.diagnose.outcome import Found
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.words import reasons, state_evidence
from polygraphy.domain.errors import BackendError
from polygraphy.domain.states.plan import StatePlan

_LENGTHS = range(1, 17)
"""Numbers of positions that are tried if a model refuses one."""
_NODE = re.compile(r"node '([^']+)'")


def explain_failing_step(
    case: Case, candidate: Party, error: BackendError, reference: Party | None = None
) -> Found:
    """Return the fault of a model that fails in a step: it runs with other numbers of positions, or
    another party runs all steps.

    Args:
        case: the model.
        candidate: the model, as the backend runs it.
        error: the message of the backend.
        reference: the party that may run all steps; None if there is none.

    Raises:
        BackendError: neither is so.
    """
    guessed = _guessed_input(candidate.plan)
    if guessed:
        reason = reasons.unknown_role(guessed, str(error))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    culprit = _diagnose_fixed_length(case, candidate.plan, error)
    if culprit is None and reference is not None:
        culprit = _culprit_of_failing_step(case, reference, error)
    if culprit is None:
        raise error
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _guessed_input(plan: StatePlan) -> str:
    """Return the first input of whole numbers whose length and values are unknown; empty if there
    is none.
    """
    for name in plan.roles.inputs_of("constant"):
        tensor = plan.inputs[name]
        is_open = any(not isinstance(dim, int) for dim in (tensor.shape or ())[1:])
        if is_open and (tensor.dtype or "").startswith("int"):
            return name
    return ""


def _culprit_of_failing_step(case: Case, reference: Party, error: BackendError) -> Culprit | None:
    """Return the fault of a model that fails in a step that the other party can run."""
    if str(error.backend or "") == reference.name:
        return None
    run = Run(reference, reference.load())
    try:
        for _ in reference.feeds:
            run.advance()
    except REFUSALS:
        return None
    fact = state_evidence.refuses_length([], str(error))
    return Culprit(_nodes_in_message(case, error), None, MODEL, "state", facts=[fact])


def _nodes_in_message(case: Case, error: BackendError) -> list[str]:
    """Return the nodes that an error message names."""
    named = _NODE.search(str(error))
    return [node.label for node in case.model.nodes if named and node.label == named[1]]


def _diagnose_fixed_length(case: Case, plan: StatePlan, error: BackendError) -> Culprit | None:
    """Return the culprit if the model runs with some numbers of positions, but not with all."""
    if plan.roles.chunk is not None or not plan.is_decoder or plan.first is not None:
        return None
    compute, able = case.load(case.parties[0]), []
    for length in _LENGTHS:
        drawn = {
            name: np.zeros(plan.shape(name, length, 0), case.model.inputs[name].dtype.numpy())
            for name, role in plan.roles.of.items()
            if role in ("tokens", "chunk", "constant")
        }
        feed = {name: plan.value(name, length, 0, drawn) for name in plan.roles.of}
        try:
            compute({**{pair.input: plan.initial(pair) for pair in plan.pairs}, **feed})
        except REFUSALS:
            continue
        able.append(length)
    if not able or len(able) == len(_LENGTHS):
        return None
    fact = state_evidence.refuses_length(able, str(error))
    return Culprit(_nodes_in_message(case, error), None, MODEL, "length", facts=[fact])
