"""Culprits in a backend: causes, evidence, and whether a remedy works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values, rounding_noise
from polygraphy.application.diagnose.parts import Submodel, cut_part, feed_part
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.application.diagnose.wrong_nodes import WrongNodes
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import evidence, reasons, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.regions import nodes_around
from polygraphy.domain.rounding import LARGE, deviation
from polygraphy.domain.search.subsets import healing_alone, healing_passes
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import open_model

_HOPS = (1, 2, 4, 8)
"""Distances in nodes around a region up to which nodes are added to a part: a rewrite may need its
neighbors."""
_SMALL = 60
"""Largest number of nodes of a part in which every rewrite is tried by itself."""
_HEALED = 0.1
"""A rewrite is at fault if at most this share of a part's error remains without it. Chosen, not
measured."""

Wrong = Callable[[Sequence[str]], float]
"""Returns the error of a part without some rewrites, as a multiple of the rounding limit; infinite
if it is refused."""


def culprit_at(
    case: Case,
    party: SuspectedParty,
    finding: WrongNodes,
    trace: Trace,
    likely_rewrites: Sequence[str] = (),
) -> Culprit:
    """Return the culprit for nodes that a backend computes incorrectly, with cause and evidence.

    Args:
        case: the model, the backends and the data to diagnose.
        party: the backend.
        finding: the incorrect nodes.
        trace: the expected tensors.
        likely_rewrites: rewrites to try first; names of rewrites that belong together are joined by
            ``+``.
    """
    nodes = case.model.nodes
    names = _names_of_nodes(case, finding, trace)
    op = nodes[finding.region[-1]].operator
    size = int(np.size(trace.values[finding.tensor]))
    if not finding.fused:
        return Culprit(
            names, finding.tensor, party.name, "kernel",
            facts=[
                evidence.wrong_by_itself(
                    finding.tensor, finding.deviation, size, party.name, trace.party.name
                )
            ],
            op=op,
        )  # fmt: skip
    passes: list[str] = []
    if party.passes:
        with case.record_step(titles.rewrites(party.name)) as result:
            passes = guilty_passes(case, party, finding, trace, likely_rewrites)
            result.append(" and ".join(passes) or steps.NO_REWRITE)
    facts = [
        evidence.wrong_in_graph(finding.tensor, finding.deviation, size, party.name),
        evidence.nodes_are_right(names),
    ]
    if finding.explained:
        facts.append(evidence.rounding_has_same_effect())
    return Culprit(
        names,
        finding.tensor,
        party.name,
        "rounding" if finding.explained else "rewrite",
        "+".join(passes) or None,
        facts,
        op=op,
    )


def _names_of_nodes(case: Case, finding: WrongNodes, trace: Trace) -> list[str]:
    """Return the names of the incorrect nodes, except those that only compute shapes or indices for
    a float tensor, which no rewrite changes."""
    nodes = [case.model.nodes[index] for index in finding.region]
    names = [node.label for node in nodes]
    if len(nodes) == 1 or not is_float(trace.values[finding.tensor]):
        return names
    indices = {
        node.label
        for node in nodes
        if all(np.asarray(trace.values.get(name, 0.0)).dtype == np.int64 for name in node.makes)
    }
    return [name for name in names if name not in indices] or names


def prove_remedies(
    case: Case, culprits: Sequence[Culprit], pairs: Sequence[tuple[Feed, Values]]
) -> list[Culprit]:
    """Return the culprits with remedies marked as proven if all outputs match with them.

    Args:
        case: the model, the backends and the data to diagnose.
        culprits: the culprits.
        pairs: all input sets with the correct outputs; sets with wrong outputs come first.
    """
    remedies = []
    with case.record_step("remedy") as result:
        for party in case.parties:
            own_culprits = [culprit for culprit in culprits if culprit.party == party.name]
            passes = list(
                dict.fromkeys(
                    n
                    for culprit in own_culprits
                    if culprit.rewrite
                    for n in culprit.rewrite.split("+")
                )
            )
            settings = [(False, tuple(passes))] if passes else []
            settings = [*settings, (True, ())] if own_culprits and party.rewrites else []
            best, off = None, None
            for plain, without in settings:
                off = _largest_error(case, party, pairs, plain=plain, without=without)
                if off is not None:
                    best = plain, without
                    break
            for culprit in own_culprits:
                remedy = Remedy()
                facts = [*culprit.facts]
                if best is not None:
                    plain, without = best
                    command = case.command(party, plain=plain, without=without, off=off or 0.0)
                    remedy = Remedy(command or None, True)
                    facts.append(evidence.right_without_rewrites(without))
                remedies.append(evolve(culprit, remedy=remedy, facts=facts))
            if settings:
                is_all = best is None or best[0]
                result.append(steps.remedy_tried(passes, best is not None, is_all))
    return remedies


def _largest_error(
    case: Case, party: SuspectedParty, pairs: Sequence[tuple[Feed, Values]], **how: Any
) -> float | None:
    """Return the largest error of a backend without rewrites on all data, or None.
    The result is None if its outputs do not match on some."""
    largest = 0.0
    for feed, expected in pairs:
        error = _remaining_error(case, party, feed, expected, **how)
        if error is None:
            return None
        largest = max(largest, error)
    return largest


def describe_plain_remedies(case: Case, expected: Values, feed: Feed) -> str:
    """Return a sentence that lists the backends whose outputs match only without graph rewrites,
    with the command; empty if there are none.
    """
    plain_remedies = []
    for party in filter(lambda party: party.rewrites, case.parties):
        if _remaining_error(case, party, feed, expected) is not None:
            continue
        off = _remaining_error(case, party, feed, expected, plain=True)
        if off is not None:
            command = case.command(party, plain=True, off=off)
            plain_remedies.append(reasons.right_without_rewrites(party.name, command))
    return join_statements(*plain_remedies)


def _remaining_error(
    case: Case, party: SuspectedParty, feed: Feed, expected: Values, **how: Any
) -> float | None:
    """Return the largest error of a backend's outputs if they match; None if they do not."""
    try:
        compute = case.load(party, **how)
        values = compute(feed)
    except REFUSALS:
        return None
    differing = case.find_deviations(values, expected)
    if differing:
        differing = case.find_deviations(values, expected, rounding_noise(compute, feed, values))
    if any(
        difference.relative > LARGE and difference.share >= 0.01
        for difference in differing.values()
    ):
        return None
    errors = (deviation(values[name], expected[name]).largest for name in case.model.outputs)
    return max(filter(np.isfinite, errors), default=0.0)


