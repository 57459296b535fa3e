"""Expected results from saved files, or from a program."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.branches import take_saved_branches
from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.saved_comparison import (
    SavedComparison,
    compare_saved,
)
from polygraphy.application.diagnose.golden_files import SavedRun, load_saved_runs
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import (
    Found,
    Skip,
    Step,
    StepOutcome,
    Unexplained,
    step_from,
    take_steps,
)
from polygraphy.application.diagnose.steps.nondeterminism import explain_saved_by_nondeterminism
from polygraphy.application.diagnose.steps.saved_outputs import (
    explain_by_half_precision,
    explain_by_nan,
    explain_by_outputs_alone,
    explain_by_precision,
    explain_by_tf32,
    explain_by_tied_labels,
    explain_outputs_by_precision,
)
from polygraphy.application.diagnose.steps.saved_refusal import explain_refusal_by_tensors
from polygraphy.application.diagnose.steps.saved_tensors import explain_by_tensors
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons, titles
from polygraphy.domain.errors import BackendError
from polygraphy.ports.diagnosing import SuspectedParty


def has_trees(case: Case, comparison: SavedComparison) -> bool:
    """Return whether the model has an ensemble of trees."""
    return any("TreeEnsemble" in node.operator for node in case.model.nodes)


def has_whole_outputs(case: Case, comparison: SavedComparison) -> bool:
    """Return whether outputs were saved of each of several nodes."""
    return comparison.matched.is_whole


STEPS_ON_OUTPUTS: Sequence[Step[SavedComparison]] = (
    explain_by_precision,
    explain_by_tied_labels,
    explain_by_tf32,
    explain_by_nan,
    explain_saved_by_nondeterminism,
    explain_by_half_precision,
    step_from("steps.tree_thresholds:explain_by_thresholds", has_trees),
    explain_by_outputs_alone,
    step_from("steps.saved_tensors:explain_by_whole_outputs", has_whole_outputs),
)


def has_maps(case: Case, comparison: SavedComparison) -> bool:
    """Return whether maps differ, which classifiers return."""
    names = comparison.compared.sets[comparison.number]
    return any(isinstance(comparison.outputs.get(name), list) for name in names)


STEPS_ON_TENSORS: Sequence[Step[SavedComparison]] = (
    explain_outputs_by_precision,
    explain_by_tied_labels,
    step_from("steps.saved_maps:explain_by_maps", has_maps),
    explain_by_tensors,
    explain_by_precision,
    explain_by_half_precision,
)


def against_golden(case: Case, request: Request) -> StepOutcome:
    """Return the outcome of comparing a model with saved results.

    Raises:
        FileError: a file is missing or damaged.
        UsageError: the results are of other tensors than the model has.
    """
    runs = load_saved_runs(request.golden or (), len(request.feeds), case.budget)
    return against_results(case, runs, request.feeds, request.arbiter)


def against_results(
    case: Case, runs: Sequence[SavedRun], feeds: Sequence[Feed], arbiter: SuspectedParty
) -> StepOutcome:
    """Return the outcome of comparing a model with results, run by run.

    Returns:
        What was found; a skip where the model gives them and several backends are compared.

    Raises:
        UsageError: the results are of other tensors than the model has.
    """
    party = case.parties[0]
    kind = runs[0].kind if runs else titles.SAVED_RESULTS
    for run in runs:
        case = take_saved_branches(case, feeds, run.sets)
    try:
        compute = case.load(party)
        values: list[Values] = [compute(feed) for feed in feeds]
    except BackendError as error:
        answer = explain_refusal_by_tensors(case, runs, feeds, arbiter, error)
        if isinstance(answer, Found):
            return answer
        with case.record_step(kind):
            return Unexplained(reasons.not_comparable(party.name, kind))
    with case.record_step(kind) as notes:
        comparisons = [compare_saved(case, run, feeds, values, arbiter) for run in runs]
        for comparison in comparisons:
            notes.extend(comparison.notes(names_run=len(comparisons) > 1))
    agreed = ""
    for comparison in comparisons:
        if comparison.compared.differs:
            answer = _explain(case, comparison)
            if not isinstance(answer, Found) or answer.result.verdict != AGREE:
                return answer
            agreed = answer.result.reason
    fitted = [comparison.matched for comparison in comparisons]
    doubts = [results.doubt() for results in fitted if not results.is_proof]
    if doubts:
        return Found(DiagnosisResult(INCONCLUSIVE, reason=doubts[0]), case)
    doubt = next(filter(None, (results.doubt() for results in fitted)), "")
    reason = " ".join(filter(None, (agreed, doubt)))
    if len(case.parties) > 1:
        return Skip("the model gives the saved results")
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def _explain(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome of explaining results that differ."""
    case = evolve(case, feed=comparison.feed)
    steps = STEPS_ON_TENSORS if comparison.has_tensors else STEPS_ON_OUTPUTS
    return take_steps(steps, case, comparison)
