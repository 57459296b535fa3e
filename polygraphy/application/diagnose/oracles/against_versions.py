"""Expected results from other versions of the backends, if there is no other source."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.data import choose_feeds_for_parties
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.oracles.between_backends import between_backends
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.versions import (
    VersionParty,
    cover_versions,
    find_differing_versions,
    find_right_versions,
    version_in_use,
)
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.versions import Span, version_key
from polygraphy.domain.diagnosis.words import evidence, reasons
from polygraphy.ports.diagnosing import SuspectedParty


def against_versions(case: Case, request: Request) -> StepOutcome:
    """Return the comparison of the only backend with its other versions,
    if there is no other oracle.
    """
    if request.versions is None or not request.compares_versions_first(case):
        return Skip("another comparison comes first, or there are no other versions")
    outcome, differing = find_differing_versions(case, request.versions, request.feeds)
    return _blame_versions(case, request, outcome, differing)


def compare_other_versions(answer: Found, request: Request) -> Found:
    """Return the result, or "inconclusive" if no fault was found but other versions disagree.
    These are versions of the backends. If versions were the oracle, they are not compared again."""
    is_first = request.compares_versions_first(answer.case)
    if request.versions is None or is_first or answer.result.verdict != AGREE:
        return answer
    if request.unexplained and not request.has_oracle:  # They were the oracle, and differ.
        outcome: StepOutcome = Unexplained(request.unexplained)
    else:
        outcome, differing = find_differing_versions(answer.case, request.versions, request.feeds)
        outcome = _blame_versions(answer.case, request, outcome, differing)
    if isinstance(outcome, Found):
        return evolve(answer, result=outcome.result)
    if not isinstance(outcome, Unexplained):
        return answer
    result = answer.case.evidence.qualify_result(answer.result, unexplained=outcome.why)
    return evolve(answer, result=result)


def _blame_versions(
    case: Case, request: Request, outcome: StepOutcome, differing: Sequence[VersionParty]
) -> StepOutcome:
    """Return the fault of versions that differ from the one in use,
    if the arbiter confirms that one; else the outcome of the comparison, with the arbiter's
    opinion.
    """
    if not isinstance(outcome, Unexplained):
        return outcome
    culprits: list[Culprit] = []
    for version in differing:
        if not _is_confirmed(case, request, version.party):
            return outcome
        parties: list[SuspectedParty] = [version, request.arbiter]
        own_request = evolve(request, versions=None, unexplained="")
        result = between_backends(evolve(case, parties=parties), own_request).result
        own_culprits = [culprit for culprit in result.culprits if culprit.party == version.name]
        if result.verdict == INCONCLUSIVE:
            confirmed = reasons.version_confirmed(
                request.arbiter.name,
                version.party.name,
                version_in_use(version.party),
                version.environment.version,
            )
            outcome = Unexplained(join_statements(outcome.why, confirmed))
        elif len(own_culprits) == len(result.culprits):
            culprits += [_with_right_version(version, culprit) for culprit in own_culprits]
    return Found(DiagnosisResult(FAULT, culprits), case) if culprits else outcome


def _is_confirmed(case: Case, request: Request, party: SuspectedParty) -> bool:
    """Return whether the arbiter, another backend, computes the outputs of a backend."""
    if party.backend == request.arbiter.backend:
        return False
    try:
        return not any(
            case.find_deviations(case.load(party)(feed), case.load(request.arbiter)(feed))
            for feed in request.feeds
        )
    except REFUSALS:
        return False


def _with_right_version(version: VersionParty, culprit: Culprit) -> Culprit:
    """Return the fault of a version, with the version in use as the remedy."""
    here, wrong = version_in_use(version.party), version.environment.version
    is_newer = version_key(here) > version_key(wrong)
    span = Span(wrong, wrong, None if is_newer else here, here if is_newer else None)
    facts = [
        *culprit.facts,
        evidence.versions_tried(span),
        evidence.other_version_matches(version.party.name, here, wrong),
    ]
    command = version.environment.install.replace(wrong, here)
    return evolve(culprit, facts=facts, remedy=Remedy(command, True))


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
