"""Two runs of a model with states, side by side: each on its own states, one step in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.comparisons.integer_states import (
    integer_codes,
    integer_types,
    move_state,
)
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.words import steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.rounding import Deviation, deviation, rounding_between
from polygraphy.domain.states.aligning import (
    fit_state,
    padding,
    same_positions,
    without_padding,
)
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.states.memory import StateMemory, StepFeed
from polygraphy.domain.states.pairs import GROWS, SLOTS, StatePair
from polygraphy.domain.states.plan import StatePlan
from polygraphy.domain.states.uses import CHUNK, MASK, POSITIONS, TOKENS
from polygraphy.domain.tensors.facts import Facts, compute_dtype, is_bounded
from polygraphy.domain.tensors.precision import coarsest_type, is_float, precision_of
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import OpenModel, move_weights, weight_precision

_BESIDE = 4.0
"""Multiple of the measured rounding error that is accepted: two random moves of all weights show
the size of that error, not its largest value. With it, `lab/states` blames no healthy model."""
_LARGEST = 0.25
"""However sensitive a model is, errors above this share of the size of an output are not
explained: beyond, its tokens are random. Chosen, not measured."""
_OTHER = 1e-2
"""States that differ by more of their size while all outputs agree hold something else. Chosen,
not measured."""
_SEEDS = (0, 1)
"""Seeds of the two runs with perturbed weights."""
_COARSE = ("float16", "bfloat16")
_LEVEL_4 = 2.0**-6
"""The epsilon of weights that loses as much as 8-bit activations in blocks of 32 do."""


@frozen
class Party:
    """One of two models (or the program) that run the same steps.

    Attributes:
        name: its name.
        party: the backend.
        model: its model.
        plan: the states of that.
        feeds: the inputs of each step, without states but for the first.
        facts: the facts about the outputs.
        first: another model that runs the first step; None for none.
        has_weights: whether variants of its model can be run.
    """

    name: str
    party: SuspectedParty
    model: OpenModel
    plan: StatePlan
    feeds: Sequence[StepFeed]
    facts: Facts
    first: OpenModel | None = None
    has_weights = True

    def stored_precision(self) -> str | None:
        """Return the half precision that the weights are rounded to; None if they are not."""
        return weight_precision(self.model.proto)

    def load(self, proto: Any = None) -> Compute:
        """Return a function that computes one step of the model, or of a variant."""
        compute = self.party.load(self.model.proto if proto is None else proto)
        if self.first is None:
            return compute
        return self._choose(compute, self.party.load(self.first.proto), {})

    def load_marked(self, party: SuspectedParty) -> Compute:
        """Return a function that computes all tensors of a step in a backend.
        Tensors of the first step have the names of later steps; those without a counterpart are
        left out.
        """
        compute = party.load(self.model.with_all_outputs(), plain=True)
        if self.first is None:
            return compute
        pairing = pair_graphs(self.model.graph, self.first.graph)
        names = {tensor: name for name, tensor in pairing.tensors.items()}
        return self._choose(compute, party.load(self.first.with_all_outputs(), plain=True), names)

    def _choose(
        self, compute: Compute, compute_first: Compute, names: Mapping[str, str]
    ) -> Compute:
        """Return a function that runs each feed in the first-step model or the main model,
        according to its inputs."""
        needed = [*self.model.inputs]
        names = {**names, **self.feeds[0].names}

        def compute_step(feed: Feed) -> dict[str, Any]:
            """Return the outputs of one step; the model without states computes the first."""
            if all(name in feed for name in needed):
                return compute(feed)
            values = compute_first(feed)
            return {names[name]: value for name, value in values.items() if name in names}

        return compute_step

    def maker_of(self, output: str) -> list[str]:
        """Return the name of the node that computes an output, in a list; empty if unknown."""
        makers = {name: node.label for node in self.model.nodes for name in node.makes}
        if output not in makers and self.first is not None:
            renamed = {name: own_name for own_name, name in self.feeds[0].names.items()}
            output = renamed.get(output, output)
            makers = {name: node.label for node in self.first.nodes for name in node.makes}
        return [makers[output]] if makers.get(output) else []

    def partner(self, pair: StatePair, plan: StatePlan) -> StatePair | None:
        """Return the matching state of another plan: by name, else by order, or None.
        The result is None if there is none."""
        by_name = next(
            (state_pair for state_pair in self.plan.pairs if state_pair.input == pair.input), None
        )
        if by_name is not None or len(self.plan.pairs) != len(plan.pairs):
            return by_name
        return self.plan.pairs[list(plan.pairs).index(pair)]


@define
class Run:
    """A run of a model over the steps so far, on its own states.

    Attributes:
        who: the model that runs.
        compute: the function that computes a step.
        at: number of steps run.
        feed: the inputs of the last step, states included.
        values: the outputs of the last step, with whole states.
        shown: the same, with only the new slots of states.
    """

    who: Party
    compute: Compute
    at: int = 0
    feed: Feed = field(factory=dict)
    values: Values = field(factory=dict)
    shown: Values = field(factory=dict)
    memory: StateMemory = field(factory=StateMemory)

    def advance(self) -> None:
        """Run the next step.

        Raises:
            BackendError: it fails; the message says which step it is.
        """
        feed = self.who.feeds[self.at]
        self.feed = self.memory.complete(feed)
        try:
            self.values = self.compute(self.feed)
        except REFUSALS as error:
            where = steps.failing_step(feed.step.index, feed.step.length)
            raise BackendError(f"{where}: {error}", backend=self.who.name) from error
        self.shown = self.memory.keep(feed, self.feed, self.values, self.who.name)
        self.at += 1


class Drift:
    """Measures the effect of rounding over the steps: a model runs together with copies whose
    weights, and half-precision states, are perturbed by rounding errors."""

    def __init__(
        self, party: Party, weights: float, states: float, codes: Mapping[str, float]
    ) -> None:
        """Set the party, the relative sizes of the perturbations, and the value of an integer code
        by state."""
        self._who, self._states, self._codes = party, states, codes
        self._weights = weights
        self._runs: list[Run] | None = None
        self._seen: list[dict[str, float]] = []

    def rms_of(self, at: int, name: str) -> float:
        """Return the RMS by which rounding, in this and earlier steps, changes an output of a step.
        The result is 0 if that cannot be computed."""
        while len(self._seen) <= at:
            self._seen.append(self._run_next_step())
        return max(drift.get(name, 0.0) for drift in self._seen[: at + 1])

    def _run_next_step(self) -> dict[str, float]:
        """Run one more step of each model, and return the RMS by which each output moves;
        the changes are small. The result is empty if a run fails.
        """
        try:
            if self._runs is None:
                protos = [None, *(self._move_weights(seed) for seed in _SEEDS)]
                self._runs = [Run(self._who, self._who.load(proto)) for proto in protos]
            for number, run in enumerate(self._runs):
                run.advance()
                if number and (self._states or self._codes):
                    self._move_states(run, number)
        except REFUSALS:
            self._runs = self._runs or []
            return {}
        if not self._runs:
            return {}
        exact, *moved = self._runs
        hidden = padding(self._who.plan, exact.feed)
        feed = self._who.feeds[exact.at - 1]
        return {
            name: max(
                (rms(_drop_hidden_positions(feed, name, run.shown[name], hidden),
                     _drop_hidden_positions(feed, name, value, hidden)) for run in moved),
                default=0.0,
            )
            for name, value in exact.shown.items()
            if is_float(value)
        }  # fmt: skip

    def _move_weights(self, seed: int) -> Any:
        """Return the model with slightly changed weights, chosen by a seed."""
        return move_weights(self._who.model.proto, self._weights, seed)

    def _move_states(self, run: Run, seed: int) -> None:
        """Change the states of a run slightly: by random factors, and by part of an integer code if
        either party keeps integers.
        """
        draw = np.random.default_rng([seed, run.at])
        for name, value in run.memory.states.items():
            if value.size and (is_float(value) or name in self._codes):
                moves = draw.uniform(-0.5, 0.5, value.shape)
                code = self._codes.get(name)
                run.memory.states[name] = move_state(value, moves, self._states, code)


def rms(value: Any, expected: Any) -> float:
    """Return the RMS of a difference over finite elements."""
    if value.shape != expected.shape or not value.size:
        return 0.0
    with np.errstate(all="ignore"):
        off = value.astype(np.float64) - expected.astype(np.float64)
    off = off[np.isfinite(off)]
    return float(np.sqrt(np.mean(np.square(off)))) if off.size else 0.0


def _drop_hidden_positions(feed: StepFeed, name: str, value: Any, hidden: Any) -> Any:
    """Return an output without the positions that are never read."""
    if hidden is None or not is_float(value):
        return value
    return without_padding(value, hidden, *feed.step.positions_of(name, value))


@frozen
class Judge:
    """Decides whether the outputs of a step of two parties differ by more than rounding.

    Attributes:
        own: the party that is diagnosed.
        right: the correct one.
        drift: the drift caused by rounding over the steps.
        dtype: the coarsest type that either computes in, stores weights or keeps states in.
        coarse: the side that is coarser than float32, in words.
    """

    own: Party
    right: Party
    drift: Drift
    dtype: str
    coarse: Sequence[str] = ()

    @staticmethod
    def between(case: Case, candidate: Party, reference: Party) -> Judge:
        """Return the judge of two parties, by the precision of both."""
        sides = (candidate, reference)
        computed = [compute_dtype(side.facts, side.plan.roles.judged or "") for side in sides]
        stored = {side.stored_precision() for side in sides}
        weights = [dtype for dtype in stored if dtype is not None] if len(stored) > 1 else []
        states = [
            dtype
            for side in sides
            for pair in side.plan.pairs
            if (dtype := side.plan.inputs[pair.input].dtype) in _COARSE
        ]
        epsilons = [
            precision.epsilon
            for dtype in (*computed, *weights)
            if dtype is not None and (precision := precision_of(dtype)) is not None
        ]
        levels = [side.plan.accuracy_levels() for side in sides]
        if any(4 in level for level in levels):
            epsilons.append(_LEVEL_4)
        epsilon = max((precision_of(dtype).epsilon for dtype in states), default=0.0)  # type: ignore[union-attr]
        moved = reference if reference.has_weights else candidate
        codes = integer_codes(sides, moved)
        drift = Drift(moved, max([*epsilons, 2.0**-23]), epsilon, codes)
        types = [dtype for dtype in (*computed, *weights, *states) if dtype is not None]
        precision = coarsest_type(types)
        coarse = [
            *(titles.rounded_weights(dtype) for dtype in weights),
            *map(titles.half_cache, dict.fromkeys(states)),
            *map(titles.integer_cache, dict.fromkeys(integer_types(sides))),
            *([titles.COARSE_ACTIVATIONS] if 4 in {*levels[0], *levels[1]} else []),
        ]
        return Judge(
            candidate, reference, drift, "float32" if precision is None else precision.name, coarse
        )

    def find_deviations(
        self,
        at: int,
        run: Run,
        reference_run: Run,
        names: Mapping[str, str],
        *,
        is_whole: bool = False,
    ) -> dict[str, Deviation]:
        """Return the deviations of outputs of a step that differ.

        Args:
            at: the step.
            run: the run that is diagnosed.
            reference_run: the other.
            names: its outputs, and those of the other.
            is_whole: whether states are compared with their old slots.
        """
        pairs = (run.values, reference_run.values) if is_whole else (run.shown, reference_run.shown)
        return self.find_value_deviations(at, (run.feed, reference_run.feed), pairs, names)

    def find_value_deviations(
        self,
        at: int,
        feeds: tuple[Feed, Feed],
        values: tuple[Values, Values],
        names: Mapping[str, str],
    ) -> dict[str, Deviation]:
        """Return the deviations of outputs that differ, given their values at a step."""
        hidden = [padding(side.plan, feed) for side, feed in zip((self.own, self.right), feeds)]
        differing = {}
        for name, other_name in names.items():
            if name not in values[0] or other_name not in values[1]:
                continue
            value = _drop_hidden_positions(self.own.feeds[at], name, values[0][name], hidden[0])
            expected = _drop_hidden_positions(
                self.right.feeds[at], other_name, values[1][other_name], hidden[1]
            )
            if name == self.own.plan.roles.judged and self.own.plan.is_decoder:
                value, expected = same_positions(value, expected, self.own.plan.roles.axis)
            off = self.judge(at, name, other_name, value, expected)
            if off is not None:
                differing[name] = off
        return differing

    def judge(
        self, at: int, name: str, other_name: str, value: Any, expected: Any
    ) -> Deviation | None:
        """Return the deviation of an output if rounding does not explain it; else None."""
        if is_float(value) and is_float(expected) and value.shape == expected.shape:
            values = value.astype(np.float32, copy=False), expected.astype(np.float32, copy=False)
            bounded = is_bounded(self.own.facts, name)
            off = deviation(
                *values,
                0.0,
                rounding_between(values, (self.dtype, None), is_bounded=bounded),
                is_bounded=bounded,
            )
            if not off.is_wrong or off.broken:
                return off if off.is_wrong else None
            error, size = rms(value, expected), rms(expected, np.zeros_like(expected))
            limit = min(_BESIDE * self.drift.rms_of(at, other_name), _LARGEST * size)
            return None if error <= limit else off
        off = deviation(value, expected, 0.0, None)
        return off if off.is_wrong else None


@frozen
class FirstWrongStep:
    """The first step in which an output other than a state differs.

    Attributes:
        at: the step.
        output: the output.
        off: the deviation.
        own: the run of the diagnosed model, up to this step.
        right: the run of the reference.
    """

    at: int
    output: str
    off: Deviation
    own: Run
    right: Run

    @property
    def position(self) -> int:
        """Return the token or frame with the largest difference, counted over all steps."""
        step, axis = self.own.who.feeds[self.at].step, self.own.who.plan.roles.axis
        where = self.off.where
        offset = where[axis] if len(where) > axis and where[axis] < step.length else step.length - 1
        return step.start + int(offset)


@frozen
class PartyRuns:
    """The result of running two models over the steps: the first wrong output, and the states that
    differ.

    Attributes:
        first: the first wrong step; None if all agree.
        states: states that differ although all outputs agree: they have different contents.
        unread: states that differ only after the last step, so that no step reads them.
    """

    first: FirstWrongStep | None
    states: Sequence[str] = ()
    unread: Sequence[str] = ()


def output_names(party: Party, reference: Party) -> dict[str, str]:
    """Return pairs of outputs to compare, except states: by name,
    by export order, or else the judged ones. If all outputs are states, these are compared.
    """
    states = {pair.output for pair in party.plan.pairs}
    outputs = {pair.output for pair in reference.plan.pairs}
    names, other_names = [*party.model.outputs], [*reference.model.outputs]
    is_numbered = {*names} != {*other_names} and len(names) == len(other_names)
    pairs = (
        zip(names, other_names)
        if is_numbered
        else ((name, name) for name in names if name in other_names)
    )
    found_names = {
        name: other_name
        for name, other_name in pairs
        if name not in states and other_name not in outputs
    }
    if found_names:
        return found_names
    judged, other_judged = party.plan.roles.judged, reference.plan.roles.judged
    if judged is not None and other_judged is not None:
        return {judged: other_judged}
    return state_names(party, reference)


def state_names(party: Party, reference: Party) -> dict[str, str]:
    """Return pairs of outputs that are states."""
    return {
        pair.output: partner.output
        for pair in party.plan.pairs
        if (partner := reference.partner(pair, party.plan)) is not None
    }


def run_side_by_side(judge: Judge, own_model: Any = None) -> PartyRuns:
    """Return the runs of two parties on their own states, up to the first wrong step.

    Args:
        judge: of both.
        own_model: a variant of the model that is run in its place.
    """
    candidate = Run(judge.own, judge.own.load(own_model))
    reference_run = Run(judge.right, judge.right.load())
    outputs, states = output_names(judge.own, judge.right), state_names(judge.own, judge.right)
    doubtful: set[str] = set()
    different: set[str] = set()
    for at in range(len(judge.own.feeds)):
        candidate.advance()
        reference_run.advance()
        wrong = judge.find_deviations(at, candidate, reference_run, outputs)
        if wrong:
            output, off = next(iter(wrong.items()))
            return PartyRuns(
                FirstWrongStep(at, output, off, candidate, reference_run), sorted(different)
            )
        different |= doubtful
        comparable = {*_comparable_outputs(candidate, reference_run, states)}
        changed = judge.find_deviations(at, candidate, reference_run, states)
        doubtful = {name for name in comparable & {*changed} if changed[name].relative > _OTHER}
    shapes = (
        (candidate.values.get(name), reference_run.values.get(state))
        for name, state in states.items()
    )
    resized = {
        name
        for name, (value, shape) in zip(states, shapes)
        if value is not None and shape is not None and _shape(value) != _shape(shape)
    }
    return PartyRuns(
        None,
        [name for name in states if name in different | resized],
        [name for name in states if name in doubtful - different - resized],
    )


def _shape(value: Any) -> Any:
    """Return the shape of a value; None if it has none."""
    return getattr(value, "shape", None)


def _comparable_outputs(candidate: Run, reference: Run, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the outputs that have the same shape in both runs."""
    for name, other_name in names.items():
        value, two = candidate.shown.get(name), reference.shown.get(other_name)
        if value is not None and two is not None and value.shape == two.shape:
            yield name


