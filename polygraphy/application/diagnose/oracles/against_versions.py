"""Expected results from other versions of the backends, if there is no other source."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.data import choose_feeds_for_parties
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.versions import (
    compare_versions,
    cover_versions,
    find_right_versions,
)
from polygraphy.domain.diagnosis.culprit import AGREE


def against_versions(case: Case, request: Request) -> StepOutcome:
    """Return the comparison of the only backend with its other versions, if there is no other
    oracle.
    """
    if request.versions is None or not request.compares_versions_first(case):
        return Skip("another comparison comes first, or there are no other versions")
    return compare_versions(case, request.versions, request.feeds)


def compare_other_versions(answer: Found, request: Request) -> Found:
    """Return the result, or "inconclusive" if it finds no fault but other versions of the backends
    give different results. If versions were the oracle, they are not compared again."""
    is_first = request.compares_versions_first(answer.case)
    if request.versions is None or is_first or answer.result.verdict != AGREE:
        return answer
    outcome = compare_versions(answer.case, request.versions, request.feeds)
    if not isinstance(outcome, Unexplained):
        return answer
    result = answer.case.evidence.qualify_result(answer.result, unexplained=outcome.why)
    return evolve(answer, result=result)


def add_right_versions(answer: Found, request: Request) -> Found:
    """Return the result with the correct versions of the backend at fault."""
    if request.versions is None:
        return answer
    result = find_right_versions(answer.case, request.versions, answer.result)
    return evolve(answer, result=result)


def add_open_versions(outcome: Found, request: Request) -> Found:
    """Return the result with the versions that differ or could not be compared."""
    if request.versions is None:
        return outcome
    case, feeds = outcome.case, request.feeds
    if not feeds:
        case_feeds = [case.feed] if case.feed else None
        feeds = case_feeds or choose_feeds_for_parties(case, request.data_loader)
    return evolve(outcome, result=cover_versions(case, request.versions, outcome.result, feeds))
