"""Steps: backends refuse the model."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.data import data_options
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.refusals import diagnose_refusals
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.facts import join_statements


def report_refusing_arbiter(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return a report that only the arbiter, which runs in addition to the backends, refuses the
    model.
    """
    last = len(case.parties) - 1
    if not runs.unexplained or [*runs.refusals] != [last]:
        return Skip("there is no additional arbiter, it runs the model, or others refuse it too")
    reason = join_statements(runs.unexplained, str(runs.refusals[last]))
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def explain_backend_refusals(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the refused nodes, and the faults of the backends that run the model."""
    if not runs.refusals:
        return Skip("no backend rejects the model")
    request = runs.request
    number = min(runs.refused_on.values())
    feed = request.feeds[number]
    options = data_options(case.model, request.data_loader, number, feed)
    case = evolve(case, feed=feed, data_options=options)
    feeds = [values for values in request.feeds if values is not feed]
    refused = diagnose_refusals(case, request.arbiter, runs.refusals, feed, feeds)
    if len(runs.outputs) < 2 or not runs.compared.differs:
        return refused
    result = runs.diagnose(runs.with_able_backends(case), request).result
    if result.verdict in (FAULT, ILL_CONDITIONED):
        culprits = [*refused.result.culprits, *result.culprits]
        return evolve(refused, result=evolve(result, culprits=culprits))
    if result.verdict == refused.result.verdict:  # Neither has a culprit, so show both reasons.
        reason = join_statements(refused.result.reason, result.reason)
        return evolve(refused, result=evolve(result, reason=reason))
    return refused
