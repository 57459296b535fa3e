"""Step: a backend does not compute the same twice, or a program does not have the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.tensor_trace import trace_repeatedly
from polygraphy.domain.checks.operator_call import UNDEFINED
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.words import evidence, program_evidence, remedies
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import deviation, rounding_between
from polygraphy.domain.tensors.facts import compute_dtype
from polygraphy.ports.diagnosing import SuspectedParty, find_violations

_RUNS = 5
"""Runs that compute all tensors if outputs differ between runs."""


def explain_by_nondeterminism(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the first backend whose outputs differ between runs, or the model if it generates
    random numbers. With other backends present, the slow arbiter is not repeated.
    """
    for index, (first, *_) in runs.outputs.items():
        party = case.parties[index]
        if party.name == runs.request.arbiter.name and len(case.parties) > 1:
            continue
        answer = _run_again(case, party, first)
        if isinstance(answer, Found):
            return answer
    return Skip("each backend gives the same results twice")


def explain_saved_by_nondeterminism(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome: whether the outputs differ from saved ones because each run differs."""
    return _run_again(case, case.parties[0], comparison.outputs)


def explain_by_random_weights(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return an inconclusive outcome if a program gets other weights at each call; else a skip."""
    names: Sequence[str] = getattr(comparison.given, "random_weights", lambda: ())()
    if not names:
        return Skip("the program has the same weights if it is loaded again")
    reason = program_evidence.random_weights(names)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def _run_again(case: Case, party: SuspectedParty, first: Values) -> Found | Skip:
    """Return the node that makes outputs differ between two runs; a skip if they are equal."""
    nodes = case.model.nodes
    again = case.load(party)(case.feed)
    differing = {
        name: difference
        for name, difference in case.find_deviations(again, first).items()
        if not _is_rounding(case, name, (again[name], first[name]))
    }
    if not differing:
        return Skip("the backend gives the same results twice")
    name = next(iter(differing))
    random_nodes = _random_nodes(case)
    learning = [] if random_nodes else _training_nodes(case, name)
    makers = random_nodes or learning or _first_unsteady(case, party)
    makers = makers or [case.model.graph.producers.get(name, len(nodes) - 1)]
    facts = [evidence.runs_disagree(party.name, name, differing[name])]
    if random_nodes:
        facts.insert(0, evidence.random_numbers(nodes[makers[-1]].operator))
    if learning:
        facts.insert(0, evidence.in_training_mode(nodes[makers[-1]].operator))
    culprit = Culprit(
        [nodes[i].label for i in makers],
        name,
        MODEL if random_nodes or learning else party.name,
        "training" if learning else "nondeterminism",
        facts=facts,
        remedy=Remedy(None, False, remedies.EXPORT_IN_EVAL) if learning else Remedy(),
        op=nodes[makers[-1]].operator,
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _is_rounding(case: Case, name: str, outputs: tuple[Any, Any]) -> bool:
    """Return whether two runs differ by rounding in the coarsest precision of the model.
    In a quantized model, the order of a sum can change a value by a whole step."""
    if case.rounding(name, *outputs) is None:
        return False
    dtype = compute_dtype(case.facts, name)
    layout = case.layout(name)
    explained = rounding_between(outputs, (dtype, dtype), name=name, layout=layout)
    return explained is not None and not deviation(*outputs, rounding=explained).is_wrong


def _first_unsteady(case: Case, party: SuspectedParty) -> list[int]:
    """Return the first node with different results in two runs, such as one that reads
    uninitialized memory; empty if marking all tensors hides it, or memory does not suffice.
    """
    try:
        first, *other_outputs = trace_repeatedly(case, party, case.feed, _RUNS) or [{}]
    except REFUSALS:
        return []
    for index, node in enumerate(case.model.nodes):
        for name in node.makes:
            if name in first and any(
                deviation(other_values[name], first[name]).is_wrong
                for other_values in other_outputs
            ):
                return [index]
    return []


def _training_nodes(case: Case, output: str) -> list[int]:
    """Return the positions of the nodes before an output that compute in training mode:
    a backend may keep the statistics that they update."""
    nodes = case.model.nodes
    before = region_before(case.model.graph, output, ())
    return [index for index in before if nodes[index].attribute("training_mode")]


def _random_nodes(case: Case) -> list[int]:
    """Return the positions of nodes that generate random numbers."""
    nodes = case.model.nodes
    may_drop = [at for at, node in enumerate(nodes) if node.operator == "Dropout"]
    violations = find_violations(case.model.proto, case.feed, may_drop) if may_drop else []
    dropping = {violation.index for violation in violations if violation.kind == UNDEFINED}
    return [
        index
        for index, node in enumerate(nodes)
        if index in dropping
        or node.operator.startswith("Random")
        or node.operator in {"Bernoulli", "Multinomial"}
    ]
