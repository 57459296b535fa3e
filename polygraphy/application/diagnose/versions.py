"""Comparison with other versions of the backend at fault, in given environments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.outcome import Skip, StepOutcome, Unexplained
from polygraphy.binding import UnboundPortError, function_for, resolve
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
    Compute,
    SuspectedParty,
)
from polygraphy.ports.editing import open_model
from polygraphy.ports.running import OtherEnvironment, open_environment


@frozen
class OtherVersions:
    """Environments with other versions of the backends of a case.

    Attributes:
        versions: the environments, by the name of a backend and its version there.
        paths: by backend, the versions and where they are.
        problems: by path, why it cannot be opened; empty if it can.
    """

    versions: Mapping[str, Mapping[str, OtherEnvironment]]
    paths: Mapping[str, Sequence[tuple[str, str]]]
    problems: Mapping[str, str]

    def describe_open(self, requested_values: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return the paths whose versions were not compared, each with the reason.

        Args:
            requested_values: the versions that were asked; see `Evidence`.
        """
        problems = dict(self.problems)
        for party, paths in self.paths.items():
            for version, path in paths:
                problem = requested_values.get(party, {}).get(version)
                if problem == "":
                    problems.pop(path, None)
                elif problem is not None and path in problems:
                    problems[path] = problem
        unknown = steps.NO_BACKEND_THERE if self.paths else steps.CANNOT_CHANGE_VERSION
        return [
            f"{path}: {why.replace(f'{path}: ', '') or unknown}".rstrip(".")
            for path, why in problems.items()
        ]


def open_versions(case: Case, paths: Sequence[str]) -> OtherVersions:
    """Return the environments with other versions of the backends.
    Broken ones are reported and skipped.

    Args:
        case: the model, the backends and the data to diagnose.
        paths: interpreters, or folders of virtual environments.

    Raises:
        FileError: none of them is there.
        BackendError: none of them has the backend.
    """
    versions: dict[str, dict[str, OtherEnvironment]] = {}
    environments_by_version: dict[str, list[tuple[str, str]]] = {}
    problems = dict.fromkeys(paths, "")
    errors: list[PolygraphyException] = []
    for party in case.parties:
        with suppress(UnboundPortError):
            open_ = function_for(open_environment, party.backend)
            opened = [(_open_environment(case, open_, path), path) for path in paths]
            environments = [
                (party, path)
                for party, path in opened
                if not isinstance(party, PolygraphyException)
            ]
            for error, path in opened:
                if isinstance(error, PolygraphyException):
                    errors.append(error)
                    problems[path] = problems[path] or str(error).removeprefix(f"{path}: ")
            versions[party.name] = {
                other_environment.version: other_environment
                for other_environment, _ in reversed(environments)
            }
            environments_by_version[party.name] = [
                (other_environment.version, path) for other_environment, path in environments
            ]
    if errors and not any(versions.values()):
        raise errors[0]
    return OtherVersions(versions, environments_by_version, problems)


def _open_environment(
    case: Case, open_: Callable[[str], OtherEnvironment], path: str
) -> OtherEnvironment | PolygraphyException:
    """Return an environment, or the error, which is reported, if it is broken."""
    try:
        return open_(path)
    except (*REFUSALS, FileError) as error:
        with case.record_step(titles.SKIPPED_ENVIRONMENT) as notes:
            notes.append(str(error))
        return error


class VersionParty:
    """Another version of a backend, as a party that may be at fault."""

    passes: Sequence[str] = ()
    levels: Sequence[str] = ()

    def __init__(self, party: SuspectedParty, environment: OtherEnvironment) -> None:
        """Set the backend, and the environment with the other version."""
        self.party = party
        self.environment = environment
        self.name = f"{party.name} {environment.version}"
        self.backend = party.backend
        self.settings = party.settings
        self.rewrites = party.rewrites and environment.saves_graph
        self.options: Mapping[str, Any] = {}

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return a function that runs a model in the other environment; see the port."""
        proto = model if hasattr(model, "graph") else open_model(model).proto
        settings = {**self.settings, "plain": True} if plain and self.rewrites else self.settings
        return lambda feed: self.environment.run(proto, feed, settings)

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph that the other environment executes; None if it does not save it."""
        return self.environment.runtime_graph(model, self.settings)

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        """Return no options."""
        return {}


def compare_versions(case: Case, environments: OtherVersions, feeds: Sequence[Feed]) -> StepOutcome:
    """Return the comparison of each backend with its other versions."""
    return find_differing_versions(case, environments, feeds)[0]


