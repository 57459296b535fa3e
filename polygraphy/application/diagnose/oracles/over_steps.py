"""A model with states, over several steps: which step is the first wrong one, and whether a state
was wrong before it. What is right: a reference, another backend, or the model itself with all
inputs at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.comparisons.step_runs import (
    FirstWrong,
    Judge,
    Party,
    Run,
    SideBySide,
    feed_with_states,
    output_names,
    reference_party,
    run_side_by_side,
    state_names,
)
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.steps.self_check import check_itself, explain_wires
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.words import errors, evidence, reasons, steps, titles
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.states.aligning import padding
from polygraphy.domain.states.loading import StatePlan, StepLoader
from polygraphy.domain.states.pairs import Conflict, describe_pairs
from polygraphy.ports.editing import open_model

_LENGTHS = range(1, 17)
"""Numbers of positions that are tried where a model refuses one."""
_NODE = re.compile(r"node '([^']+)'")
_SETS = 4
"""Steps whose data the search of a single step gets."""

Search = Callable[[Case, Any, Any], Found]


def diagnose_steps(case: Case, loader: StepLoader, reference: Any, search: Search) -> Found:
    """Return which step of a stateful model is incorrect, and why.

    Args:
        case: the model and its backends.
        loader: the steps.
        reference: a model that is right; None for none.
        search: finds out why a single step is wrong, of a case, its data and the reference.
    """
    describe_model(loader, case.model.inputs, case.model.facts)
    plan, feeds = loader.plan, list(loader)
    first = case.parties[0]
    own = Party(first.name, first, case.model, plan, feeds, case.model.facts())
    with case.attempt("states") as notes:
        notes.append(describe_pairs(plan.pairs))
    if reference is not None:
        right = reference_party(case, own, loader, open_model(reference))
        own = _with_states(own, loader, right.plan)
        conflicts = _other_wires(own, plan, right.plan)
        if plan.conflicts or conflicts:
            return Found(_check_wiring(case, own, loader, conflicts or plan.conflicts, right), case)
        return _beside(case, own, right, loader, reference, search)
    if plan.conflicts:
        return Found(_check_wiring(case, own, loader, plan.conflicts, None), case)
    for party in case.parties[1:]:
        found = _beside(case, own, evolve(own, name=party.name, party=party), loader, None, search)
        if found.result.verdict != AGREE:
            return found
    return _self_check(case, own)


def check_oracle_of_steps(golden: Sequence[str] | None, program: Any) -> None:
    """Raise an error for oracles that steps cannot be compared with.

    Raises:
        UsageError: they are to be compared with saved results or a program.
    """
    if golden or program is not None:
        raise errors.steps_with_saved_results()


# Wires.


def _with_states(own: Party, loader: StepLoader, right: StatePlan) -> Party:
    """Return a party with additional states taken from a reference with the same interface."""
    known = {pair.output for pair in own.plan.pairs} | {pair.input for pair in own.plan.pairs}
    outputs = {tensor.name for tensor in own.plan.graph.outputs}
    more = [
        (pair.output, pair.input)
        for pair in right.pairs
        if pair.output in outputs
        and pair.input in own.plan.inputs
        and not {pair.output, pair.input} & known
    ]
    if not more:
        return own
    return _rewire_states(
        own, loader, [*((pair.output, pair.input) for pair in own.plan.pairs), *more]
    )


def _rewire_states(own: Party, loader: StepLoader, pairs: Sequence[tuple[str, str]]) -> Party:
    """Return a party with other state pairs."""
    other = loader.with_states(pairs)
    describe_model(other, own.model.inputs, own.model.facts)
    feeds = list(other)
    return evolve(own, plan=other.plan, feeds=feeds)


def _other_wires(own: Party, plan: StatePlan, right: StatePlan) -> list[Conflict]:
    """Return the outputs that continue a different input than in a reference with the same
    interface.
    """
    expected = {pair.output: pair.input for pair in right.pairs}
    makers = {name: node.name for node in own.model.nodes for name in node.makes}
    if {pair.input for pair in plan.pairs} - {*expected.values()}:
        return []
    return [
        Conflict(
            pair.output,
            pair.input,
            expected[pair.output],
            titles.REFERENCE,
            makers.get(pair.output, ""),
        )
        for pair in plan.pairs
        if expected.get(pair.output, pair.input) != pair.input
    ]


def _check_wiring(
    case: Case, own: Party, loader: StepLoader, conflicts: Sequence[Conflict], right: Party | None
) -> DiagnosisResult:
    """Return the diagnosis for outputs that continue other inputs than their names suggest, and the
    first step at which it shows.
    """
    expected = {each.output: each.expected for each in conflicts if each.expected}
    kept = {
        pair.output: pair.input for pair in own.plan.pairs if pair.input not in expected.values()
    }
    wires = {**kept, **expected}
    known = {pair.output for pair in own.plan.pairs} | {*expected}
    party = _rewire_states(own, loader, [(name, wires[name]) for name in wires if name in known])
    first = None
    if right is None:
        first = explain_wires(case, party)
    else:
        try:
            beside = run_side_by_side(Judge.between(case, party, right))
        except REFUSALS:
            beside = SideBySide(None)
        if beside.first is not None:
            wrong = beside.first
            first = {"step": wrong.at, "position": wrong.position, "output": wrong.output}
    step = evidence.first_wrong_step if right is not None else evidence.first_wrong_step_alone
    facts = [] if first is None else [step(**first)]
    culprits = [
        Culprit(
            [each.node] if each.node else [],
            each.output,
            MODEL,
            "state",
            facts=[
                *facts,
                evidence.continues_another(each.output, each.input, each.expected, each.source),
            ],
        )
        for each in conflicts
    ]
    return DiagnosisResult(FAULT, culprits)


# Beside a reference or another backend.


def _beside(
    case: Case, own: Party, right: Party, loader: StepLoader, reference: Any, search: Search
) -> Found:
    """Compare two parties on their own states, and search the first wrong step."""
    try:
        judge = Judge.between(case, own, right)
        case.evidence.compared(
            titles.ANOTHER_BACKEND if reference is None else titles.REFERENCE_MODEL
        )
        with case.attempt(titles.OWN_STATES) as notes:
            beside = run_side_by_side(judge)
            notes.append(_describe_steps(own, beside))
        if allowed := _harmless_differences(judge):
            with case.attempt(titles.NOT_COUNTED) as notes:
                notes.append(steps.not_counted(allowed))
    except BackendError as error:
        culprit = _failing(case, own, right, error)
        if culprit is None:
            raise
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    if beside.first is None:
        return Found(DiagnosisResult(AGREE), case)
    return _search_step(case, judge, loader, beside, reference, search)


def _harmless_differences(judge: Judge) -> list[str]:
    """Return notes on harmless differences."""
    feeds, plan = judge.own.feeds, judge.own.plan
    is_padded = any(padding(plan, feed) is not None for feed in feeds[:1])
    return [*judge.coarse, *([titles.HIDDEN_POSITIONS] if is_padded else [])]


def _describe_steps(own: Party, beside: SideBySide) -> str:
    """Return a sentence about all steps, including states that differ without effect."""
    wrong = beside.first
    if wrong is None:
        return steps.all_steps_agree(len(own.feeds), beside.states)
    return steps.first_wrong_step(wrong.at, wrong.position, wrong.output, wrong.off)


def _search_step(
    case: Case,
    judge: Judge,
    loader: StepLoader,
    beside: SideBySide,
    reference: Any,
    search: Search,
) -> Found:
    """Return the first incorrect step on equal states, and the state it corrupts."""
    wrong = beside.first
    assert wrong is not None
    own = judge.own
    harmless = [pair.input for pair in own.plan.pairs if pair.output in beside.states]
    equal = _first_on_equal_states(judge, wrong, harmless)
    step = own.feeds[wrong.at].step
    if isinstance(equal, str):
        return Found(DiagnosisResult(INCONCLUSIVE, reason=equal), case)
    at, different, data = equal
    states = {pair.output for pair in own.plan.pairs}
    changed = [name for name in different if name in states]
    with case.attempt(titles.EQUAL_STATES) as notes:
        notes.append(steps.first_step_on_equal_states(at, changed))
    facts = [evidence.first_wrong_step(step.index, wrong.position, wrong.output)]
    if at != wrong.at or changed:
        facts.append(evidence.state_left_wrong(changed[0] if changed else different[0], at))
    if at != wrong.at:
        exchanged = _correcting_states(judge, wrong, harmless)
        if exchanged:
            with case.attempt(titles.STATES_EXCHANGED) as notes:
                notes.append(steps.exchanged_states(exchanged, wrong.at))
            facts.append(evidence.exchanged_states(exchanged, wrong.at))
    sets = StepData(data, loader.options())
    try:
        found = search(evolve(case, feed=sets[0]), sets, reference)
    except PolygraphyException as error:
        found = Found(DiagnosisResult(INCONCLUSIVE, reason=str(error)), case)
    result = found.result
    if result.verdict == FAULT and result.culprits:
        culprits = [evolve(each, facts=[*facts, *each.facts]) for each in result.culprits]
        result = evolve(result, culprits=culprits)
        return Found(_prove_remedy(case, judge, result, found.case), found.case)
    if result.verdict == ILL_CONDITIONED:
        return found
    if reference is None:
        reason = result.reason if result.verdict == INCONCLUSIVE else ""
        reason = reason or reasons.equal_states_agree(step.index, step.start)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), found.case)
    culprit = _own_culprit(case, own)
    if culprit is not None:
        culprit = evolve(culprit, facts=[*facts, *culprit.facts])
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    makers = {name: node.name for node in case.model.nodes for name in node.makes}
    output = changed[0] if changed else different[0]
    culprit = Culprit(
        [makers[output]] if output in makers else [],
        output,
        MODEL,
        "state" if output in states else "output",
        facts=[*facts, evidence.output_is_another_tensor(output, at)],
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _own_culprit(case: Case, own: Party) -> Culprit | None:
    """Return the culprit among the model's own nodes; None if no node is named."""
    try:
        culprit, _ = check_itself(case, own)
    except REFUSALS:
        return None
    return culprit if culprit is not None and culprit.nodes else None