@frozen
class Experiment:
    """A part of a model, or the whole model, that a backend computes incorrectly unless some
    rewrites are disabled.

    Attributes:
        wrong: the error without some rewrites.
        nodes: number of its nodes.
        before: the error with all rewrites.
    """

    wrong: Wrong
    nodes: int
    before: float

    def heals(self, without: Sequence[str]) -> bool:
        """Return whether the part is correct without some rewrites."""
        after = self.wrong(without)
        return after <= 1 or after <= min(_HEALED * self.before, 10.0)


def guilty_passes(
    case: Case,
    party: SuspectedParty,
    finding: WrongNodes,
    trace: Trace,
    likely_rewrites: Sequence[str] = (),
) -> list[str]:
    """Return the fewest rewrites of a backend to disable so that it computes some nodes correctly.
    The result is empty if rewrites cannot be disabled.

    They are searched in the part around the region or, if that part is correct, in the whole model.
    """
    experiment = _find_experiment(case, party, finding, trace)
    if experiment is None:
        return []
    for likely in dict.fromkeys(likely_rewrites):
        if experiment.heals(likely.split("+")):
            return likely.split("+")
    if experiment.nodes <= _SMALL and (healing := healing_alone(party.passes, experiment.heals)):
        nodes_after_rewrites = _nodes_after_rewrites(case, party, [])
        return [
            min(
                healing,
                key=lambda name: len(
                    nodes_after_rewrites ^ _nodes_after_rewrites(case, party, [name])
                ),
            )
        ]
    return healing_passes(party.passes, experiment.heals) or []


def refusal_passes(party: SuspectedParty, part: Submodel) -> list[str]:
    """Return the fewest rewrites to disable so that the backend accepts a part."""

    def heals(without: Sequence[str]) -> bool:
        """Return whether the backend accepts the part without some passes."""
        try:
            part.run(party, without=without)
        except PolygraphyException:
            return False
        return True

    return healing_passes(party.passes, heals) or []


def _nodes_after_rewrites(case: Case, party: SuspectedParty, without: Sequence[str]) -> set[Any]:
    """Return the nodes that the backend executes without some rewrites."""
    try:
        executed = party.runtime_graph(case.model.proto, without=without)
    except PolygraphyException:
        return set()
    if executed is None:
        return set()
    nodes = open_model(executed).nodes
    return {(node.operator, *node.makes) for node in nodes}


def _find_experiment(
    case: Case, party: SuspectedParty, finding: WrongNodes, trace: Trace
) -> Experiment | None:
    """Return the smallest part around incorrect nodes that the backend computes incorrectly.
    The result is None if there is none."""
    experiment = trace.all_values
    nodes = case.model.nodes
    size = 0
    for hops in _HOPS:
        chosen = nodes_around(case.model.graph, finding.region, hops)
        if len(chosen) in (size, len(nodes)):
            continue
        size = len(chosen)
        try:
            part = cut_part(case.model, chosen, experiment)
        except PolygraphyException:
            continue
        setup = _set_up_experiment(party, part, trace.values, size)
        if setup is not None:
            return setup
    return _set_up_experiment(
        party, feed_part(case.model.proto, experiment), trace.values, len(nodes)
    )


def _set_up_experiment(
    party: SuspectedParty, part: Submodel, expected: Values, nodes: int
) -> Experiment | None:
    """Return the experiment that shows which passes cause the error of a part, or None.
    The result is None if the error is within the tolerance.
    """
    outputs = open_model(part.model).outputs
    noise: dict[str, Any] = {}
    try:
        plain = part.run(party, plain=True)
        noise = {
            name: abs(value.astype("float64") - expected[name].astype("float64")) / 16
            for name, value in plain.items()
            if name in expected
            and is_float(value)
            and is_float(expected[name])
            and value.shape == expected[name].shape
            and not deviation(value, expected[name]).excess > 100
        }
    except PolygraphyException:
        pass

    def error_without(without: Sequence[str]) -> float:
        """Return the largest excess over the tolerance without some passes.
        The result is infinity if the backend rejects that.
        """
        try:
            values = part.run(party, without=without)
        except PolygraphyException:
            return float("inf")
        return max(
            (
                deviation(values[name], expected[name], noise.get(name, 0.0)).excess
                for name in outputs
                if name in values and name in expected
            ),
            default=0.0,
        )

    before = error_without(())
    return Experiment(error_without, nodes, before) if before > 1 else None