def feeds_on_same_data(
    candidate: Party, right_loader: StepLoader, feeds: Sequence[StepFeed]
) -> list[StepFeed]:
    """Return the inputs of the steps of another model, filled with this model's data by input name
    or role."""
    plan = right_loader.plan
    states = {pair.input for pair in plan.pairs}
    named: dict[str, str] = {}
    for role in (TOKENS, CHUNK, POSITIONS, MASK):
        names, two = candidate.plan.roles.inputs_of(role), plan.roles.inputs_of(role)
        if len(names) == len(two) == 1:
            named[two[0]] = names[0]
    step_feeds = []
    for step_feed, feed in zip(feeds, candidate.feeds):
        arrays = dict(step_feed)
        for name, array in step_feed.items():
            source = name if name in feed else named.get(name, "")
            if name in states or source not in feed:
                continue
            new = feed[source]
            if (
                new.shape == array.shape
                or plan.inputs[name].shape is None
                or new.ndim == array.ndim
            ):
                arrays[name] = new.astype(array.dtype, copy=False)
        batch = next(
            (
                feed[name].shape[0]
                for name in candidate.plan.roles.inputs_of(TOKENS)
                if feed[name].ndim
            ),
            1,
        )
        for pair in plan.pairs:
            first = arrays.get(pair.input)
            if first is not None and first.ndim and first.shape[0] == 1 and batch > 1:
                arrays[pair.input] = np.repeat(first, batch, 0)
        step_feeds.append(step_feed.with_arrays(arrays))
    return step_feeds