def _first_on_equal_states(
    judge: Judge, wrong: FirstWrong, harmless: Sequence[str]
) -> tuple[int, list[str], list[dict[str, Any]]] | str:
    """Return the first step that differs on the reference's states, the differing outputs, and the
    inputs of this and later steps; or why there is none.
    """
    own, right = judge.own, judge.right
    names = {**output_names(own, right), **state_names(own, right)}
    silent = {pair.output for pair in own.plan.pairs if pair.input in harmless}
    names = {name: other for name, other in names.items() if name not in silent}
    compute, run = own.load(), Run(right, right.load())
    mine = Run(own, own.load()) if harmless else None
    data: list[dict[str, Any]] = []
    for at in range(wrong.at + 1):
        run.advance()
        if mine is not None:
            mine.advance()
        feed = feed_with_states(
            own, right, at, None if mine is None else mine.feed, run.feed, harmless
        )
        if feed is None:
            step = own.feeds[wrong.at].step
            return reasons.states_differ_in_kind(step.index, step.start)
        data = [feed, *data][:_SETS]
        values = compute(feed)
        found = judge.differing_values(
            at, (feed, run.feed), (_new_slots(own, feed, values, at), run.shown), names
        )
        if found:
            return at, list(found), data
    step = own.feeds[wrong.at].step
    return reasons.equal_states_agree(step.index, step.start)


