"""A model with states, over several steps: which step is the first wrong one, and whether a state
was wrong before it. What is right: a reference, another backend, or the model itself with all
inputs at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.data import StepData
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.rounding import explained
from polygraphy.binding import resolve
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.words import errors, evidence, reasons, steps, titles
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import Deviation, deviation, rounding_between
from polygraphy.domain.states.loading import StatePlan, StepLoader
from polygraphy.domain.states.memory import StateMemory, StepFacts, StepFeed
from polygraphy.domain.states.pairs import GROWS, SLOTS, Conflict, describe_pairs
from polygraphy.domain.tensors.facts import Facts, compute_dtype, is_bounded
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import REFERENCE, Compute, SuspectedParty
from polygraphy.ports.editing import open_model
from polygraphy.ports.machine import release_memory

_ADDS_UP = 20.0
"""Multiples of the rounding limit that rounding over several steps may reach."""
_LARGEST = 1e-3
"""Relative errors above which that explains nothing."""
_LENGTHS = range(1, 17)
"""Numbers of positions that are tried where a model refuses one."""
_NODE = re.compile(r"node '([^']+)'")
_COARSE = ("float16", "bfloat16")


@frozen
class _Side:
    """One of two that are run step by step on their own states.

    Attributes:
        name: who it is.
        feeds: what each step was fed with, states included.
        outputs: what it computed, states whole.
        facts: what the outputs are.
    """

    name: str
    feeds: Sequence[Feed]
    outputs: Sequence[Values]
    facts: Facts


def diagnose_steps(
    case: Case,
    loader: StepLoader,
    reference: Any,
    search: Callable[[Case, Any, Any], Found],
) -> Found:
    """Find out which step of a model with states is wrong, and why.

    Args:
        case: the model and its backends.
        loader: the steps.
        reference: a model that is right; None for none.
        search: finds out why a single step is wrong, of a case, its data and the reference.
    """
    describe_model(loader, case.model.inputs, case.model.facts)
    plan, feeds = loader.plan, list(loader)
    with case.attempt("states") as notes:
        notes.append(describe_pairs(plan.pairs))
    if plan.conflicts:
        return Found(_wired(plan.conflicts), case)
    try:
        if reference is not None:
            return _beside_reference(case, loader, feeds, reference, search)
        if len(case.parties) > 1:
            found = _beside_party(case, loader, feeds, search)
            if found.result.verdict != AGREE:
                return found
        return _self_check(case, loader, feeds)
    except BackendError as error:
        culprit = _fixed_length(case, plan, error)
        if culprit is None:
            raise
        return Found(DiagnosisResult(FAULT, [culprit]), case)


def _fixed_length(case: Case, plan: StatePlan, error: BackendError) -> Culprit | None:
    """Return the fault of a model that runs with other numbers of positions than it was given; None
    where it runs with none, or takes a single one.
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
    if not able:
        return None
    named = _NODE.search(str(error))
    nodes = [node.name for node in case.model.nodes if named and node.name == named[1]]
    fact = evidence.refuses_length(able if len(able) < len(_LENGTHS) else [], str(error))
    return Culprit(nodes, None, MODEL, "length", facts=[fact])


def check_oracle_of_steps(golden: Sequence[str] | None, program: Any) -> None:
    """Refuse what steps cannot be compared with.

    Raises:
        UsageError: they are to be compared with saved results or a program.
    """
    if golden or program is not None:
        raise errors.steps_with_saved_results()


def _wired(conflicts: Sequence[Conflict]) -> DiagnosisResult:
    """Return what is known without a run: outputs continue other inputs than they are named for."""
    culprits = [
        Culprit(
            [each.node] if each.node else [],
            each.output,
            MODEL,
            "state",
            facts=[evidence.continues_another(each.output, each.input, each.expected, each.source)],
        )
        for each in conflicts
    ]
    return DiagnosisResult(FAULT, culprits)


