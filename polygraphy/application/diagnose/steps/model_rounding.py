"""Step: rounding that adds up along a model explains how it differs from its reference."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.pairing import is_quantized
from polygraphy.domain.diagnosis.quantizing import find_other_selection
from polygraphy.domain.diagnosis.words import reasons
from polygraphy.domain.rounding import LARGE


def explain_by_rounding(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the outcome: whether accumulated rounding causes a difference that nothing else
    explains.
    """
    most = comparison.compared.largest_error
    runs = {0: comparison.values, 1: comparison.expected}
    if most <= LARGE and rounding_accumulates(case, comparison.feeds, runs):
        if len(case.parties) > 1:
            return Skip("rounding accumulates; the backends are compared with each other")
        return Found(DiagnosisResult(AGREE, reason=reasons.ADDS_UP), case)
    if is_quantized(comparison.pair.pairing):
        selection = find_other_selection(comparison.outputs, comparison.goal)
        if selection is not None:
            return Unexplained(reasons.selection_differs(*selection))
        if comparison.pair.goal is not None:
            return Unexplained(reasons.quantization_alone(most))

        # Few diagnoses search sites, so import this module here.
        from polygraphy.application.diagnose.steps.quantization import explain_shared_loss

        found = explain_shared_loss(case, comparison)
        return found if found.result.culprits else Unexplained(found.result.reason)
    return Unexplained(reasons.NO_MODEL_DIFFERENCE)
