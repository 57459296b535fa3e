"""Step: a backend rejects a model, and its saved tensors say which node is the reason."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.golden_files import SavedRun, fit_results
from polygraphy.application.diagnose.oracle import TensorDifferences
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.saved_tensors import explain_by_tensors
from polygraphy.domain.diagnosis.culprit import FAULT
from polygraphy.domain.diagnosis.words import evidence
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.ports.diagnosing import SuspectedParty


def explain_refusal_by_tensors(
    case: Case,
    runs: Sequence[SavedRun],
    feeds: Sequence[Feed],
    arbiter: SuspectedParty,
    error: BackendError,
) -> StepOutcome:
    """Return the nodes that do not reproduce their saved tensors, in a model that a backend
    rejects: a wrong shape or index, for example, is often rejected only by a later node.

    Args:
        case: the model.
        runs: the saved results.
        feeds: the data.
        arbiter: the backend that computes the expected results.
        error: the error with which the backend rejects the model.
    """
    party = case.parties[0]
    for run in runs:
        comparison = _comparison_without_outputs(case, run, feeds, arbiter)
        if comparison is None:
            continue
        try:
            answer = explain_by_tensors(case, comparison)
        except BackendError:
            continue  # The nodes cannot be run one by one either.
        if isinstance(answer, Found) and answer.result.verdict == FAULT:
            refusal = evidence.refusal(party.name, str(error), by_wrong_value=True)
            culprits = [
                evolve(culprit, facts=[*culprit.facts, refusal])
                for culprit in answer.result.culprits
            ]
            return evolve(answer, result=evolve(answer.result, culprits=culprits))
    return Skip("no saved tensor says which node is wrong")


def _comparison_without_outputs(
    case: Case, run: SavedRun, feeds: Sequence[Feed], arbiter: SuspectedParty
) -> SavedComparison | None:
    """Return a comparison with saved tensors for a model that does not run:
    its outputs count as correct, and its nodes are still to be compared. None if only outputs
    were saved."""
    names = [*case.model.outputs]
    outputs = [{name: saved[name] for name in names if name in saved} for saved in run.sets]
    try:
        matched = fit_results(case.model, run.sets, outputs)
    except UsageError:
        return None
    if not matched.inner:
        return None
    nothing = TensorDifferences([{} for _ in matched.sets])
    return SavedComparison(run, feeds, outputs, arbiter, matched, nothing, {}, {}, is_rejected=True)