def _new_slots(own: Party, feed: Feed, values: Any, at: int) -> Any:
    """Return the slots of states that a step wrote."""
    run = Run(own, lambda _: values)
    return run.memory.keep(own.feeds[at], feed, values, own.name)


def _correcting_states(judge: Judge, wrong: FirstWrong, harmless: Sequence[str]) -> list[str]:
    """Return the states that, copied from the other party, each correct the first incorrect step;
    empty if none does.
    """
    own, right = judge.own, judge.right
    compute, names = wrong.own.compute, output_names(own, right)
    found = []
    for pair in own.plan.pairs:
        kept = [each.input for each in own.plan.pairs if each.input != pair.input]
        feed = feed_with_states(own, right, wrong.at, wrong.own.feed, wrong.right.feed, kept)
        if feed is None or pair.input in harmless:
            continue
        feeds, values = (feed, wrong.right.feed), (compute(feed), wrong.right.values)
        if not judge.differing_values(wrong.at, feeds, values, names):
            found.append(pair.input)
    return found


def _prove_remedy(
    case: Case, judge: Judge, result: DiagnosisResult, found: Case
) -> DiagnosisResult:
    """Return the result with its remedy verified over all steps, if the model can be
    repaired here.
    """
    repaired = found.repaired() if found.repaired is not None else None
    if repaired is None or not all(one.remedy.proven for one in result.culprits):
        return result
    try:
        wrong = run_side_by_side(judge, repaired.proto).first
    except REFUSALS:
        return result
    with case.attempt(titles.FIX_OVER_ALL_STEPS) as notes:
        notes.append(steps.fixed_steps(len(judge.own.feeds), None if wrong is None else wrong.at))
    if wrong is None:
        return result
    culprits = [evolve(one, remedy=evolve(one.remedy, proven=False)) for one in result.culprits]
    return evolve(result, culprits=culprits)


