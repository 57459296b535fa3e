"""Step: a model with states against itself, all inputs at once and step by step. That needs neither
a reference nor a second backend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.comparisons.state_steps import ModelWithStates
from polygraphy.application.diagnose.comparisons.step_runs import Judge, Party, Run
from polygraphy.application.diagnose.outcome import Found, StepOutcome
from polygraphy.application.diagnose.steps.states.failing_step import explain_failing_step
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import state_evidence, state_reasons, steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model.graph import Node
from polygraphy.domain.rounding import Deviation, deviation, rounding_between
from polygraphy.domain.states.aligning import (
    first_part,
    join_steps,
    join_steps_without_start,
    last_part,
    pad_feeds,
    padding_length,
    slots_in_use,
)
from polygraphy.domain.states.pairs import StatePair
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import REFERENCE, SuspectedParty
from polygraphy.ports.machine import release_memory

_EVERY = 16
"""Up to this number of steps, all are compared; beyond, the distance between compared steps
doubles."""
_MORE = 20.0
"""A difference is a fault if it exceeds this multiple of the rounding limit of one operator: a
step accumulates the rounding of several. Chosen, not measured."""
_DEPTH = 16
"""Nodes that are followed backward from a node."""
_MOVES = frozenset(
    {"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Gather", "Cast",
     "Split", "Expand", "Flatten"}
)  # fmt: skip
"""Operators that hand the elements of a state on."""
_CARRIERS = frozenset(
    {"Concat", "ScatterND", "ScatterElements", "TensorScatter", "GroupQueryAttention", "Attention",
     "MultiHeadAttention", "LSTM", "GRU", "RNN", "Scan", "Loop", "If"}
)  # fmt: skip
"""Operators that make the next state of the last one."""
_DECIDE = frozenset(
    {"And", "Or", "Not", "Where", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}
)
_MIXES = frozenset({"InstanceNormalization", "Attention", "MultiHeadAttention"})
"""Operators by which positions of a chunk may see each other, so that chunks cannot be joined."""


def explain_by_self_check(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the outcome of comparing all inputs at once with step by step."""
    try:
        with case.record_step("self-check") as notes:
            culprit, words = check_itself(case, states.own)
            notes.append(words)
    except BackendError as error:
        return explain_failing_step(case, states.own, error)
    if culprit is not None:
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    if titles.NOT_COMPARED not in words:
        case.record_comparison(titles.ALL_INPUTS_AT_ONCE)
    elif not case.evidence.against:
        obstacle = words.removeprefix(f"{titles.NOT_COMPARED}: ").removesuffix(".")
        reason = state_reasons.nothing_to_compare_steps(obstacle)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    return Found(DiagnosisResult(AGREE), case)


@frozen
class Disagreement:
    """The first step that differs from the run on all inputs at once.

    Attributes:
        at: the step.
        output: the judged output.
        off: the deviation.
        state: the first state that differs, and the step after which it does; None if none does.
        feeds: the inputs of the step before and of the step itself.
    """

    at: int
    output: str
    off: Deviation
    state: tuple[str, int] | None
    feeds: tuple[Feed, Feed]


def find_obstacle(case: Case, party: Party) -> str:
    """Return why the inputs cannot be passed in a single step; empty if they can."""
    plan = party.plan
    if plan.roles.judged is None:
        return state_reasons.NO_PREFILL_STREAM
    chunk = plan.for_step(0).roles.chunk
    if chunk is not None:
        return state_reasons.static_chunk_length(chunk)
    if not plan.is_decoder and (not plan.roles.inputs_of("chunk") or _mixes_positions(plan)):
        return state_reasons.NO_PREFILL_STREAM
    if not plan.pairs:
        return state_reasons.NO_FEEDBACK
    if len(party.feeds) < 2:
        return state_reasons.ONE_STEP
    return ""


def _mixes_positions(plan: StatePlan) -> bool:
    """Return whether positions of a chunk affect each other, through attention or a mean."""
    nodes = [node for inner in plan.graph.walk() for node in inner.nodes]
    weights = {name for node in nodes if node.op == "Softmax" for name in node.outputs}
    products = ("MatMul", "Einsum", "Gemm")
    return any(
        node.op in _MIXES or (node.op in products and not weights.isdisjoint(node.inputs))
        for node in nodes
    )


