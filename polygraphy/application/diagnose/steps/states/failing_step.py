"""Step: a backend refuses a step of a model with states."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.comparisons.step_runs import Party, Run
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import state_evidence, state_reasons
from polygraphy.domain.errors import BackendError
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.tensors.shapes import fits

_LENGTHS = range(1, 17)
"""Numbers of positions that are tried if a model refuses one."""
_LONGEST, _MOST_DECLARED = 4096, 8
"""The largest number of positions in a declared shape that is tried, and how many are."""
_NODE = re.compile(r"node '([^']+)'")


def explain_failing_step(
    case: Case, candidate: Party, error: BackendError, reference: Party | None = None
) -> Found:
    """Return the fault of a model that fails in a step:
    it runs with other numbers of positions, or another party runs all steps.

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
        reason = state_reasons.unknown_role(guessed, str(error))
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    culprit = _diagnose_fixed_length(case, candidate.plan, error)
    if culprit is None and reference is not None:
        culprit = _culprit_of_failing_step(case, reference, error)
    if culprit is None:
        raise error
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _guessed_input(plan: StatePlan) -> str:
    """Return the first input of whole numbers whose length and values are unknown.
    The result is empty if there is none.
    """
    for name in plan.roles.inputs_of("constant"):
        tensor = plan.inputs[name]
        is_open = any(not isinstance(dim, int) for dim in (tensor.shape or ())[1:])
        if is_open and (tensor.dtype or "").startswith("int"):
            return name
    return ""


def _culprit_of_failing_step(case: Case, reference: Party, error: BackendError) -> Culprit | None:
    """Return the fault of a model that fails in a step that the other party can run, or None.
    The result is None if that fails as well."""
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
    """Return the culprit if the model runs with some numbers of positions, but not with all;
    else None."""
    if plan.roles.chunk is not None or plan.first is not None:
        return None
    compute = case.load(case.parties[0])
    able: list[int] = []
    refused: list[Feed] = []
    for length in _lengths_to_try(plan):
        drawn = {
            name: np.zeros(plan.shape(name, length, 0), case.model.inputs[name].dtype.numpy())
            for name, role in plan.roles.by_input.items()
            if role in ("tokens", "chunk", "constant")
        }
        feed = {name: plan.value(name, length, 0, drawn) for name in plan.roles.by_input}
        feed = {**{pair.input: plan.initial(pair) for pair in plan.pairs}, **feed}
        try:
            compute(feed)
        except REFUSALS:
            refused.append(feed)
        else:
            able.append(length)
    if not able or not refused:
        return None
    facts = [state_evidence.refuses_length(able, str(error))]
    nodes = _nodes_in_message(case, error)
    if not nodes:
        nodes, more = _node_without_rewrites(case, refused[0])
        facts += more
    return Culprit(nodes, None, MODEL, "length", facts=facts)


def _lengths_to_try(plan: StatePlan) -> Sequence[int]:
    """Return numbers of positions: small ones, and those that the model declares for tensors."""
    tensors = (*plan.graph.tensors.values(), *plan.graph.outputs)
    declared = {dim for tensor in tensors for dim in tensor.shape or () if isinstance(dim, int)}
    longer = sorted(dim for dim in declared if _LENGTHS.stop <= dim <= _LONGEST)
    return [*_LENGTHS, *longer[:_MOST_DECLARED]]


def _node_without_rewrites(case: Case, feed: Feed) -> tuple[list[str], list[Fact]]:
    """Return the name of the node that fails for a number of positions, and its facts.

    The backend rewrites nothing. If no node is refused, it is the first one whose output has a
    different shape than the model declares.
    """
    try:
        values = trace_tensors(case, case.parties[0], feed).values
    except BackendError as error:
        return _nodes_in_message(case, error), []
    except REFUSALS:
        return [], []
    graph = case.model.graph
    declared = {**graph.tensors, **{tensor.name: tensor for tensor in graph.outputs}}
    for node in case.model.nodes:
        for name in node.makes:
            shape = declared[name].shape if name in declared else None
            computed = getattr(values.get(name), "shape", None)
            if computed is not None and not fits(computed, shape):
                return [node.label], [state_evidence.declares_shape(name, shape or (), computed)]
    return [], []