def reference_party(case: Case, candidate: Party, loader: StepLoader, opened: OpenModel) -> Party:
    """Return the party that runs a reference on the same data.
    It also runs the first step if it accepts its inputs; else both share a model for it.
    """
    first = candidate.first
    if first is not None and {*candidate.feeds[0]} <= {*opened.inputs}:
        first = None
    first_model = None if first is None else loader.first_model
    reference_loader = loader.for_model(opened.proto, first_model, titles.REFERENCE)
    describe_model(reference_loader, opened.inputs, opened.facts)
    feeds = feeds_on_same_data(candidate, reference_loader, list(reference_loader))
    party = case.parties[0]
    return Party(
        titles.REFERENCE, party, opened, reference_loader.plan, feeds, opened.facts(), first
    )


def feed_with_states(
    candidate: Party,
    reference: Party,
    at: int,
    own_feed: Feed | None,
    right_feed: Feed,
    kept_names: Sequence[str] = (),
) -> dict[str, Any] | None:
    """Return the inputs of a step with states taken from the other party; None if they do not fit.

    Args:
        candidate: the party that is fed.
        reference: the other.
        at: the step.
        own_feed: the inputs of the party with its own states; None if unknown.
        right_feed: the same of the other.
        kept_names: inputs that keep their own states.
    """
    feed = dict(candidate.feeds[at])
    if at == 0 and candidate.first is not None:
        return feed
    for pair in candidate.plan.pairs:
        if own_feed is not None and pair.input in kept_names:
            feed[pair.input] = own_feed[pair.input]
            continue
        partner = reference.partner(pair, candidate.plan)
        value = None if partner is None else right_feed.get(partner.input)
        like = _match_state(candidate, pair, at, own_feed, value)
        fitted = None if value is None or like is None else fit_state(value, like, pair)
        if fitted is None:
            return None
        feed[pair.input] = fitted
    return feed


def _match_state(
    candidate: Party, pair: StatePair, at: int, own_feed: Feed | None, value: Any
) -> Any:
    """Return an array in the shape and type that a state has in a step."""
    if own_feed is not None and pair.input in own_feed:
        return own_feed[pair.input]
    first = candidate.feeds[0].get(pair.input)
    if first is None and candidate.first is not None:
        first = candidate.plan.initial(pair)
    if first is None or value is None:
        return None
    shape = list(first.shape)
    if pair.kind == GROWS and pair.axis is not None:
        shape[pair.axis] = candidate.feeds[at].step.start
    elif value.ndim == first.ndim and pair.kind != SLOTS:
        shape = list(value.shape)
    return np.broadcast_to(np.zeros((), first.dtype), shape)