def check_itself(case: Case, party: Party) -> tuple[Culprit | None, str]:
    """Return the culprit, if any, and a note, from all inputs at once compared with single steps.
    The steps are also compared with padding.

    Returns:
        What is wrong, None for nothing; and what came of it in words.

    Raises:
        BackendError: a step fails.
    """
    obstacle = find_obstacle(case, party)
    if obstacle:
        return None, steps.not_compared([obstacle])
    padded = pad_feeds(party.plan, party.feeds) if party.plan.is_decoder else None
    parties = [party] if padded is None else [party, evolve(party, feeds=padded)]
    for candidate in parties:
        if candidate is not party and not _supports_padding(case, candidate):
            continue
        disagreement = find_disagreement(case, candidate)
        if isinstance(disagreement, str):
            return None, steps.not_compared([disagreement])
        if disagreement is not None:
            step = party.feeds[disagreement.at].step
            position = step.start + step.length - 1
            words = steps.first_wrong_step(
                step.index, position, disagreement.output, disagreement.off
            )
            return _culprit(case, candidate, disagreement, position, candidate is not party), words
    return None, steps.all_steps_agree(len(party.feeds), [])


def _supports_padding(case: Case, padded: Party) -> bool:
    """Return whether a model computes the same for padded and unpadded text at once,
    as it then must step by step.
    """
    plan, last, judged = padded.plan, len(padded.feeds) - 1, padded.plan.roles.judged or ""
    compute, judge = padded.load(), Judge.between(case, padded, padded)
    try:
        whole_value = compute(join_steps(plan, padded.feeds, last))[judged]
        text = compute(
            join_steps_without_start(plan, padded.feeds, last, padding_length(padded.feeds))
        )[judged]
    except REFUSALS:
        return False
    part = last_part(text, whole_value)
    return part is not None and judge.judge(0, judged, judged, text, part) is None


def find_disagreement(case: Case, party: Party) -> Disagreement | str | None:
    """Return the first step whose output differs from all inputs at once, or None.
    The result is None if all agree, or a reason if they cannot be compared.

    Raises:
        BackendError: a step fails.
    """
    count, checked = len(party.feeds), [*range(1, min(_EVERY, len(party.feeds)))]
    while checked and checked[-1] < count - 1:
        checked.append(min(checked[-1] * 2, count - 1))
    disagreement = _first_disagreement(case, party, checked)
    if isinstance(disagreement, Disagreement):
        before = max((at for at in checked if at < disagreement.at), default=0)
        if disagreement.at - before > 1:
            return _first_disagreement(case, party, range(before + 1, disagreement.at + 1))
    return disagreement


def _first_disagreement(
    case: Case, party: Party, checked: Collection[int]
) -> Disagreement | str | None:
    """Return the first checked step whose output differs from that of all inputs at once;
    a reason if the model has no prefill, None if all agree.
    """
    plan, judged = party.plan, party.plan.roles.judged or ""
    judge, run, compute = Judge.between(case, party, party), Run(party, party.load()), party.load()
    state: tuple[str, int] | None = None
    fed: list[Feed] = []
    first: Any = None
    for at in range(max(checked, default=0) + 1):
        run.advance()
        fed = [*fed[-1:], run.feed]
        first = run.values[judged] if at == 0 else first
        if at not in checked:
            continue
        feed = join_steps(plan, party.feeds, at)
        try:
            joined_values = compute(feed)
        except REFUSALS:
            if plan.is_decoder:
                raise
            return state_reasons.NO_PREFILL_STREAM
        part = last_part(run.values[judged], joined_values[judged])
        if not plan.is_decoder:
            start = first_part(first, joined_values[judged])
            if start is None or part is None or start.shape == joined_values[judged].shape:
                return state_reasons.NO_PREFILL_STREAM
            if judge.judge(0, judged, judged, first, start) is not None:
                return state_reasons.NO_PREFILL_STREAM
        if part is None:
            return state_reasons.NO_PREFILL_STREAM
        if state is None:
            state = _first_state(judge, run, joined_values, at)
        names = {judged: judged}
        off = judge.find_value_deviations(at, (run.feed, feed), (run.values, {judged: part}), names)
        if off:
            return Disagreement(at, judged, off[judged], state, (fed[0], fed[-1]))
    return None


