"""Finds out whether a model would work in half precision, and what has to stay in float32."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.application.diagnose.data import LeaveOut, choose_feeds_for_half
from polygraphy.binding import resolve
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import Attempt
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.headroom import (
    HalfCulprit,
    NodeLoss,
    Range,
    culprits_among,
    first_invalid,
    order_nodes,
    worst_of,
)
from polygraphy.domain.diagnosis.words import errors, steps, titles
from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.rounding import (
    BESIDE,
    GROWTH,
    MOST,
    Deviation,
    Rounding,
    deviation,
    limit_by_part,
)
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.search.subsets import healing_passes
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.domain.tensors.facts import Facts, is_bounded, is_ordered, layout_of
from polygraphy.domain.tensors.precision import is_float, precision_of
from polygraphy.ports.diagnosing import Compute, NarrowModel, NarrowModels

_TYPES = {"fp16": DataType.FLOAT16, "bf16": DataType.BFLOAT16}

_GAINS = 0.5
"""Nodes that only round are at fault if the error without them is at most this share. Chosen, not
measured."""

_MOST_ASKED = 16
"""If time is short, at most this number of nodes is tested again for being needed."""
_CHECKS = (100, 2000)
"""The fewest and the most checks after which a search that has a set that works ends, though a
smaller one may be left.
"""
_BYTES = 4
"""Bytes of a float32 element."""

Feed = Mapping[str, Any]
Report = Callable[[Attempt], None]


@frozen
class HalfPrecision:
    """The effect of half precision on a model. True if the model works.

    Attributes:
        verdict: ``agree`` if it works, ``fault`` if nodes must stay in float32, ``ill-conditioned``
            if rounding only the inputs changes the outputs as much, or ``inconclusive``.
        before: the error of the outputs with every node in half precision.
        after: the error with the nodes of `kept` in float32.
        kept: the fewest nodes that must stay in float32.
        is_fewest: whether fewer nodes were shown not to be enough; False if the search took too
            long.
        culprits: the nodes at fault among them, with causes.
        losses: the loss of each node when only that node is in half precision.
        checks: number of sets of nodes tried.
        feeds: the number of input sets.
        allowance: factor by which the tolerance was raised, because rounding explains larger
            errors.
        adds_up: whether rounding accumulates over all nodes, so that no few nodes are at fault.
    """

    verdict: str
    before: Deviation
    after: Deviation = field(factory=Deviation)
    kept: Sequence[str] = ()
    culprits: Sequence[HalfCulprit] = ()
    losses: Sequence[NodeLoss] = ()
    checks: int = 0
    feeds: int = 0
    allowance: float = 1.0
    is_fewest: bool = True
    adds_up: bool = False

    def __bool__(self) -> bool:
        """Return whether the model works in half precision."""
        return self.verdict == "agree"


def try_half_precision(
    model: Any,
    dtype: str = "fp16",
    *,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    report: Report | None = None,
) -> HalfPrecision:
    """Return the outputs of a model in half precision, rounded at every operator, and the fewest
    nodes that must stay in float32.

    Args:
        model: an ``onnx.ModelProto``, or a loader that returns one; it is not changed.
        dtype: ``fp16`` or ``bf16``.
        data_loader: source of the input data (default: generated, with both signs, from several
            seeds).
        rtol: the tolerance as a fraction of each element (default: the rounding limit, 16 times the
            spacing of the type: 0.0156 in fp16, 0.125 in bf16).
        atol: the absolute tolerance (default: `rtol` times the root mean square of the output, or
            times 1 for outputs that always lie between -1 and 1). If neither is set, accumulated
            rounding in a deep model is tolerated as well.
        report: a function that is called with each step.

    Raises:
        UnknownNameError: the type does not exist.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run it.
        UsageError: no node can be cast, or there are no data.
    """
    return half_trial(model, dtype, data_loader, (rtol, atol), report).result()


def half_trial(
    model: Any,
    dtype: str,
    data_loader: Any,
    tolerances: tuple[float | None, float | None],
    report: Report | None = None,
    leave_out: LeaveOut = lambda reason: None,
) -> Trial:
    """Return the trial of a model in half precision.
    See `try_half_precision` and `choose_feeds_for_half`.
    """
    half = open_half(model, half_type(dtype), tolerances=tolerances)
    if not half.model.passes:
        raise errors.no_castable_node(dtype)
    return half.try_on(choose_feeds_for_half(half.model, data_loader, leave_out), report)


def half_type(dtype: str) -> DataTypeEntry:
    """Return the data type for a name on the command line.

    Raises:
        UnknownNameError: the type does not exist.
    """
    if dtype not in _TYPES:
        raise UnknownNameError("Data type", dtype, _TYPES)
    return _TYPES[dtype]


def type_name(dtype: DataTypeEntry) -> str:
    """Return the command-line name of a narrow type."""
    return HALF[dtype.name]


def rank_nodes(model: Any, dtype: str = "fp16", *, data_loader: Any = None) -> list[str]:
    """Return the nodes that can compute in half precision, the largest losses first.

    Args:
        model: an ``onnx.ModelProto``, or a loader that returns one; it is not changed.
        dtype: ``fp16`` or ``bf16``.
        data_loader: source of the input data; see `try_half_precision`.

    Raises:
        UnknownNameError: the type does not exist.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run it.
    """
    entry = half_type(dtype)
    opened = open_half(model, entry).model
    feeds = choose_feeds_for_half(opened, data_loader)
    losses = worst_of(opened.measure(feed)[1] for feed in feeds)
    return order_nodes(losses, opened.passes, opened.users, Range.of(entry))


@frozen
class Tolerance:
    """The tolerance of outputs in half precision.

    Attributes:
        dtype: the type in which they are computed.
        facts: the facts about the outputs.
        rtol: the tolerance that replaces the rounding limit.
        atol: the absolute tolerance that replaces it.
        share: factor by which the tolerance is enlarged.
    """

    dtype: DataTypeEntry
    facts: Facts
    rtol: float | None = None
    atol: float | None = None
    share: float = 1.0

    @property
    def is_default(self) -> bool:
        """Return whether no tolerance is set."""
        return self.rtol is None and self.atol is None

    @property
    def element_rtol(self) -> float:
        """Return the relative tolerance of an element."""
        precision = precision_of(self.dtype.name)
        return (
            GROWTH * (precision.epsilon if precision else 0.0) if self.rtol is None else self.rtol
        )

    def rounding(self, name: str, exact: Any) -> Rounding:
        """Return the tolerance of an output as a rounding limit."""
        rtol, atol = self.element_rtol, self.atol
        if atol is not None:
            return Rounding(self.dtype.name, rtol, atol, "").scale(self.share)
        # Subnormal numbers get no allowance: if only one side is narrow, values that its type
        # flushes to zero are an error.
        size = root_mean_square(exact) if is_float(exact) else 0.0
        by_nature = is_bounded(self.facts, name)
        atol = rtol * (max(1.0, size) if by_nature else size)
        new_rounding = Rounding(self.dtype.name, rtol, atol, "")
        layout = layout_of(self.facts, name)
        parted = limit_by_part(new_rounding, name, (exact, exact), layout, is_bounded=by_nature)
        return parted.scale(self.share)

    def error(self, exact: Mapping[str, Any], computed: Mapping[str, Any]) -> Deviation:
        """Return the error of outputs relative to the tolerance.
        Elements that are not finite in the exact outputs are ignored.
        """
        worst = Deviation()
        for name, expected in exact.items():
            value = computed[name]
            if is_float(expected) and is_float(value) and expected.shape == value.shape:
                value = np.where(np.isfinite(expected), value, expected)
            difference = deviation(
                value,
                expected,
                rounding=self.rounding(name, expected),
                is_sorted=is_ordered(self.facts, name),
            )
            if difference.excess > worst.excess or not worst.part:
                worst = evolve(difference, part=difference.part or name)
        return worst

    def worst_error(
        self, exact: Sequence[Mapping[str, Any]], computed: Iterable[Mapping[str, Any]]
    ) -> Deviation:
        """Return the largest error of outputs over all input sets."""
        errors = (self.error(*pair) for pair in zip(exact, computed))
        return max(errors, key=lambda error: error.excess)

    def scale(self, share: float) -> Tolerance:
        """Return the tolerance multiplied by a factor."""
        return evolve(self, share=share)


@frozen
class OpenedHalf:
    """A model that is opened to compute in half precision.

    Attributes:
        model: the model, whose nodes can round.
        tolerance: the tolerance of its outputs.
    """

    model: NarrowModel
    tolerance: Tolerance

    def try_on(
        self,
        feeds: Sequence[Feed],
        report: Report | None = None,
        lowered: LoweredModel | None = None,
    ) -> Trial:
        """Return the trial of the model on data; see `Trial`."""
        return Trial(self.model, self.tolerance, feeds, report, lowered)

    def result(
        self,
        feeds: Sequence[Feed],
        notes: list[str] | None = None,
        lowered: LoweredModel | None = None,
    ) -> HalfPrecision:
        """Return the effect of half precision on the model, and describe it in `notes`."""
        half = self.try_on(feeds, lowered=lowered).result()
        if notes is not None:
            is_measured = half.before != Deviation()
            notes.append(steps.loss(half.verdict, half.before if is_measured else ""))
        return half


def open_half(
    model: Any,
    dtype: DataTypeEntry,
    nodes: Collection[str] | None = None,
    tolerances: tuple[float | None, float | None] = (None, None),
) -> OpenedHalf:
    """Return a model that is opened to compute in half precision.

    Args:
        model: an ``onnx.ModelProto``, or a loader that makes one; it is not changed.
        dtype: the type.
        nodes: the names of the nodes that compute in it (default: all that can).
        tolerances: `rtol` and `atol` of the outputs (default: the rounding limit).

    Raises:
        ModelError: the model cannot be cast.
    """
    opened = resolve(NarrowModels).open(model, dtype, nodes)
    return OpenedHalf(opened, Tolerance(dtype, opened.facts(), *tolerances))


class LoweredModel:
    """A model that a party computes in half precision; its passes are the nodes, and a disabled
    pass computes in float32. The last loaded form is cached.

    Args:
        passes: the names of all nodes that can compute in half precision.
        load: `load` of a party, for the model.
    """

    def __init__(self, passes: Sequence[str], load: Callable[..., Compute]) -> None:
        """Set the names of the nodes, and the function that loads the model."""
        self.passes = passes
        self.loads = 0
        self._load = load
        self._loaded: tuple[tuple[str, ...], Compute] | None = None

    def run(self, feed: Feed, without: Collection[str] = ()) -> Mapping[str, Any]:
        """Return the outputs with some nodes in float32."""
        float32_nodes = set(without)
        key = tuple(name for name in self.passes if name in float32_nodes)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # Free its memory before the next one is loaded.
            is_plain = len(key) == len(self.passes)
            self._loaded = key, self._load(plain=True) if is_plain else self._load(without=key)
            self.loads += 1
        return self._loaded[1](feed)


class BoundedSearch:
    """Asks whether sets of passes remove a fault. Once the limit of runs is reached and a set was
    found, further sets count as failing.

    Args:
        heals: returns whether a set of passes removes the fault.
        nbytes: the bytes of the tensors that a check computes.
        nodes: the number of nodes that it computes.
        most: the largest limit of runs.

    Attributes:
        checks: number of sets tried.
        is_cut_short: whether the limit was reached.
    """

    def __init__(
        self,
        heals: Callable[[Sequence[str]], bool],
        nbytes: int,
        nodes: int,
        most: int | None = None,
    ) -> None:
        """Set the question, and the limit from the size of a run."""
        self._heals = heals
        runs = RunBudget.for_model(nbytes, nodes, *_CHECKS).runs
        self._most = runs if most is None else min(runs, most)
        self._has_worked = False
        self.checks = 0
        self.is_cut_short = False

    def __call__(self, without: Sequence[str]) -> bool:
        """Return whether a set of passes removes the fault."""
        if self._has_worked and self.checks >= self._most:
            self.is_cut_short = True
            return False
        self.checks += 1
        heals = self._heals(without)
        self._has_worked |= heals
        return heals


class Trial:
    """Runs a model in half precision on all data, optionally with some nodes in float32.

    Args:
        model: the model that measures the loss of each node.
        tolerance: the tolerance.
        feeds: the data.
        report: a function that is called with each step.
        lowered: the model to try (default: the model where every operator rounds).

    Attributes:
        feeds: the data.
        exact: the outputs in float32, of each input set.
    """

    def __init__(
        self,
        model: NarrowModel,
        tolerance: Tolerance,
        feeds: Sequence[Feed],
        report: Report | None = None,
        lowered: LoweredModel | None = None,
    ) -> None:
        """Set the model, the tolerance and the data."""
        self._model = model
        self._lowered = lowered or LoweredModel(model.passes, model.load)
        self._limits = Range.of(tolerance.dtype)
        self._tolerance = self._usual = tolerance
        self.feeds = feeds
        self._report = report
        self._order = list(range(len(feeds)))
        self._allowance = 1.0
        with self._record_step(titles.IN_FLOAT32_BY_NODE) as attempt:
            measured = [model.measure(feed) for feed in feeds]
            self.exact = [outputs for outputs, _ in measured]
            self._losses = worst_of(losses for _, losses in measured)
            attempt.append(steps.nodes_measured(len(self._losses), len(feeds)))

    def result(self) -> HalfPrecision:
        """Return the effect of half precision on the model."""
        facts: dict[str, Any] = {"losses": self._losses, "feeds": len(self.feeds)}
        if any(_is_invalid(outputs) for outputs in self.exact):
            invalid = first_invalid(self._losses)
            if invalid is not None:
                return HalfPrecision("fault", Deviation(), culprits=[invalid], **facts)
        before, verdict = self.judge()
        facts["allowance"] = min(MOST, self._allowance)
        if verdict == "agree":
            return HalfPrecision("agree", before, before, checks=1, **facts)
        if verdict:
            adds_up = verdict == "inconclusive"
            checks = 0 if adds_up else 2
            facts["allowance"] = 1.0
            return HalfPrecision(verdict, before, before, checks=checks, adds_up=adds_up, **facts)
        with self._record_step(titles.FEWEST_IN_FLOAT32) as attempt:
            order = order_nodes(self._losses, self._model.passes, self._model.users, self._limits)
            search = BoundedSearch(self._heals, *self._cost())
            kept_nodes = healing_passes(order, search, is_ranked=True)
            attempt.append(steps.sets_tried(len(kept_nodes or ()), len(order), search.checks))
            if search.is_cut_short:
                attempt.append(steps.CUT_SHORT)
        facts |= {"is_fewest": not search.is_cut_short, "checks": search.checks}
        if kept_nodes is None:
            return HalfPrecision("inconclusive", before, before, **facts)
        if search.is_cut_short:
            kept_nodes = self._drop_unneeded_nodes(kept_nodes)
        self._tolerance = self._usual.scale(facts["allowance"])
        with self._record_step("counter-check") as attempt:
            feeds = (self._lowered.run(feed, kept_nodes) for feed in self.feeds)
            after = self._tolerance.worst_error(self.exact, feeds)
            attempt.append(steps.counter_check(after))
        in_order = [name for name in self._model.passes if name in set(kept_nodes)]
        half_culprits = culprits_among(in_order, self._losses, self._model.users, self._limits)
        is_enough = after.is_tolerable or self._allowance > MOST
        verdict = "fault" if is_enough else "inconclusive"
        is_rounding = not before.broken and all(
            half_culprit.fault.cause == "rounding" for half_culprit in half_culprits
        )
        gains = after.excess * facts["allowance"] <= _GAINS * before.excess
        if is_rounding and not gains and not self._amplifies(in_order):
            verdict, half_culprits = "inconclusive", []
        facts |= {"culprits": half_culprits, "adds_up": not half_culprits}
        return HalfPrecision(verdict, before, after, in_order, **facts)

    def judge(self, compute: Compute | None = None) -> tuple[Deviation, str]:
        """Return the output error with every node narrow, and the verdict if it is final.

        The verdict is ``agree``, ``ill-conditioned``, or ``inconclusive`` if accumulated rounding
        is too large.

        Args:
            compute: the function that computes the narrow model, if it exists already.
        """
        with self._record_step(titles.all_nodes_in(HALF[self._limits.name])) as attempt:
            feeds = [(compute or self._lowered.run)(feed) for feed in self.feeds]
            errors = [self._tolerance.error(*pair) for pair in zip(self.exact, feeds)]
            before = max(errors, key=lambda error: error.excess)
            attempt.append(steps.error_of_all(before))
        self._order.sort(key=lambda index: -errors[index].excess)
        if not before.is_tolerable and not before.broken:
            inputs_excess = self._inputs_error().excess
            if inputs_excess > 1 and before.excess <= MOST * inputs_excess:
                return before, "ill-conditioned"
            # Rounded inputs explain a part of the error; look for faults that are clearly larger.
            self._raise_tolerance(BESIDE * inputs_excess if inputs_excess > 1 else 1.0)
        if not before.is_tolerable and not self._has_own_tolerance():
            rounding_excess = self._rounding_error().excess
            share = BESIDE * rounding_excess
            explains = not before.broken and before.excess <= share
            # Rounded integers, such as positions, can be at fault alone: the search shows it.
            is_alike = not any(
                loss.cancels(self._limits) or loss.rounded_integers for loss in self._losses
            )
            if is_alike and explains and before.excess > MOST:
                return before, "inconclusive"
            # Rounding explains a part of the error; look for faults that are clearly larger.
            is_most = is_alike and rounding_excess > MOST
            self._raise_tolerance(share if is_most else min(MOST, share))
        if before.excess > self._allowance:
            return before, ""
        return evolve(before, excess=before.excess / self._allowance), "agree"

    @property
    def tolerance(self) -> Tolerance:
        """Return the tolerance, including accumulated rounding."""
        return self._usual.scale(min(MOST, self._allowance))

    @contextmanager
    def _record_step(self, title: str) -> Iterator[list[str]]:
        """Yield a list for the notes of a step of the search, and report the step with its time."""
        notes: list[str] = []
        start = time.perf_counter()
        yield notes
        if self._report is not None:
            self._report(Attempt(title, join_statements(*notes), time.perf_counter() - start))

    def _heals(self, without: Sequence[str]) -> bool:
        """Return whether the outputs are close enough without some passes, tested on the data that
        fail most first."""
        return all(self._error(index, without).is_tolerable for index in self._order)

    def _cost(self) -> tuple[int, int]:
        """Return the bytes of tensors and the number of nodes that a check computes on all data."""
        sizes = (result.elements for loss in self._losses for result in loss.results)
        return len(self.feeds) * _BYTES * sum(sizes), len(self.feeds) * len(self._losses)

    def _drop_unneeded_nodes(self, kept_nodes: list[str]) -> list[str]:
        """Return the kept nodes without those that are neither at fault nor needed,
        after an interrupted search."""
        half_culprits = culprits_among(kept_nodes, self._losses, self._model.users, self._limits)
        for half_culprit in half_culprits[:_MOST_ASKED]:
            fewer = [name for name in kept_nodes if name not in half_culprit.nodes]
            if all(self._error(index, fewer).is_tolerable for index in self._order):
                kept_nodes = fewer
        return kept_nodes

    def _error(self, index: int, without: Collection[str]) -> Deviation:
        """Return the error of the lowered model on one input set."""
        error = self._lowered.run(self.feeds[index], without)
        return self._tolerance.error(self.exact[index], error)

    def _has_own_tolerance(self) -> bool:
        """Return whether a tolerance is set, or a node amplifies rounding."""
        return not self._tolerance.is_default or any(
            loss.rounds(self._limits) for loss in self._losses
        )

    def _amplifies(self, names: Collection[str]) -> bool:
        """Return whether one of these nodes amplifies rounding."""
        return any(loss.amplifies(self._limits) for loss in self._losses if loss.name in names)

    def _rounding_error(self) -> Deviation:
        """Return the output error due to rounding alone, on the worst input set."""
        index = self._order[0]
        return self._tolerance.error(self.exact[index], self._model.run_rounded(self.feeds[index]))

    def _raise_tolerance(self, share: float) -> None:
        """Multiply the tolerance by a factor, if that makes it larger."""
        if share > 1:
            self._allowance = share
            self._tolerance = self._usual.scale(share)

    def _inputs_error(self) -> Deviation:
        """Return how rounding the inputs alone changes the float32 outputs, on the worst input set;
        none if an input does not fit into the type.
        """
        index, dtype = self._order[0], self._tolerance.dtype
        rounded = {name: _round_values(value, dtype) for name, value in self.feeds[index].items()}
        if all(np.isfinite(value).all() for value in rounded.values() if is_float(value)):
            values = self._lowered.run(rounded, self._lowered.passes)
            return self._tolerance.error(self.exact[index], values)
        return Deviation()


def _is_invalid(outputs: Mapping[str, Any]) -> bool:
    """Return whether outputs have NaN or infinite elements."""
    return any(is_float(array) and not np.isfinite(array).all() for array in outputs.values())


def _round_values(value: Any, dtype: DataTypeEntry) -> Any:
    """Return a value rounded to a data type, in its own type."""
    array = np.asarray(value)
    with np.errstate(over="ignore"):
        return array.astype(dtype.numpy()).astype(array.dtype) if is_float(array) else array
