"""Step: rounding that adds up along the model explains how backends differ."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons


def explain_by_accumulated_rounding(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the outcome: whether accumulated rounding explains the difference,
    so that no node must be examined.
    """
    if runs.has_nan or not rounding_accumulates(case, runs.request.feeds, runs.outputs):
        return Skip("accumulated rounding does not explain the difference")
    return Found(DiagnosisResult(AGREE, reason=reasons.ADDS_UP), case)