def _first_state(judge: Judge, run: Run, joined_values: Values, at: int) -> tuple[str, int] | None:
    """Return the name and axis of the first state that differs from that of all inputs at once.
    The result is None if there is none.
    """
    step = run.who.feeds[at].step
    end = step.start + step.length
    for pair in run.who.plan.pairs:
        if pair.output not in run.values:  # Only the first step computes it.
            continue
        own_values = {pair.output: slots_in_use(pair, run.values[pair.output], end)}
        other_values = {pair.output: slots_in_use(pair, joined_values[pair.output], end)}
        if own_values[pair.output].shape != other_values[pair.output].shape:
            continue
        feeds = run.feed, run.feed
        if judge.find_value_deviations(
            at, feeds, (own_values, other_values), {pair.output: pair.output}
        ):
            return pair.output, at
    return None


def _culprit(
    case: Case, party: Party, disagreement: Disagreement, position: int, is_padded: bool
) -> Culprit:
    """Return the culprit for a step that differs from all inputs at once."""
    facts: list[Fact] = [
        state_evidence.first_wrong_step_alone(disagreement.at, position, disagreement.output)
    ]
    if is_padded:
        facts.append(state_evidence.only_with_padding())
    if disagreement.state is not None:
        facts.append(state_evidence.state_left_wrong(*disagreement.state))
    faulty = _locate_node(case, party, disagreement)
    if faulty is None:
        tensor = disagreement.state[0] if disagreement.state else disagreement.output
        cause = "state" if disagreement.state else "step"
        return Culprit([], tensor, MODEL, cause, facts=facts)
    cause = "state" if disagreement.state or faulty.is_state else "step"
    nodes = [faulty.node] if faulty.node else party.maker_of(faulty.tensor)
    return Culprit(nodes, faulty.tensor, MODEL, cause, facts=[*facts, *faulty.facts])


@frozen
class _FaultyNode:
    """A node at fault, or the node that computes an incorrect output, with the evidence."""

    node: str
    tensor: str
    facts: Sequence[Fact] = ()
    is_state: bool = False


def _locate_node(case: Case, party: Party, disagreement: Disagreement) -> _FaultyNode | None:
    """Return the first node whose output in a step differs from that with all inputs at once.
    The result is None if no tensor is comparable.
    """
    backend = party.party
    tracer = resolve(SuspectedParty, REFERENCE) if backend.rewrites else backend
    plan, at = party.plan, disagreement.at
    try:
        compute = party.load_marked(tracer)
        joined_values = compute(join_steps(plan, party.feeds, at))
        stepwise, before = compute(disagreement.feeds[1]), compute(disagreement.feeds[0])
        shorter = compute(join_steps(plan, party.feeds, at - 1))
    except REFUSALS:
        return None
    finally:
        release_memory()
    search = _TraceComparison(case, plan, at)
    judged = plan.roles.judged or ""
    if plan.is_decoder and at > 1:
        # In a causal model, later positions do not change earlier ones.
        start = first_part(shorter[judged], joined_values[judged])
        if start is not None and search.find_deviation(start, shorter[judged]):
            faulty = search.first_difference(joined_values, shorter, first_part)
            if faulty is not None:
                return faulty
    faulty = search.first_difference(joined_values, stepwise, last_part)
    if faulty is None:
        return None
    return (
        search.find_wrong_state(faulty, disagreement.feeds[1], before, stepwise, joined_values)
        or faulty
    )


