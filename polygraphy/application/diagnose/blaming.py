"""What is said of the places where a backend computes something else, and whether that helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values, noise_of
from polygraphy.application.diagnose.locating import Place
from polygraphy.application.diagnose.rewriting import guilty_passes
from polygraphy.application.diagnose.tracing import Trace
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.rounding import LARGE, deviation
from polygraphy.ports.diagnosing import SuspectedParty


def blamed(case: Case, party: SuspectedParty, place: Place, known: Trace) -> Culprit:
    """Return what is known of a place."""
    nodes = case.model.nodes
    names = [nodes[index].name for index in place.region]
    op = nodes[place.region[-1]].op
    measured = f"{place.tensor!r} {place.deviation.in_words()}"
    share = f"{place.deviation.count} of {np.size(known.values[place.tensor])} elements"
    if not place.fused:
        return Culprit(
            names, place.tensor, party.name, "kernel",
            evidence=[
                f"Alone, with nothing rewritten, on the inputs that {known.party.name} computed,"
                f" {measured} ({share}).",
            ],
            op=op,
        )  # fmt: skip
    with case.attempt(f"rewrites, {party.name}") as result:
        passes = guilty_passes(case, party, place, known)
        result.append(" and ".join(passes) or "None can be named.")
    evidence = [
        f"In the graph that {party.name} runs, {measured} ({share}).",
        f"Each of {some_of(names)} alone is right.",
    ]
    if place.explained:
        evidence.append("Rounding otherwise between them does the same.")
    return Culprit(
        names,
        place.tensor,
        party.name,
        "rounding" if place.explained else "rewrite",
        "+".join(passes) or None,
        evidence,
        op=op,
    )


def proven(case: Case, culprits: Sequence[Culprit], expected: Values, feed: Feed) -> list[Culprit]:
    """Apply the remedies, and see whether all outputs match then."""
    made = []
    with case.attempt("remedy") as result:
        for party in case.parties:
            own = [one for one in culprits if one.party == party.name]
            passes = list(
                dict.fromkeys(n for one in own if one.rewrite for n in one.rewrite.split("+"))
            )
            tried: dict[tuple[bool, tuple[str, ...]], float | None] = {}
            for plain, without in ((False, tuple(passes)), (True, ())):
                if own and party.rewrites and (plain or without):
                    how = {"plain": plain, "without": without}
                    tried[plain, without] = _left(case, party, feed, expected, **how)
            best = next((how for how, off in tried.items() if off is not None), None)
            for one in own:
                remedy = Remedy()
                evidence = [*one.evidence]
                if best is not None:
                    plain, without = best
                    off = tried[best] or 0.0
                    command = case.command(party, plain=plain, without=without, off=off)
                    remedy = Remedy(command, True)
                    what = " and ".join(without) or "all rewrites"
                    evidence.append(f"With only {what} switched off, all outputs match.")
                made.append(evolve(one, remedy=remedy, evidence=evidence))
            if tried:
                helps = "All outputs match" if best is not None else "They still differ"
                what = "all rewrites" if best is None or best[0] else "these"
                result.append(f"{helps} with {what} switched off.")
    return made


def _left(
    case: Case, party: SuspectedParty, feed: Feed, expected: Values, **how: Any
) -> float | None:
    """Return by how much the outputs differ at most where a party is run so that they match; None
    where they do not.
    """
    try:
        compute = case.loaded(party, **how)
        values = compute(feed)
        noise = noise_of(compute, feed, values)
    except REFUSALS:
        return None
    found = case.differing(values, expected, noise)
    if any(each.relative > LARGE and each.share >= 0.01 for each in found.values()):
        return None
    made = (deviation(values[name], expected[name]).largest for name in case.model.outputs)
    return max(filter(np.isfinite, made), default=0.0)


def some_of(names: Sequence[str]) -> str:
    """Return names in words, the first four of many."""
    shown = ", ".join(map(repr, names[:4]))
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
