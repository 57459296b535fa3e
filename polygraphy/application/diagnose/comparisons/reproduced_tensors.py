"""Outputs that differ from saved ones although each node reproduces its saved tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.outcome import Found, StepOutcome, Unexplained
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.application.diagnose.wrong_nodes import cumulative_deviations
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons, tf32
from polygraphy.domain.rounding import LARGE


def explain_reproduced_tensors(
    case: Case, comparison: SavedComparison, in_tf32: Collection[str], tied: Mapping[str, str]
) -> StepOutcome:
    """Return the outcome if each node reproduces its saved tensors from the others:
    rounding adds up, or the results come from elsewhere.

    Args:
        case: the model.
        comparison: the saved results.
        in_tf32: tensors that were computed in TF32.
        tied: tensors that differ because a node selected another of equal elements, and this node.
    """
    if tied:
        reason = reasons.equal_elements([*tied.values()])
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    if in_tf32:
        return Found(DiagnosisResult(AGREE, reason=tf32.results_in_tf32(len(in_tf32))), case)
    if _matches_marked_outputs(case, comparison):
        return Found(DiagnosisResult(AGREE, reason=tf32.OTHER_SESSION), case)
    feeds = comparison.feeds[: len(comparison.matched.sets)]
    runs = {0: comparison.values, 1: comparison.matched.sets}
    if comparison.compared.largest_error > LARGE or not rounding_accumulates(case, feeds, runs):
        name, is_traced = case.parties[0].name, comparison.run.is_traced
        return Unexplained(reasons.follows_but_differs(name, is_traced))
    return Found(DiagnosisResult(AGREE, reason=reasons.ADDS_UP), case)


def _matches_marked_outputs(case: Case, comparison: SavedComparison) -> bool:
    """Return whether each differing output of the backend equals the one that was computed together
    with the saved tensors."""
    marked, outputs = comparison.marked_outputs, comparison.outputs
    differing = comparison.compared.sets[comparison.number].keys()
    if not differing or not differing <= marked.keys():
        return False
    pairs = {name: marked[name] for name in differing}
    return not any(off.is_wrong for off in cumulative_deviations(case, outputs, pairs).values())
