"""Whether another version of the party at fault is right, in environments that are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.domain.diagnosis.culprit import NO_FAULT, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.versions import wrong_span
from polygraphy.domain.errors import FileError, PolygraphyException
from polygraphy.domain.rounding import LARGE
from polygraphy.domain.tensors.naming import counted
from polygraphy.ports.binding import Unbound, resolve
from polygraphy.ports.diagnosing import (
    REFERENCE,
    OtherEnvironment,
    OtherEnvironments,
    SuspectedParty,
)


def tried_elsewhere(case: Case, result: DiagnosisResult, paths: Sequence[str]) -> DiagnosisResult:
    """Run the whole model in other environments, and say which versions of the party at fault are
    right; where nothing else was proven to help, that version is the remedy.

    Args:
        case: what was diagnosed.
        result: what was found out.
        paths: interpreters, or folders of virtual environments.
    """
    blamed = {one.party for one in result.culprits if one.cause not in NO_FAULT}
    for party in case.parties:
        if party.name in blamed:
            result = _tried(case, result, party, paths)
            blamed.discard(party.name)
    if result.culprits and blamed:
        with case.attempt("environments") as said:
            said.append(f"Of no use: {' and '.join(sorted(blamed))} is to blame.")
    return result


def _tried(
    case: Case, result: DiagnosisResult, party: SuspectedParty, paths: Sequence[str]
) -> DiagnosisResult:
    try:
        environments = resolve(OtherEnvironments, party.name)
    except Unbound:
        with case.attempt(f"environments, {party.name}") as said:
            said.append("It cannot be run in other environments.")
        return result
    known: dict[str, OtherEnvironment] = {}
    for path in paths:
        opened = _opened(case, environments, path)
        if opened is not None:
            known.setdefault(opened.version, opened)
    with case.attempt(f"environments, {party.name}") as said:
        expected = case.expected if case.expected is not None else _right(case)
        if not known or expected is None:
            said.append("None can be tried.")
            return result
        here = environments.open(sys.executable).version
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

        span = wrong_span(list(known), here, is_right)
        said.append(f"{len(tried)} of {counted(len(known), 'version')} were run.")
        best = span.after or span.before
        evidence = [span.in_words()]
        evidence += [f"{version} cannot run it: {why}" for version, why in refusals.items()][:1]
        if best is not None:
            evidence.append(f"With only {party.name} {best} instead of {here}, all outputs match.")
        made = []
        for one in result.culprits:
            if one.party != party.name or one.cause in NO_FAULT:
                made.append(one)
                continue
            remedy = one.remedy
            if best is not None and not remedy.proven:
                remedy = Remedy(known[best].install, True)
            made.append(evolve(one, evidence=[*one.evidence, *evidence], remedy=remedy))
        return evolve(result, culprits=made)


def _opened(case: Case, environments: OtherEnvironments, path: str) -> OtherEnvironment | None:
    """Return an environment; None, which is said, where it is broken."""
    try:
        return environments.open(path)
    except (*REFUSALS, FileError) as error:
        with case.attempt("environment left out") as said:
            said.append(str(error))
        return None


def _right(case: Case) -> Values | None:
    """Return the outputs that are right on the data that show the fault."""
    for party in (resolve(SuspectedParty, REFERENCE), *case.parties):
        with suppress(*REFUSALS):
            return party.load(case.model.proto, plain=True)(case.feed)
    return None


def _match(case: Case, values: Values, expected: Values) -> bool:
    found = case.differing(values, expected)
    return all(each.relative <= LARGE or each.share < 0.01 for each in found.values())
