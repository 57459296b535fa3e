"""Step: the outputs of all backends match."""

from __future__ import annotations

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.closeness import (
    constant_outputs,
    describe_constant_outputs,
    is_broken,
)
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import reasons, titles


def report_matching_outputs(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return a report of matching outputs, and of constant ones among them."""
    if len(runs.outputs) > 1:
        case.record_comparison(titles.EACH_OTHER)
    if runs.compared.differs or runs.has_nan:
        return Skip("outputs differ, or are not numbers")
    values = next(iter(runs.outputs.values()))
    constant = describe_constant_outputs(constant_outputs(values, case.model.outputs))
    names = case.model.outputs
    infinite = [name for name in names if any(is_broken(feed.get(name)) for feed in values)]
    reason = join_statements(reasons.infinite_outputs(infinite), constant)
    return Found(DiagnosisResult(AGREE, reason=reason), case)