def find_differing_versions(
    case: Case, environments: OtherVersions, feeds: Sequence[Feed]
) -> tuple[StepOutcome, list[VersionParty]]:
    """Return the comparison of each backend with its other versions, and those that differ."""
    outcome: StepOutcome = Skip("no version differs")
    differing: list[VersionParty] = []
    is_single = len(case.parties) == 1
    for party in case.parties:
        title = titles.OTHER_VERSIONS if is_single else titles.other_versions(party.name)
        if party.name not in environments.versions:
            case.record_version(party.name)
            with case.record_step(title) as notes:
                notes.append(steps.CANNOT_CHANGE_VERSION)
            continue
        version = environments.versions[party.name]
        answer, names = _compare_party(case, party, version, feeds, title)
        outcome = answer if isinstance(answer, Unexplained) else outcome
        differing += [VersionParty(_in_float32(party), version[name]) for name in names]
    return outcome, differing


def _in_float32(party: SuspectedParty) -> SuspectedParty:
    """Return a backend that computes in float32."""
    return party if getattr(party, "lowers_to", None) is None else party.in_float32()  # type: ignore[attr-defined]


def _compare_party(
    case: Case,
    party: SuspectedParty,
    known_environments: Mapping[str, OtherEnvironment],
    feeds: Sequence[Feed],
    title: str,
) -> tuple[StepOutcome, list[str]]:
    """Return the comparison of a backend with its other versions, and those that differ."""
    version_here = version_in_use(party) if known_environments else ""
    case.record_version(party.name)
    if version_here in known_environments:
        case.record_version(
            party.name, version_here, reasons.same_version(party.name, version_here)
        )
    other_environments = {
        version: known_environments[version]
        for version in known_environments
        if version != version_here
    }
    if not other_environments:
        with case.record_step(title) as notes:
            notes.append(
                steps.no_other_version(version_here) if version_here else steps.NO_BACKEND_THERE
            )
        return Skip("no other version"), []
    party = _in_float32(party)
    with case.record_step(title) as notes:
        try:
            own_feeds = [case.load(party)(feed) for feed in feeds]
        except REFUSALS:
            answer = _compare_refusals(case, party, other_environments, feeds, version_here)
            notes.append(answer.why)
            return answer, []
        alike: list[str] = []
        differing: list[str] = []
        first: dict[str, Values] = {}
        for version, environment in other_environments.items():
            try:
                values = [environment.run(case.model.proto, f, party.settings) for f in feeds]
            except (*REFUSALS, PolygraphyException) as error:
                refused = reasons.version_refuses(party.name, version, error)
                case.record_comparison(titles.OTHER_VERSIONS, [refused])
                case.record_version(party.name, version, refused)
                continue
            case.record_version(party.name, version)
            case.record_comparison(titles.OTHER_VERSIONS)
            differs = any(
                case.find_deviations(values, value) for values, value in zip(own_feeds, values)
            )
            (differing if differs else alike).append(version)
            first[version] = values[0]
        if alike:
            notes.append(steps.same_as_versions(version_here, alike))
        if differing:
            computed = [own_feeds[0], *(first[version] for version in differing)]
            errors = [_largest_error(case, values) for values in computed]
            known = errors if case.expected is not None and case.feed is feeds[0] else ()
            reason = reasons.versions_differ(party.name, version_here, differing, known)
            notes.append(reason)
            return Unexplained(reason), differing
    return Skip("no version differs"), []


def _compare_refusals(
    case: Case,
    party: SuspectedParty,
    environments: Mapping[str, OtherEnvironment],
    feeds: Sequence[Feed],
    version_here: str,
) -> Skip | Unexplained:
    """Return which other versions of a backend run a model that the version here rejects."""
    running: list[str] = []
    for version, environment in environments.items():
        with suppress(*REFUSALS, PolygraphyException):
            for feed in feeds:
                environment.run(case.model.proto, feed, party.settings)
            running.append(version)
        case.record_version(party.name, version)
    if not running:
        return Skip(steps.rejected_by_versions(version_here, list(environments)))
    return Unexplained(reasons.versions_run_it(party.name, version_here, running))


def _largest_error(case: Case, values: Values) -> float:
    """Return the largest difference of outputs from the correct ones; 0 if these are unknown."""
    known = case.expected or {}
    names = [name for name in values if name in known]
    return max(
        (case.deviation(name, values[name], known[name]).largest for name in names), default=0.0
    )


def find_right_versions(
    case: Case, environments: OtherVersions, result: DiagnosisResult
) -> DiagnosisResult:
    """Return a fault with the correct versions of the backend at fault, from running the model in
    other environments; such a version is the remedy if no other is verified.
    """
    blamed = {culprit.party for culprit in result.culprits if culprit.cause not in NO_FAULT}
    for party in case.parties if result.verdict == FAULT else ():
        if party.name in blamed:
            version = environments.versions.get(party.name)
            result = _run_versions(case, result, party, version)
            blamed.discard(party.name)
    return result