class _TraceComparison:
    """Searches the node at which two traces of a step diverge."""

    def __init__(self, case: Case, plan: StatePlan, at: int) -> None:
        """Set the model, its states, and the step."""
        self.case, self.plan, self.at = case, plan, at
        self.nodes: Sequence[Node] = case.model.nodes
        self.makers = {name: node for node in self.nodes for name in node.makes}
        self.states = {pair.input: pair for pair in plan.pairs}
        coarse = [plan.inputs[name].dtype for name in self.states]
        self.dtype = next((name for name in coarse if name in ("float16", "bfloat16")), None)
        self.fresh = self._fresh_tensors()

    def _fresh_tensors(self) -> set[str]:
        """Return the tensors that depend on inputs other than states."""
        fresh = {name for name in self.plan.inputs if name not in self.states}
        for node in self.nodes:
            if not fresh.isdisjoint(node.reads):
                fresh.update(node.makes)
        return fresh

    def find_deviation(self, value: Any, expected: Any) -> Deviation | None:
        """Return the deviation of two values; None if rounding explains it."""
        if not is_float(value):
            off = deviation(value, expected)
            return off if off.is_wrong else None
        rounding = rounding_between((value, expected), (self.dtype, None))
        off = deviation(value, expected, 0.0, rounding)
        return off if off.excess > _MORE or off.broken else None

    def first_difference(
        self, joined_values: Values, other_values: Values, part: Any
    ) -> _FaultyNode | None:
        """Return the first node with different values in a trace of all inputs and one of a step;
        None if no node differs."""
        for node in self.nodes:
            for name in node.makes:
                if name not in self.fresh or not is_float(other_values.get(name)):
                    continue
                off = self._deviation(name, joined_values, other_values, part)
                if off is None:
                    continue
                back = self._find_deciding_node(node, joined_values, other_values, part)
                if back is not None:
                    return _faulty_node(*back, self.at)
                return _faulty_node(node, name, off, self.at)
        return None

    def _deviation(
        self, name: str, joined_values: Values, other_values: Values, part: Any
    ) -> Deviation | None:
        """Return the deviation of a tensor from its part of the longer run, or None.
        The result is None if it matches or is missing.
        """
        value, longer = other_values.get(name), joined_values.get(name)
        if value is None or longer is None or not hasattr(value, "ndim"):
            return None
        expected = part(value, longer)
        return None if expected is None else self.find_deviation(value, expected)

    def _find_deciding_node(
        self, node: Node, joined_values: Values, other_values: Values, part: Any
    ) -> tuple[Node, str, Deviation] | None:
        """Return the node that decides about a difference, its tensor and deviation, or None.

        It computes integers or booleans, such as positions or a mask, that cause the difference of
        another node.
        """
        deciding_node = None
        for _ in range(_DEPTH):
            operands = (
                self._whole_numbers(name, joined_values, other_values, part) for name in node.reads
            )
            operand = next((operand for operand in operands if operand is not None), None)
            if operand is None:
                break
            deciding_node, node = operand, operand[0]
            if _op(node) not in _MOVES | _DECIDE:
                break
        return deciding_node

    def _whole_numbers(
        self, name: str, joined_values: Values, other_values: Values, part: Any
    ) -> tuple[Node, str, Deviation] | None:
        """Return the node, tensor and deviation of incorrect integers or booleans, or None.
        The result is None if there are none."""
        value, maker = other_values.get(name), self.makers.get(name)
        if maker is None or value is None or is_float(value) or value.ndim == 0:
            return None
        if name not in joined_values:  # The model of the first step may lack this tensor.
            return None
        if value.shape == joined_values[name].shape and value.ndim < 2:
            return None  # Tensors with the length differ in every correct model.
        off = self._deviation(name, joined_values, other_values, part)
        return None if off is None else (maker, name, off)

    def find_wrong_state(
        self,
        faulty: _FaultyNode,
        feed: Feed,
        before: Values,
        stepwise: Values,
        joined_values: Values,
    ) -> _FaultyNode | None:
        """Return the output that passes on an incorrect state, if that explains a node's
        difference; else None.

        Args:
            faulty: the node that reads a state.
            feed: the inputs of the step.
            before: all tensors of the step before.
            stepwise: all tensors of the step.
            joined_values: all tensors with all inputs at once.
        """
        node = self.makers[faulty.tensor]
        direct = {pair.input for pair in self._states_of(node)}
        for pair in self._states_of(node, through_concat=_op(node) in _MOVES):
            path = [*self._path_to_state(pair.output)]
            carrier = next((pair for pair in path if _op(pair[0]) in _CARRIERS), None)
            changed = [pair for pair in path if _op(pair[0]) not in _MOVES | _CARRIERS]
            if carrier is None:
                if not changed:
                    return self._faulty_state(pair, path)
                continue
            if changed:
                return self._faulty_state(pair, changed[-1:])
            if pair.input not in direct:
                continue  # The node reads the updated state instead of the previous one.
            moves = [pair for pair in path if pair != carrier and _op(pair[0]) != "Identity"]
            if moves and not self._carries_on(carrier[1], before, stepwise):
                return self._faulty_state(pair, moves[:1])
            if carrier[0] is not node and self._is_only_difference(
                pair, faulty.tensor, feed, joined_values
            ):
                return self._faulty_state(pair, [carrier])
        return None

    def _states_of(self, node: Node, through_concat: bool = False) -> Iterator[StatePair]:
        """Yield the states that a node reads, directly or from nodes that read nothing else;
        with `through_concat`, also the states that a Concat extends before.
        """
        queue, seen_names = [*node.reads], set()
        while queue:
            name = queue.pop(0)
            if name in seen_names:
                continue
            seen_names.add(name)
            if name in self.states:
                yield self.states[name]
            elif name in self.makers and (
                name not in self.fresh or (through_concat and _op(self.makers[name]) == "Concat")
            ):
                queue += self.makers[name].reads

    def _path_to_state(self, output: str) -> Iterator[tuple[Node, str]]:
        """Yield each node from an output back to the next state, with its output.

        The last node computes the state.
        """
        name = output
        for _ in range(_DEPTH):
            node = self.makers.get(name)
            if node is None:
                return
            yield node, name
            if _op(node) in _CARRIERS:
                return
            operands = [name for name in node.reads if name in self.makers or name in self.states]
            if not operands:
                return
            name = operands[0]

    def _carries_on(self, name: str, before: Values, stepwise: Values) -> bool:
        """Return whether a tensor has its contents of the previous step, with new slots added."""
        old, new = before.get(name), stepwise.get(name)
        if old is None or new is None:
            return True
        part = first_part(old, new)
        if part is None:
            return True
        size = float(np.abs(old).max(initial=0.0)) + 1e-6
        off = np.abs(part.astype(np.float32) - old.astype(np.float32)) > 1e-2 * size
        limit = off.size * (self._new_share(old) if part.shape == new.shape else 0.0)
        return bool(off.sum() <= limit)

    def _new_share(self, value: Any) -> float:
        """Return the share of slots that a step writes."""
        sizes = [size for size in value.shape if size > 1]
        capacity = self.plan.roles.capacity or max(sizes, default=1)
        return 1.0 / capacity

    def _is_only_difference(
        self, pair: StatePair, tensor: str, feed: Feed, joined_values: Values
    ) -> bool:
        """Return whether this state alone differs from the previous contents of a tensor."""
        value, longer = feed[pair.input], joined_values[tensor]
        expected = first_part(value, longer) if value.ndim == longer.ndim else None
        if expected is None or self.find_deviation(value, expected) is None:
            return False
        states = [feed[name] for name in self.states if name != pair.input]
        return not any(
            value.shape == expected.shape and self.find_deviation(value, expected) is None
            for value in states
        )

    def _faulty_state(self, pair: StatePair, path: Sequence[tuple[Node, str]]) -> _FaultyNode:
        """Return the node that passes on a wrong value of a state."""
        node = path[0][0].label if path else ""
        fact = state_evidence.hands_on_another(pair.output, pair.input)
        return _FaultyNode(node, pair.output, [fact], is_state=True)


def _faulty_node(node: Node, tensor: str, deviation: Deviation, at: int) -> _FaultyNode:
    """Return the node of a tensor that differs from that of all inputs at once, with the fact."""
    return _FaultyNode(node.label, tensor, [state_evidence.differs_at_once(tensor, deviation, at)])


def _op(node: Node) -> str:
    """Return the operator of a node, without its domain."""
    return node.operator.rpartition(".")[2]


def explain_wires(case: Case, party: Party) -> Mapping[str, Any] | None:
    """Return step, position and output where a model with wrongly wired outputs first disagrees
    with itself; None if this has no effect.
    """
    if find_obstacle(case, party):
        return None
    try:
        disagreement = find_disagreement(case, party)
    except REFUSALS:
        return None
    if not isinstance(disagreement, Disagreement):
        return None
    step = party.feeds[disagreement.at].step
    return {
        "step": disagreement.at,
        "position": step.start + step.length - 1,
        "output": disagreement.output,
    }