def _run(name: str, compute: Compute, feeds: Iterable[Feed], facts: Facts) -> _Side:
    """Run all steps of one side on its own states.

    Raises:
        BackendError: a step fails; it says which.
    """
    memory, fed, outputs = StateMemory(), [], []
    for feed in feeds:
        whole = memory.complete(feed)
        try:
            values = compute(whole)
        except REFUSALS as error:
            if isinstance(feed, StepFeed):
                where = steps.failing_step(feed.step.index, feed.step.length)
                raise BackendError(f"{where}: {error}", backend=name) from error
            raise
        memory.keep(feed, whole, values, name)
        fed.append(whole)
        outputs.append(values)
    return _Side(name, fed, outputs, facts)


def _beside_reference(
    case: Case,
    loader: StepLoader,
    feeds: Sequence[StepFeed],
    reference: Any,
    search: Callable[[Case, Any, Any], Found],
) -> Found:
    party = case.parties[0]
    opened = open_model(reference)
    own = _run(party.name, case.loaded(party), feeds, case.model.facts())
    right_loader = loader.of_model(reference)
    describe_model(right_loader, opened.inputs, opened.facts)
    right_feeds = list(right_loader)
    if other_wires := _other_wires(case, loader.plan, right_loader.plan):
        return Found(_wired(other_wires), case)
    right = _run(titles.REFERENCE, party.load(opened.proto), right_feeds, opened.facts())
    case.evidence.compared(titles.REFERENCE_MODEL)
    wrong = _first_wrong(case, loader.plan, own, right)
    with case.attempt(titles.OWN_STATES) as notes:
        notes.append(_said(loader.plan, feeds, own, right, wrong, case))
    if wrong is None:
        return Found(DiagnosisResult(AGREE), case)
    shared = _shared_states(loader.plan, right_loader.plan, own, right)
    if shared is None:
        step = feeds[wrong[0]].step
        reason = reasons.states_differ_in_kind(step.index, step.start)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    return _search_step(case, loader, feeds, own, shared, wrong, reference, search)


def _other_wires(case: Case, plan: StatePlan, right: StatePlan) -> list[Conflict]:
    """Return the outputs that continue another input than in a reference of the same interface."""
    expected = {pair.output: pair.input for pair in right.pairs}
    makers = {name: node.name for node in case.model.nodes for name in node.makes}
    if {pair.input for pair in plan.pairs} != {*expected.values()}:
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


def _beside_party(
    case: Case,
    loader: StepLoader,
    feeds: Sequence[StepFeed],
    search: Callable[[Case, Any, Any], Found],
) -> Found:
    sides = [
        _run(party.name, case.loaded(party), feeds, case.model.facts()) for party in case.parties
    ]
    case.evidence.compared(titles.ANOTHER_BACKEND)
    wrong = None
    for other in sides[1:]:
        wrong = wrong or _first_wrong(case, loader.plan, sides[0], other)
        with case.attempt(titles.OWN_STATES) as notes:
            notes.append(_said(loader.plan, feeds, sides[0], other, wrong, case))
        if wrong is not None:
            return _search_step(case, loader, feeds, sides[0], other, wrong, None, search)
    return Found(DiagnosisResult(AGREE), case)


