"""Expected results from the agreement of several backends, and which backend is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns, is_not_finite
from polygraphy.application.diagnose.oracle import Oracle, Request, TensorDifferences
from polygraphy.application.diagnose.outcome import Found, Step, step_from, take_steps
from polygraphy.application.diagnose.rounding import with_acceptance
from polygraphy.application.diagnose.steps.matching_outputs import report_matching_outputs
from polygraphy.application.diagnose.steps.nondeterminism import explain_by_nondeterminism
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import evidence, reasons, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.naming import differing_text

STEPS: Sequence[Step[BackendRuns]] = (
    step_from(
        "steps.backend_refusals:report_refusing_arbiter", lambda case, runs: bool(runs.refusals)
    ),
    step_from(
        "steps.backend_refusals:explain_backend_refusals", lambda case, runs: bool(runs.refusals)
    ),
    explain_by_nondeterminism,
    report_matching_outputs,
    step_from("steps.accumulated_rounding:explain_by_tied_labels"),
    step_from("steps.quantized.code_steps:explain_by_saturated_products"),
    step_from("steps.quantized.code_steps:explain_by_quantization_steps"),
    step_from("steps.accumulated_rounding:explain_by_accumulated_rounding"),
    step_from("steps.precision.backend_half_precision:explain_by_half_precision"),
    step_from("steps.backend_faults:explain_by_nodes", lambda case, runs: runs.compared.differs),
    step_from(
        "steps.backend_faults:explain_by_first_nan", lambda case, runs: not runs.compared.differs
    ),
    step_from("steps.precision.backend_half_precision:explain_by_some_half_precision"),
)


def between_backends(case: Case, request: Request) -> Found:
    """Return the diagnosis from comparing the backends with each other,
    and with the arbiter if the model differs from its oracle without a known cause."""
    arbiter, parties = request.arbiter, case.parties
    asks_arbiter = bool(request.unexplained) and arbiter not in parties
    case = evolve(
        case, parties=[*parties, arbiter] if asks_arbiter else parties, feed=request.feeds[0]
    )
    unexplained = request.unexplained if asks_arbiter else ""
    runs = _run_backends(case, evolve(request, unexplained=""), unexplained)
    answer = take_steps(STEPS, case, runs)
    if not isinstance(answer, Found):
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reasons.NOT_BORN), case)
    if answer.result.verdict == FAULT and answer.result.culprits and len(runs.outputs) > 1:
        first, *other_outputs = runs.outputs.values()
        pairs = [(first, output) for output in other_outputs]
        return with_acceptance(
            answer, case, request.feeds, pairs, evidence.accepted_by_run_of_backends
        )
    if asks_arbiter and answer.result.verdict == AGREE:
        same = reasons.same_here(arbiter.name, parties[0].name)
        reason = join_statements(same, answer.result.reason)
        return evolve(answer, result=evolve(answer.result, reason=reason))
    return answer


def _run_backends(case: Case, request: Request, unexplained: str) -> BackendRuns:
    """Return the outputs of the model in every backend, on all data."""
    outputs: dict[int, Sequence[Values]] = {}
    refusals: dict[int, PolygraphyException] = {}
    refused_on: dict[int, int] = {}

    def runs(index: int) -> bool:
        """Return whether a backend runs all input sets; keep its outputs, or its refusal."""
        values: list[Values] = []
        try:
            compute = case.load(case.parties[index])
            values.extend(map(compute, request.feeds))  # Notes before an error remain.
        except REFUSALS as error:
            refusals[index], refused_on[index] = error, len(values)
            return False
        outputs[index] = values
        return True

    with case.record_step("outputs") as notes:
        for index, party in enumerate(case.parties):
            if not runs(index):
                notes.append(steps.refuses(party.name))
        is_alone = len(outputs) == 1
        has_nan = any(
            is_not_finite(case, values, is_only_backend=is_alone)
            for party_values in outputs.values()
            for values in party_values
        )
        compared = _compare(case, outputs)
        notes.append(_describe(case, request, compared, len(outputs), has_nan))
    return BackendRuns(
        request,
        outputs,
        refusals,
        refused_on,
        compared,
        has_nan,
        unexplained,
        between_backends,
    )


def _compare(case: Case, outputs: Mapping[int, Sequence[Values]]) -> TensorDifferences:
    """Return the comparison of the first backend with all others."""
    first, *other_outputs = [*outputs.values()] or [()]
    comparisons = [
        Oracle(titles.EACH_OTHER, output).compare(case, first) for output in other_outputs
    ]
    return (
        reduce(TensorDifferences.merge_worst, comparisons) if comparisons else TensorDifferences()
    )


def _describe(
    case: Case, request: Request, compared: TensorDifferences, count: int, has_nan: bool
) -> str:
    """Return the sentence with the outputs that differ, and the largest error."""
    if count < 2:
        return steps.runs(len(request.feeds), has_nan)
    if not compared.differences:
        return steps.all_match(len(request.feeds))
    name, off = max(compared.differences.items(), key=lambda item: item[1].excess)
    size = off.relative if np.isfinite(off.relative) else None
    outputs = differing_text(len(compared.differences), len(case.model.outputs))
    return steps.differ(outputs, len(request.feeds), name, off.largest, size)
