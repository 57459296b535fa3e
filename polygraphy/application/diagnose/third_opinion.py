"""Who is wrong where two compute a node otherwise: a third decides, who computes it in another way.

Formulas in float64 are asked first, then the other backends of the diagnosis, then the onnx package
as it is, where the reference is another implementation, then other versions of the backend in
environments that were given: one that computes the node otherwise has other code, and only then
counts. Where none of them can tell, nobody is blamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.parts import Submodel, cut_part
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.wrong_nodes import SMALL, WrongNodes
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.diagnosis.words import evidence, remedies, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import Deviation, deviation
from polygraphy.ports.diagnosing import REFERENCE, SuspectedParty

_FORMULAS = "formulas"
_WORDS = {_FORMULAS: titles.FORMULAS, "package": titles.REFERENCE_EVALUATOR}
"""Names of the parties that only vote."""
_FAR = 10.0
"""Only one party is wrong if its error is this multiple of the other's. Chosen, not measured."""


@frozen
class Vote:
    """The opinion of a third backend on nodes that two backends compute differently.

    Attributes:
        is_party_wrong: whether the backend is wrong.
        is_reference_wrong: whether the reference is.
        juror: the independent implementation, in words; empty without one.
        off: the error of the reference.
    """

    is_party_wrong: bool = False
    is_reference_wrong: bool = False
    juror: str = ""
    off: Deviation | None = None


def vote(case: Case, finding: WrongNodes, party: SuspectedParty, trace: Trace) -> Vote:
    """Return a third backend's vote on nodes that two backends compute differently."""
    try:
        part = cut_part(case.model, finding.region, trace.all_values)
        computed_value = part.run(party, plain=True)[finding.tensor]
    except (PolygraphyException, KeyError):
        return Vote()
    for juror in _jurors(case, party, trace):
        try:
            expected = part.run(juror, plain=True)[finding.tensor]
        except (PolygraphyException, KeyError):
            continue
        words = _WORDS.get(juror.name, juror.name)
        ours, reference_vote = (
            deviation(value, expected, rtol=SMALL)
            for value in (trace.values[finding.tensor], computed_value)
        )
        if juror.name == _FORMULAS:
            is_reference = ours.is_wrong and ours.excess > reference_vote.excess / _FAR
            return Vote(reference_vote.is_wrong, is_reference, words, ours)
        if reference_vote.is_wrong and ours.is_wrong:
            continue  # This third opinion agrees with neither side, so it can be incorrect itself.
        return Vote(reference_vote.is_wrong, ours.is_wrong, words, ours)
    return _ask_versions(case, finding, party, trace, part, computed_value)


def _ask_versions(
    case: Case,
    finding: WrongNodes,
    party: SuspectedParty,
    trace: Trace,
    part: Submodel,
    value: Any,
) -> Vote:
    """Return the vote of other versions of a backend on part of a model.
    Versions with different results count as independent.
    """
    expected = trace.values[finding.tensor]
    for version, environment in case.versions.get(party.name, {}).items():
        try:
            versions = environment.run(part.model, part.feed, party.settings)[finding.tensor]
        except (PolygraphyException, KeyError):
            continue
        if (
            deviation(versions, value, rtol=SMALL).is_wrong
            and not deviation(expected, versions, rtol=SMALL).is_wrong
        ):
            words = f"{party.name} {version}"
            return Vote(True, False, words, deviation(expected, versions, rtol=SMALL))
    return Vote()


def _jurors(case: Case, party: SuspectedParty, trace: Trace) -> Iterator[SuspectedParty]:
    """Yield the backends that can compute nodes independently."""
    requested_names = {party.backend, trace.party.backend}
    yield resolve(SuspectedParty, _FORMULAS)
    for other_party in case.parties:
        if other_party.backend not in requested_names:
            requested_names.add(other_party.backend)
            yield other_party
    reference = resolve(SuspectedParty, REFERENCE)
    if reference.backend not in requested_names:
        yield reference
    yield resolve(SuspectedParty, "package")


def culprits_without_decision(
    case: Case, findings: Sequence[WrongNodes], party: SuspectedParty, trace: Trace
) -> list[Culprit]:
    """Return the nodes that a backend and the reference compute differently,
    with nothing to decide who is correct.
    """
    culprits = []
    for finding in findings:
        nodes = [case.model.nodes[index] for index in finding.region]
        both_names = trace.party.name, party.name
        facts = [
            evidence.parties_disagree(*both_names, finding.tensor, finding.deviation),
            evidence.nobody_decides(),
        ]
        text = f"{party.name} or {trace.party.name}"
        names = [node.label for node in nodes]
        culprit = Culprit(names, finding.tensor, text, "kernel", facts=facts, op=nodes[-1].operator)
        culprits.append(culprit)
    return culprits


def reference_culprits(
    case: Case, verdicts: Sequence[tuple[WrongNodes, Vote]], party: SuspectedParty, trace: Trace
) -> list[Culprit]:
    """Return the nodes that the reference computes incorrectly, proven by its outputs with the
    backend's values.
    """
    proven = _explains_outputs(case, [finding.tensor for finding, _ in verdicts], party, trace)
    name = trace.party.name
    culprits = []
    for finding, answer in verdicts:
        nodes = [case.model.nodes[index] for index in finding.region]
        op = nodes[-1].operator
        facts = [
            evidence.parties_disagree(name, party.name),
            evidence.reference_is_wrong(answer.juror, party.name, name, finding.tensor, answer.off),
        ]
        if proven:
            facts.append(evidence.reference_repaired(party.name, name))
        remedy = Remedy(None, proven, remedies.compare_elsewhere(op, name))
        nodes_named = [node.label for node in nodes]
        culprits.append(
            Culprit(nodes_named, finding.tensor, name, "reference", None, facts, remedy, op)
        )
    return culprits


def _explains_outputs(
    case: Case, tensors: Sequence[str], party: SuspectedParty, trace: Trace
) -> bool:
    """Return whether the reference reproduces a backend's outputs from the backend's values of some
    tensors.
    """
    compared = set(tensors)
    try:
        own_tensors = trace_tensors(case, party, trace.feed)
        reference_values, held_values = own_tensors.values, own_tensors.all_values
        other_indices = [
            i for i, node in enumerate(case.model.nodes) if not compared.intersection(node.makes)
        ]
        computed_values: Values = {}
        if other_indices:
            computed_values = cut_part(case.model, other_indices, held_values).run(trace.party)
        expected = case.load(party)(trace.feed)
    except (PolygraphyException, KeyError):
        return False
    values = {name: computed_values.get(name, reference_values.get(name)) for name in expected}
    return not any(
        difference.relative > SMALL
        for difference in case.find_deviations(values, expected).values()
    )