def _search_step(
    case: Case,
    loader: StepLoader,
    feeds: Sequence[StepFeed],
    own: _Side,
    right: _Side,
    wrong: tuple[int, str, Deviation],
    reference: Any,
    search: Callable[[Case, Any, Any], Found],
) -> Found:
    """Search the first step that is wrong on equal states, and say which state it leaves wrong."""
    compute = case.loaded(case.parties[0])
    first, names = None, [*case.model.outputs]
    states = {pair.output for pair in loader.plan.pairs}
    for at in range(wrong[0] + 1):
        values = compute(right.feeds[at])
        different = [
            name
            for name in names
            if name in right.outputs[at]
            and _judged(case, name, values[name], right.outputs[at][name], own, right)
        ]
        if different:
            first = at, different
            break
    step = feeds[wrong[0]].step
    if first is None:
        reason = reasons.equal_states_agree(step.index, step.start)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    at, different = first
    changed = [name for name in different if name in states]
    with case.attempt(titles.EQUAL_STATES) as notes:
        notes.append(steps.first_step_on_equal_states(at, changed))
    order = [at, *(other for other in range(len(feeds)) if other != at)]
    data = StepData([dict(right.feeds[each]) for each in order], loader.options())
    where = feeds[at].step
    try:
        found = search(evolve(case, feed=data[0]), data, reference)
    except PolygraphyException as error:
        if isinstance(error, BackendError):
            raise
        found = Found(DiagnosisResult(INCONCLUSIVE, reason=str(error)), case)
    facts = [evidence.first_wrong_step(step.index, _position(wrong, step), wrong[1])]
    if at != wrong[0] or changed:
        facts.append(evidence.state_left_wrong(changed[0] if changed else different[0], at))
    result = found.result
    if result.verdict == FAULT and result.culprits:
        culprits = [evolve(each, facts=[*facts, *each.facts]) for each in result.culprits]
        result = evolve(result, culprits=culprits)
        return Found(_proved(case, loader, right, result, found.case), found.case)
    if result.verdict == AGREE or reference is None:
        return Found(evolve(result, reason=result.reason or reasons.NO_FAULT), found.case)
    makers = {name: node.name for node in case.model.nodes for name in node.makes}
    output = different[0]
    culprit = Culprit(
        [makers[output]] if output in makers else [],
        output,
        MODEL,
        "state" if output in states else "output",
        facts=[*facts, evidence.output_is_another_tensor(output, where.index)],
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _proved(
    case: Case, loader: StepLoader, right: _Side, result: DiagnosisResult, found: Case
) -> DiagnosisResult:
    """Return a result whose remedy was tried over all steps, if the model can be repaired here."""
    repaired = found.repaired() if found.repaired is not None else None
    if repaired is None or not all(one.remedy.proven for one in result.culprits):
        return result
    party = case.parties[0]
    try:
        side = _run(party.name, party.load(repaired.proto), list(loader), repaired.facts())
    except REFUSALS:
        return result
    wrong = _first_wrong(case, loader.plan, side, right)
    with case.attempt(titles.FIX_OVER_ALL_STEPS) as notes:
        notes.append(steps.fixed_steps(len(right.outputs), None if wrong is None else wrong[0]))
    if wrong is None:
        return result
    culprits = [evolve(one, remedy=evolve(one.remedy, proven=False)) for one in result.culprits]
    return evolve(result, culprits=culprits)


def _position(wrong: tuple[int, str, Deviation], step: StepFacts) -> int:
    where = wrong[2].where
    offset = where[1] if len(where) > 1 and where[1] < step.length else step.length - 1
    return step.start + int(offset)


def _first_wrong(
    case: Case, plan: StatePlan, own: _Side, right: _Side
) -> tuple[int, str, Deviation] | None:
    """Return the first step of which an output that is no state differs, that output, and how."""
    states = {pair.output for pair in plan.pairs}
    for at, (values, expected) in enumerate(zip(own.outputs, right.outputs)):
        for name, other in _partners(case, states, values, expected):
            made = _judged(case, name, values[name], expected[other], own, right)
            if made and not _adds_up(case, own.feeds[at], name, values[name], expected[other]):
                return at, name, made
    return None


def _adds_up(case: Case, feed: Feed, name: str, value: Any, expected: Any) -> bool:
    """Return whether rounding that adds up along the model explains an output."""
    try:
        return explained(case, [feed], [{name: value}], [{name: expected}])
    except REFUSALS:
        return False


def _partners(
    case: Case, states: set[str], values: Values, expected: Values
) -> Iterator[tuple[str, str]]:
    """Yield the outputs of two models that are compared: by name, else a single one with the
    single one.
    """
    names = [name for name in case.model.outputs if name not in states and name in values]
    shared = [name for name in names if name in expected]
    if shared:
        yield from ((name, name) for name in shared)
    elif names and expected:
        yield names[0], next(iter(expected))


def _judged(
    case: Case, name: str, value: Any, expected: Any, own: _Side, right: _Side
) -> Deviation:
    """Return how far an output is off, beyond the coarsest type in which either side computes it or
    keeps a state.
    """
    if not is_float(value) or not is_float(expected) or value.shape != expected.shape:
        return case.judged(name, value, expected)
    types = [_type_of(side, name) for side in (own, right)]
    bounded = is_bounded(own.facts, name)
    rounding = rounding_between((value, expected), (types[0], types[1]), is_bounded=bounded)
    if rounding is not None:
        rounding = rounding.times(max(1.0, min(_ADDS_UP, _LARGEST / rounding.rtol)))
    return deviation(value, expected, 0.0, rounding, is_bounded=bounded)


def _type_of(side: _Side, name: str) -> str | None:
    """Return the type in which an output is computed: that of a cache in half precision, too."""
    coarse = [
        array.dtype.name
        for array in side.feeds[0].values()
        if getattr(getattr(array, "dtype", None), "name", "") in _COARSE
    ]
    return next(iter(coarse), None) or compute_dtype(side.facts, name)


def _said(
    plan: StatePlan,
    feeds: Sequence[StepFeed],
    own: _Side,
    right: _Side,
    wrong: tuple[int, str, Deviation] | None,
    case: Case,
) -> str:
    """Return what came of the steps, in words: also of states that differ without effect."""
    if wrong is not None:
        step = feeds[wrong[0]].step
        return steps.first_wrong_step(step.index, _position(wrong, step), wrong[1], wrong[2])
    different = [
        pair.output
        for pair in plan.pairs
        if pair.output in right.outputs[-1]
        and bool(
            _judged(
                case,
                pair.output,
                own.outputs[-1][pair.output],
                right.outputs[-1][pair.output],
                own,
                right,
            )
        )
    ]
    return steps.all_steps_agree(len(feeds), different)


def _shared_states(plan: StatePlan, other: StatePlan, own: _Side, right: _Side) -> _Side | None:
    """Return the steps of the reference as the model can be fed with them; None where the states of
    the two are of other kinds.
    """
    feeds = []
    for mine, theirs in zip(own.feeds, right.feeds):
        feed = dict(mine)
        for pair in plan.pairs:
            partner = theirs.get(pair.input)
            if partner is None or partner.shape != mine[pair.input].shape:
                return None
            feed[pair.input] = partner.astype(mine[pair.input].dtype, copy=False)
        feeds.append(feed)
    return evolve(right, feeds=feeds)


# The model against itself.


def _self_check(case: Case, loader: StepLoader, feeds: Sequence[StepFeed]) -> Found:
    """Compare all inputs at once with step by step."""
    party, plan = case.parties[0], loader.plan
    obstacle = _obstacle(plan, feeds)
    if obstacle:
        with case.attempt("self-check") as notes:
            notes.append(steps.not_compared([obstacle]))
        if case.evidence.against:
            return Found(DiagnosisResult(AGREE), case)
        reason = reasons.nothing_to_compare_steps(obstacle)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    own = _run(party.name, case.loaded(party), feeds, case.model.facts())
    wrong = _disagreement(case, plan, feeds, own, case.loaded(party))
    case.evidence.compared(titles.ALL_INPUTS_AT_ONCE)
    with case.attempt("self-check") as notes:
        notes.append(_said_of_itself(feeds, wrong))
    if wrong is None:
        return Found(DiagnosisResult(AGREE), case)
    at, name, made, is_state = wrong
    step = feeds[at].step
    facts = [evidence.first_wrong_step_alone(step.index, step.start + step.length - 1, name)]
    if is_state:
        facts.append(evidence.state_left_wrong(name, at))
    node, tensor, off = _first_node(case, party, plan, feeds, own.feeds, at) or ("", name, made)
    nodes = [node] if node else []
    facts.append(evidence.differs_at_once(tensor, off, step.index))
    culprit = Culprit(nodes, tensor, MODEL, "state" if is_state else "step", facts=facts)
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _obstacle(plan: StatePlan, feeds: Sequence[StepFeed]) -> str:
    """Return why the inputs of a model cannot be given at once; empty where they can."""
    if not plan.is_decoder or plan.roles.judged is None:
        return reasons.NO_PREFILL_STREAM
    if plan.roles.chunk is not None:
        return reasons.fixed_chunk(plan.roles.chunk)
    if len(feeds) < 2:
        return reasons.ONE_STEP
    return ""


def _at_once(plan: StatePlan, feeds: Sequence[StepFeed], at: int) -> dict[str, Any]:
    """Return the inputs of all steps up to one as those of a single step."""
    step = feeds[at].step
    total, axis = step.start + step.length, plan.roles.axis
    drawn = {}
    for name in plan.roles.of:
        rows = [feed[name] for feed in feeds[: at + 1] if name in feed]
        is_sequence = plan.roles.of[name] in ("tokens", "chunk") and rows[0].ndim > axis
        drawn[name] = np.concatenate(rows, axis) if is_sequence else rows[0]
    made = {name: plan.value(name, total, 0, drawn) for name in plan.roles.of}
    return {**{pair.input: feeds[0][pair.input] for pair in plan.pairs}, **made}


def _last(value: Any, length: int) -> Any:
    """Return the scores of the last positions of an output."""
    return value[:, -length:] if value.ndim > 2 and value.shape[1] >= length else value


def _disagreement(
    case: Case, plan: StatePlan, feeds: Sequence[StepFeed], own: _Side, compute: Compute
) -> tuple[int, str, Deviation, bool] | None:
    """Return the first step after which an output or a state is another than with all inputs at
    once, if an output is in any step; and whether it is a state.
    """
    judged = plan.roles.judged or ""
    first = None
    is_wrong = False
    for at, feed in enumerate(feeds[1:], 1):
        expected, values = compute(_at_once(plan, feeds, at)), own.outputs[at]
        length, end = feed.step.length, feed.step.start + feed.step.length
        made = _real(
            case, judged, _last(values[judged], length), _last(expected[judged], length), own
        )
        if first is None:
            for pair in plan.pairs:
                old, new = _filled(pair, expected[pair.output], end), _filled(
                    pair, values[pair.output], end
                )
                off = _real(case, pair.output, new, old, own) if new.shape == old.shape else None
                if off:
                    first = at, pair.output, off, True
                    break
        if made:
            is_wrong = True
            first = first or (at, judged, made, False)
            break
    return first if is_wrong else None


def _filled(pair: Any, value: Any, end: int) -> Any:
    """Return the slots of a state that have been written."""
    if pair.kind in (GROWS, SLOTS) and pair.axis is not None and value.shape[pair.axis] > end:
        return value[(slice(None),) * pair.axis + (slice(0, end),)]
    return value


def _real(case: Case, name: str, value: Any, expected: Any, own: _Side) -> Deviation | None:
    """Return how far a tensor is off, if that is more than rounding."""
    made = _judged(case, name, value, expected, own, own)
    return made if made else None


def _said_of_itself(
    feeds: Sequence[StepFeed], wrong: tuple[int, str, Deviation, bool] | None
) -> str:
    if wrong is None:
        return steps.all_steps_agree(len(feeds), [])
    step = feeds[wrong[0]].step
    return steps.first_wrong_step(step.index, step.start + step.length - 1, wrong[1], wrong[2])


def _first_node(
    case: Case,
    party: SuspectedParty,
    plan: StatePlan,
    feeds: Sequence[StepFeed],
    fed: Sequence[Feed],
    at: int,
) -> tuple[str, str, Deviation] | None:
    """Return the first node whose output differs in a step from the one with all inputs at once,
    its output, and how; None where no tensor can be compared.
    """
    tracer = resolve(SuspectedParty, REFERENCE) if party.rewrites else party
    try:
        compute = tracer.load(case.model.marked(), plain=True)
        stepwise, whole = compute(fed[at]), compute(_at_once(plan, feeds, at))
    except REFUSALS:
        return None
    finally:
        release_memory()
    length = feeds[at].step.length
    total = feeds[at].step.start + length
    for node in case.model.nodes:
        for name in node.makes:
            value, expected = stepwise.get(name), whole.get(name)
            if value is None or expected is None or not is_float(value):
                continue
            aligned = _aligned(value, expected, length, total)
            if aligned is None:
                continue
            made = deviation(value, aligned, 0.0, rounding_between((value, aligned)))
            if made.excess > _ADDS_UP:
                return node.name, name, made
    return None


def _aligned(value: Any, expected: Any, length: int, total: int) -> Any:
    """Return the part of a tensor computed for all positions that is about the last ones; None
    where the shapes do not tell.
    """
    if value.ndim != expected.ndim:
        return None
    places: list[Any] = []
    for new, old in zip(value.shape, expected.shape):
        if new == old:
            places.append(slice(None))
        elif (new, old) == (length, total):
            places.append(slice(total - length, None))
        else:
            return None
    return expected[tuple(places)]