# The model against itself.


def _self_check(case: Case, own: Party) -> Found:
    """Compare all inputs at once with step by step."""
    try:
        with case.attempt("self-check") as notes:
            culprit, words = check_itself(case, own)
            notes.append(words)
    except BackendError as error:
        culprit = _length_culprit(case, own.plan, error)
        if culprit is None:
            raise
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    if culprit is not None:
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    if titles.NOT_COMPARED not in words:
        case.evidence.compared(titles.ALL_INPUTS_AT_ONCE)
    elif not case.evidence.against:
        obstacle = words.removeprefix(f"{titles.NOT_COMPARED}: ").removesuffix(".")
        reason = reasons.nothing_to_compare_steps(obstacle)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    return Found(DiagnosisResult(AGREE), case)


# What is refused.


def _failing(case: Case, own: Party, right: Party, error: BackendError) -> Culprit | None:
    """Return the fault of a model that fails in a step that the other party can run."""
    culprit = _length_culprit(case, own.plan, error)
    if culprit is not None or str(error.backend or "") == right.name:
        return culprit
    run = Run(right, right.load())
    try:
        for _ in right.feeds:
            run.advance()
    except REFUSALS:
        return None
    fact = evidence.refuses_length([], str(error))
    return Culprit(_named_nodes(case, error), None, MODEL, "state", facts=[fact])


def _named_nodes(case: Case, error: BackendError) -> list[str]:
    named = _NODE.search(str(error))
    return [node.name for node in case.model.nodes if named and node.name == named[1]]


def _length_culprit(case: Case, plan: StatePlan, error: BackendError) -> Culprit | None:
    """Return the fault of a model that runs only with certain numbers of positions; None if it runs
    with none, or with all.
    """
    if plan.roles.chunk is not None or not plan.is_decoder:
        return None
    compute, able = case.loaded(case.parties[0]), []
    for length in _LENGTHS:
        drawn = {
            name: np.zeros(plan.shape(name, length, 0), case.model.inputs[name].dtype.numpy())
            for name, role in plan.roles.of.items()
            if role in ("tokens", "chunk", "constant")
        }
        feed = {name: plan.value(name, length, 0, drawn) for name in plan.roles.of}
        try:
            compute({**{pair.input: plan.initial(pair) for pair in plan.pairs}, **feed})
        except REFUSALS:
            continue
        able.append(length)
    if not able or len(able) == len(_LENGTHS):
        return None
    fact = evidence.refuses_length(able, str(error))
    return Culprit(_named_nodes(case, error), None, MODEL, "length", facts=[fact])
