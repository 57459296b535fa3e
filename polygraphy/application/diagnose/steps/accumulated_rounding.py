"""Steps: rounding explains how backends differ."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.rounding import describe_tied_labels, rounding_accumulates
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons


def explain_by_accumulated_rounding(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the outcome: whether accumulated rounding explains the difference,
    so that no node must be examined.
    """
    if runs.has_nan or not rounding_accumulates(case, runs.request.feeds, runs.outputs):
        return Skip("accumulated rounding does not explain the difference")
    return Found(DiagnosisResult(AGREE, reason=reasons.ADDS_UP), case)


def explain_by_tied_labels(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the outcome: whether only labels differ, where scores are equal except for
    rounding."""
    first, *others = runs.outputs.values()
    if runs.has_nan or len(others) != 1:
        return Skip("not two backends with finite outputs")
    reason = describe_tied_labels(case, runs.compared, first, others[0])
    if not reason:
        return Skip("not only labels of equal scores differ")
    return Found(DiagnosisResult(AGREE, reason=reason), case)
