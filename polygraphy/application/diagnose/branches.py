"""Branches of If nodes: those that a model takes stand in place of the nodes; others never run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.diagnosis.culprit import AGREE
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import steps
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.regions import region_before
from polygraphy.ports.editing import OpenModel


def inline_branches(case: Case, feeds: Sequence[Feed], saved: Sequence[Values] = ()) -> OpenModel:
    """Return the model with If nodes replaced by their branch, if that is the same on all data.
    Other If nodes remain.

    Args:
        case: the model and its backends.
        feeds: the data.
        saved: saved tensors for each of them; conditions among them are not computed.
    """
    model = case.model
    while True:
        result = model.with_branches(_conditions(case, model, feeds, saved))
        if result is model:
            return model
        model = result


def take_saved_branches(case: Case, feeds: Sequence[Feed], saved: Sequence[Values]) -> Case:
    """Return the case with the branches that belong to saved tensors:
    a fault before an If node can make the model take another branch, whose nodes are not wrong."""
    names = {node.reads[0] for node in case.whole.nodes if node.operator == "If"}
    if not any(name in values for values in saved for name in names):
        return case
    whole = evolve(case, model=case.whole)
    return evolve(case, model=inline_branches(whole, feeds, saved))


def take_branches(case: Case, feed: Feed, saved: Values) -> Case:
    """Return the case with the branches of If nodes that run on one input set,
    if others run on other sets."""
    if not any(node.operator == "If" for node in case.model.nodes):
        return case
    return evolve(case, model=inline_branches(evolve(case, model=case.whole), [feed], [saved]))


def add_idle_branches(answer: Found, request: Request) -> Found:
    """Return an answer; without a fault, its reason also names If branches that never ran.
    They were not compared.
    """
    if answer.result.verdict != AGREE:
        return answer
    reason = join_statements(
        answer.result.reason, _describe_idle_branches(answer.case, request.feeds)
    )
    return evolve(answer, result=evolve(answer.result, reason=reason))


def other_branches(case: Case, feed: Feed) -> Iterator[tuple[Node, OpenModel]]:
    """Yield each If node with a known condition, and the model with its other branch."""
    conditions = _conditions(case, case.whole, [feed])
    for node in case.whole.nodes:
        if node.operator == "If" and node.reads[0] in conditions:
            condition = np.logical_not(conditions[node.reads[0]])
            yield node, case.whole.with_branches({node.reads[0]: condition})


def _describe_idle_branches(case: Case, feeds: Sequence[Feed]) -> str:
    """Return a sentence about If branches that never ran and so were not compared.
    The result is empty if all did, or it is unknown.
    """
    conditions = _conditions(case, case.whole, feeds)
    idle: dict[str, list[str]] = {}
    for node in case.whole.nodes:
        if node.operator == "If" and node.reads[0] in conditions:
            branch = "else" if np.all(conditions[node.reads[0]]) else "then"
            idle.setdefault(branch, []).append(node.label)
    return join_statements(*(steps.idle_branches(branch, names) for branch, names in idle.items()))


def _conditions(
    case: Case, model: OpenModel, feeds: Sequence[Feed], saved: Sequence[Values] = ()
) -> dict[str, Any]:
    """Return the known conditions of If nodes that are equal for all data."""
    known_conditions: dict[str, Any] = {}
    for name in {node.reads[0] for node in model.nodes if node.operator == "If"}:
        conditions = [
            values[name] if name in values else _condition(case, model, name, feed)
            for feed, values in zip(feeds, chain(saved, repeat({})))
        ]
        if conditions[0] is not None and all(
            np.array_equal(condition, conditions[0]) for condition in conditions
        ):
            known_conditions[name] = conditions[0]
    return known_conditions


def _condition(case: Case, model: OpenModel, name: str, feed: Feed) -> Any:
    """Return the value of a condition; None if no backend can compute it."""
    if name in feed:
        return feed[name]
    before = region_before(model.graph, name, ())
    if not before or name in model.constants:
        return None
    for party in case.parties:
        with contextlib.suppress(*REFUSALS):
            return cut_part(model, before, feed).run(CarefulParty(party), plain=True).get(name)
    return None
