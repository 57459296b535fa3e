"""Step: a tool converted the file to half precision, or quantized it, after its export."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import pair_models
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.steps.file_of_program import explain_by_file
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import AGREE, Culprit, Remedy
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.pairing import is_quantized
from polygraphy.domain.diagnosis.words import reasons, remedies

_EXPORT = "EXPORTED.onnx"
"""Stands for the export, which is no file, in command lines."""


def explain_by_conversion(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the outcome of comparing a converted file with a correct export of its program."""
    again = comparison.again
    if again is None:
        return Skip("the program cannot be exported correctly")
    pair = pair_models(case, again.model, _EXPORT, comparison.arbiter, comparison.diagnose_pair)
    is_half = pair.pairing.model.narrow in HALF
    if not is_half and not is_quantized(pair.pairing):
        return Skip("the file has the precision of the export")
    outcome = pair.diagnose(case, pair, comparison.feeds)
    if not isinstance(outcome, Found):
        return outcome
    result = outcome.result
    if is_half and result.verdict != AGREE:
        of_file = explain_by_file(case, comparison)
        if isinstance(of_file, Found):
            return of_file
    reason = result.reason
    if _EXPORT in reason:
        reason = join_statements(reason, reasons.stands_for_export(_EXPORT))
    culprits = [_advise_on_export(culprit) for culprit in result.culprits]
    return evolve(outcome, result=evolve(result, reason=reason, culprits=culprits))


def _advise_on_export(culprit: Culprit) -> Culprit:
    """Return a culprit; a command that reads the export is advice,
    because the export is no file."""
    command = culprit.remedy.command
    if not command or _EXPORT not in command:
        return culprit
    return evolve(culprit, remedy=Remedy(None, False, remedies.run_on_export(_EXPORT, command)))
