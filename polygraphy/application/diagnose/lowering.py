"""Finds the nodes that a backend must not compute in half precision, and shows that it works then.

What each node loses alone is measured where every operator rounds, which says why; whether it helps
to keep nodes in float32 is tried on what the backend builds of the whole model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.data import feeds_of_half
from polygraphy.application.diagnose.half import (
    FEWER_MAY_DO,
    HalfPrecision,
    Trial,
    casting,
    tolerance_for,
)
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.headroom import NodeLoss, Range
from polygraphy.domain.diagnosis.regions import GraphNode, around
from polygraphy.domain.tensors.facts import Facts
from polygraphy.ports.diagnosing import LoweringParty, NarrowModel, NarrowModels, SuspectedParty

Feed = Mapping[str, Any]
Values = dict[str, Any]

_MOST_HOPS = 2
"""How far from a node those are that a backend may join with it."""


class _BuiltModel:
    """A model that a backend builds in half precision; implements the port `NarrowModel`."""

    def __init__(self, case: Case, party: LoweringParty, measured: NarrowModel) -> None:
        self._case = case
        self._party = party
        self._measured = measured
        self._built: tuple[tuple[str, ...], Any] | None = None
        self.builds = 0
        self.inputs = measured.inputs
        self.nodes = measured.nodes
        self.users = measured.users

    def run(self, feed: Feed, keep: Collection[str] = ()) -> dict[str, np.ndarray[Any, Any]]:
        """Run what the backend builds; the last build is kept."""
        key = tuple(name for name in self.nodes if name in set(keep))
        if self._built is None or self._built[0] != key:
            self._built = None  # Its memory is free before the next one is built.
            proto = self._case.model.proto
            if len(key) == len(self.nodes):
                self._built = key, self._party.load(proto, plain=True)
            else:
                self._built = key, self._party.load_keeping(proto, key)
            self.builds += 1
        made: dict[str, np.ndarray[Any, Any]] = self._built[1](feed)
        return made

    def facts(self) -> Facts:
        return self._measured.facts()

    def rounded(self, feed: Feed) -> dict[str, np.ndarray[Any, Any]]:
        """Return what rounding alone makes of the outputs; not by the backend."""
        return self._measured.rounded(feed)

    def measure(self, feed: Feed) -> tuple[dict[str, np.ndarray[Any, Any]], list[NodeLoss]]:
        return self._measured.measure(feed)


def _with_neighbours(
    nodes: Sequence[GraphNode], kept: Collection[str], castable: Collection[str], hops: int
) -> list[str]:
    """Return nodes with those that are so many steps away, of those that can be cast."""
    near = set(kept)
    places = [index for index, node in enumerate(nodes) if node.name in near]
    near |= {nodes[index].name for index in around(nodes, places, hops)}
    return [name for name in castable if name in near]


def lowering_party(parties: Sequence[SuspectedParty]) -> LoweringParty | None:
    """Return the party that computes in half precision, if one does."""
    for party in parties:
        if getattr(party, "lowers_to", None):
            return party  # type: ignore[return-value]
    return None


def of_lowering(case: Case, party: LoweringParty, data_loader: Any) -> DiagnosisResult:
    """Find out whether a backend may compute a model in half precision."""
    entry = casting(party.lowers_to or "")
    proto = case.model.proto
    measured = resolve(NarrowModels).open(proto, entry)
    tolerance = tolerance_for(entry, measured.facts())
    feeds = feeds_of_half(measured, data_loader)
    others = [each for each in case.parties if each is not party]
    reference = others[0] if others else resolve(SuspectedParty, "onnxrt")
    built = _BuiltModel(case, party, measured)
    with case.attempt(f"{party.lowers_to}, {party.name}") as said:
        compute = reference.load(proto)
        exact = [compute(feed) for feed in feeds]
        errors = [tolerance.error(e, built.run(feed)) for e, feed in zip(exact, feeds)]
        worst = max(errors, key=lambda error: error.excess)
        said.append(f"{'Good enough' if worst.is_tolerable else 'Off'}: {worst}.")
    if worst.is_tolerable:
        return DiagnosisResult(AGREE)
    with case.attempt(f"float32, {party.name}") as said:
        plain = party.load(proto, plain=True)
        errors = [tolerance.error(e, plain(feed)) for e, feed in zip(exact, feeds)]
        is_lowering = all(error.is_tolerable for error in errors)
        said.append("Matches." if is_lowering else "Is off as well: it is not the precision.")
        del plain
    if not is_lowering:
        return DiagnosisResult(
            INCONCLUSIVE, reason=f"{party.name} is wrong in float32 as well: diagnose it so first."
        )
    with case.attempt("nodes that stay in float32") as said:
        try:
            # Why nodes lose too much is seen where every operator rounds, so those that do there
            # are asked first; a backend that joins nodes may need their neighbours as well.
            found = Trial(measured, tolerance, feeds).result(Range.of(entry), entry)
            after = worst
            for hops in range(_MOST_HOPS + 1) if found.verdict == FAULT else ():
                kept = _with_neighbours(case.model.nodes, found.kept, built.nodes, hops)
                errors = [tolerance.error(e, built.run(f, kept)) for e, f in zip(exact, feeds)]
                after = max(errors, key=lambda error: error.excess)
                if after.is_tolerable:
                    found = evolve(found, before=worst, after=after, kept=kept)
                    break
            if not after.is_tolerable:
                found = Trial(built, tolerance, feeds).result(Range.of(entry), entry)
        except REFUSALS as error:
            return DiagnosisResult(INCONCLUSIVE, reason=str(error))
        said.append(f"{len(found.kept)} of {len(built.nodes)}, after {built.builds} builds.")
    return _result(case, party, found)


def _result(case: Case, party: LoweringParty, found: HalfPrecision) -> DiagnosisResult:
    """Return what was found, with the remedy that was tried."""
    if found.verdict == "ill-conditioned":
        return DiagnosisResult(
            ILL_CONDITIONED, reason="Rounding the inputs alone changes the outputs as much."
        )
    if found.verdict == "agree":
        return DiagnosisResult(AGREE, reason="What differs is rounding that adds up.")
    if found.verdict != "fault":
        return DiagnosisResult(
            INCONCLUSIVE, reason="No set of nodes in float32 makes the outputs good enough."
        )
    proto = case.model.proto
    command = party.remedy_keeping(case.path, proto, found.kept) if found.kept else None
    remedy = Remedy(command, found.after.is_tolerable and command is not None)
    culprits = [
        Culprit(
            list(one.nodes),
            one.fault.tensor,
            party.name,
            one.fault.cause,
            evidence=[
                f"{one.fault.evidence}.",
                f"With {', '.join(map(repr, found.kept))} in float32, all outputs match:"
                f" {found.after}, before {found.before}."
                + ("" if found.is_fewest else f" {FEWER_MAY_DO}"),
            ],
            remedy=remedy,
            op=one.op,
        )
        for one in found.culprits
    ]
    return DiagnosisResult(FAULT, culprits)