def cover_versions(
    case: Case, environments: OtherVersions, result: DiagnosisResult, feeds: Sequence[Feed]
) -> DiagnosisResult:
    """Return a result that covers other versions.
    They are compared now if they were not, and no other difference was found; a version that
    cannot run makes the result inconclusive."""
    blamed = {culprit.party for culprit in result.culprits if culprit.cause not in NO_FAULT}
    is_tried = result.verdict == FAULT and not blamed.isdisjoint(environments.versions)
    if not case.evidence.versions and not is_tried:
        answer = compare_versions(case, environments, feeds)
        if isinstance(answer, Unexplained):
            verdict = INCONCLUSIVE if result.verdict == AGREE else result.verdict
            reason = join_statements(answer.why, result.reason)
            result = evolve(result, verdict=verdict, reason=reason)
    left_out = environments.describe_open(case.evidence.versions)
    if not left_out or is_tried:
        return result
    open_question = reasons.versions_not_compared(left_out)
    if result.verdict == FAULT:
        with case.record_step(titles.SKIPPED_ENVIRONMENT) as notes:
            notes.append(open_question)
        return result
    reason = join_statements(open_question, result.reason)
    return evolve(result, verdict=INCONCLUSIVE, reason=reason)


def version_in_use(party: SuspectedParty) -> str:
    """Return the version of a backend in this environment."""
    return function_for(open_environment, party.backend)(sys.executable).version


def _run_versions(
    case: Case,
    result: DiagnosisResult,
    party: SuspectedParty,
    known_environments: Mapping[str, OtherEnvironment] | None,
) -> DiagnosisResult:
    """Return the diagnosis with the incorrect versions of a backend;
    a correct version is the remedy."""
    with case.record_step(f"environments, {party.name}") as notes:
        if known_environments is None:
            notes.append(steps.CANNOT_CHANGE_VERSION)
            return result
        expected = case.expected if case.expected is not None else _correct_outputs(case)
        if not known_environments or expected is None:
            notes.append(steps.NO_ENVIRONMENT)
            return result
        version_here = version_in_use(party)
        if known_environments.keys() <= {version_here}:
            notes.append(steps.only_version(version_here))
            return result
        refusals: dict[str, str] = {}
        tried: dict[str, bool] = {}

        def is_correct(version: str) -> bool:
            """Return whether a version computes the expected outputs."""
            if version not in tried:
                try:
                    values = known_environments[version].run(
                        case.model.proto, case.feed, party.settings
                    )
                    tried[version] = _matches_expected(case, values, expected)
                except (*REFUSALS, PolygraphyException) as error:
                    refusals[version], tried[version] = str(error), False
            return tried[version]

        versions = list(known_environments)
        span = wrong_span(versions, version_here, is_correct)
        is_refused = any(culprit.cause == "refusal" for culprit in result.culprits)
        # A version that rejects the model does not count as incorrect.
        while not is_refused and not refusals.keys().isdisjoint(versions):
            versions = [version for version in versions if version not in refusals]
            span = wrong_span(versions, version_here, is_correct)
        notes.append(steps.versions_run(len(tried), len(known_environments)))
        best = span.after or span.before
        facts = [evidence.versions_tried(span)]
        facts += [evidence.version_refuses(*refusal) for refusal in refusals.items()][:1]
        if best is not None:
            facts.append(evidence.other_version_matches(party.name, best, version_here))
        culprits = []
        for culprit in result.culprits:
            if culprit.party != party.name or culprit.cause in NO_FAULT:
                culprits.append(culprit)
                continue
            remedy = culprit.remedy
            if best is not None and not remedy.proven:
                remedy = Remedy(known_environments[best].install, True)
            culprits.append(evolve(culprit, facts=[*culprit.facts, *facts], remedy=remedy))
        return evolve(result, culprits=culprits)


def _correct_outputs(case: Case) -> Values | None:
    """Return the correct outputs on the data that show the fault; None if unknown."""
    for party in (resolve(SuspectedParty, REFERENCE), *case.parties):
        with suppress(*REFUSALS):
            return party.load(case.model.proto, plain=True)(case.feed)
    return None


def _matches_expected(case: Case, values: Values, expected: Values) -> bool:
    """Return whether each output matches, has small errors, or differs in under 1% of elements."""
    differing = case.find_deviations(values, expected)
    return all(
        deviation.relative <= LARGE or deviation.share < 0.01 for deviation in differing.values()
    )
