"""Whether another version of the party at fault is right, in environments that are there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Skip, StepOutcome, Unexplained
from polygraphy.binding import Unbound, bound_function, resolve
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    NO_FAULT,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.versions import wrong_span
from polygraphy.domain.diagnosis.words import evidence, reasons, steps, titles
from polygraphy.domain.errors import FileError, PolygraphyException
from polygraphy.domain.rounding import LARGE
from polygraphy.ports.diagnosing import (
    REFERENCE,
    OtherEnvironment,
    SuspectedParty,
    open_environment,
)


def against_versions(case: Case, request: Request) -> StepOutcome:
    """Return the comparison of the only backend with its other versions, if there is no other
    oracle.
    """
    if request.elsewhere is None or not request.compares_versions_first(case):
        return Skip("something else is right, or there are no other versions")
    return request.elsewhere.compare(case, request.feeds)


class Elsewhere:
    """Environments with other versions of the backends of a case."""

    def __init__(self, case: Case, paths: Sequence[str]) -> None:
        """Open them; one that is broken is left out, which is said.

        Args:
            case: what is diagnosed.
            paths: interpreters, or folders of virtual environments.

        Raises:
            FileError: none of them is there.
            BackendError: none of them has the backend.
        """
        self._known: dict[str, dict[str, OtherEnvironment]] = {}
        self._paths: dict[str, list[tuple[str, str]]] = {}
        self._open: dict[str, str] = dict.fromkeys(paths, "")
        self._is_compared = False
        errors: list[PolygraphyException] = []
        for party in case.parties:
            with suppress(Unbound):
                open_ = bound_function(open_environment, party.backend)
                opened = [self._open_environment(case, open_, path, errors) for path in paths]
                known = {one.version: one for one in reversed(opened) if one is not None}
                self._known[party.name] = known
                self._paths[party.name] = [
                    (one.version, path) for one, path in zip(opened, paths) if one is not None
                ]
        if errors and not any(self._known.values()):
            raise errors[0]

    def _open_environment(
        self,
        case: Case,
        open_: Callable[[str], OtherEnvironment],
        path: str,
        errors: list[PolygraphyException],
    ) -> OtherEnvironment | None:
        """Return an environment; None if it is broken, which is reported once."""
        try:
            return open_(path)
        except (*REFUSALS, FileError) as error:
            errors.append(error)
            self._open[path] = self._open[path] or str(error).removeprefix(f"{path}: ")
            with case.attempt(titles.SKIPPED_ENVIRONMENT) as said:
                said.append(str(error))
            return None

    def _answer(self, party: SuspectedParty, version: str, problem: str = "") -> None:
        """Note that a version of a party was compared, or the problem with it, in all environments
        that have it.
        """
        for other, path in self._paths.get(party.name, ()):
            if other == version and not problem:
                self._open.pop(path, None)
            elif other == version and path in self._open:
                self._open[path] = problem

    @property
    def versions(self) -> Mapping[str, Mapping[str, OtherEnvironment]]:
        """The environments, by the name of a backend and its version there."""
        return self._known

    def compare(self, case: Case, feeds: Sequence[Feed]) -> StepOutcome:
        """Return the comparison of each backend with its other versions."""
        outcome: StepOutcome = Skip("no version differs")
        self._is_compared = True
        is_single = len(case.parties) == 1
        for party in case.parties:
            title = titles.OTHER_VERSIONS if is_single else titles.other_versions(party.name)
            answer = self._compare(case, party, feeds, title)
            outcome = answer if isinstance(answer, Unexplained) else outcome
        return outcome

    def _compare(
        self, case: Case, party: SuspectedParty, feeds: Sequence[Feed], title: str
    ) -> StepOutcome:
        known = self._known.get(party.name, {})
        here = _version_here(party) if known else ""
        if here in known:
            self._answer(party, here, reasons.same_version(party.name, here))
        others = {version: known[version] for version in known if version != here}
        if not others:
            with case.attempt(title) as said:
                said.append(steps.no_other_version(here) if here else steps.NO_BACKEND_THERE)
            return Skip("no other version")
        if getattr(party, "lowers_to", None) is not None:
            party = party.in_float32()  # type: ignore[attr-defined]
        with case.attempt(title) as said:
            try:
                own = [case.loaded(party)(feed) for feed in feeds]
            except REFUSALS as error:
                return Skip(str(error))
            alike: list[str] = []
            differing: list[str] = []
            for version, environment in others.items():
                try:
                    made = [environment.run(case.model.proto, f, party.settings) for f in feeds]
                except (*REFUSALS, PolygraphyException) as error:
                    refused = reasons.version_refuses(party.name, version, error)
                    case.record_comparison(titles.OTHER_VERSIONS, [refused])
                    self._answer(party, version, refused)
                    continue
                self._answer(party, version)
                case.record_comparison(titles.OTHER_VERSIONS)
                differs = any(case.differing(one, other) for one, other in zip(own, made))
                (differing if differs else alike).append(version)
            if alike:
                said.append(steps.same_as_versions(here, alike))
            if differing:
                reason = reasons.versions_differ(party.name, here, differing)
                said.append(reason)
                return Unexplained(reason)
        return Skip("no version differs")

    def tried(self, case: Case, result: DiagnosisResult) -> DiagnosisResult:
        """Return the result with the correct versions of the backend at fault, from running the
        model in other environments; such a version is the remedy if no other is verified.

        Args:
            case: what was diagnosed.
            result: what was found out.
        """
        if result.verdict != FAULT:
            return result
        blamed = {one.party for one in result.culprits if one.cause not in NO_FAULT}
        for party in case.parties:
            if party.name in blamed:
                result = _run_versions(case, result, party, self._known.get(party.name))
                blamed.discard(party.name)
        return result

    def complete(
        self, case: Case, result: DiagnosisResult, feeds: Sequence[Feed]
    ) -> DiagnosisResult:
        """Return a result that covers other versions: they are compared now if no other difference
        was found; one that cannot run leaves the result open.

        Args:
            case: what was diagnosed.
            result: what was found out.
            feeds: the data.
        """
        blamed = {one.party for one in result.culprits if one.cause not in NO_FAULT}
        is_tried = result.verdict == FAULT and not blamed.isdisjoint(self._known)
        if not self._is_compared and not is_tried:
            versions = self.compare(case, feeds)
            if isinstance(versions, Unexplained):
                verdict = INCONCLUSIVE if result.verdict == AGREE else result.verdict
                reason = join_statements(versions.why, result.reason)
                result = evolve(result, verdict=verdict, reason=reason)
        if result.verdict != AGREE or not self._open:
            return result
        left_out = [
            f"{path}: {why or steps.NO_BACKEND_THERE}".rstrip(".")
            for path, why in self._open.items()
        ]
        reason = join_statements(reasons.versions_not_compared(left_out), result.reason)
        return evolve(result, verdict=INCONCLUSIVE, reason=reason)


def _version_here(party: SuspectedParty) -> str:
    """Return the version of a backend in this environment."""
    return bound_function(open_environment, party.backend)(sys.executable).version


def _run_versions(
    case: Case,
    result: DiagnosisResult,
    party: SuspectedParty,
    known: Mapping[str, OtherEnvironment] | None,
) -> DiagnosisResult:
    with case.attempt(f"environments, {party.name}") as said:
        if known is None:
            said.append(steps.CANNOT_CHANGE_VERSION)
            return result
        expected = case.expected if case.expected is not None else _correct_outputs(case)
        if not known or expected is None:
            said.append(steps.NO_ENVIRONMENT)
            return result
        here = _version_here(party)
        if known.keys() <= {here}:
            said.append(steps.only_version(here))
            return result
        refusals: dict[str, str] = {}
        tried: dict[str, bool] = {}

        def is_right(version: str) -> bool:
            if version not in tried:
                try:
                    values = known[version].run(case.model.proto, case.feed, party.settings)
                    tried[version] = _match(case, values, expected)
                except (*REFUSALS, PolygraphyException) as error:
                    refusals[version], tried[version] = str(error), False
            return tried[version]

        asked = list(known)
        span = wrong_span(asked, here, is_right)
        is_refused = any(one.cause == "refusal" for one in result.culprits)
        while not is_refused and not refusals.keys().isdisjoint(asked):  # They are not wrong.
            asked = [version for version in asked if version not in refusals]
            span = wrong_span(asked, here, is_right)
        said.append(steps.versions_run(len(tried), len(known)))
        best = span.after or span.before
        facts = [evidence.versions_tried(span)]
        facts += [evidence.version_refuses(*refusal) for refusal in refusals.items()][:1]
        if best is not None:
            facts.append(evidence.other_version_matches(party.name, best, here))
        made = []
        for one in result.culprits:
            if one.party != party.name or one.cause in NO_FAULT:
                made.append(one)
                continue
            remedy = one.remedy
            if best is not None and not remedy.proven:
                remedy = Remedy(known[best].install, True)
            made.append(evolve(one, facts=[*one.facts, *facts], remedy=remedy))
        return evolve(result, culprits=made)


def _correct_outputs(case: Case) -> Values | None:
    """Return the correct outputs on the data that show the fault; None if unknown."""
    for party in (resolve(SuspectedParty, REFERENCE), *case.parties):
        with suppress(*REFUSALS):
            return party.load(case.model.proto, plain=True)(case.feed)
    return None


def _match(case: Case, values: Values, expected: Values) -> bool:
    """Return whether each output matches, has small errors, or differs in less than 1 % of its
    elements.
    """
    found = case.differing(values, expected)
    return all(each.relative <= LARGE or each.share < 0.01 for each in found.values())
