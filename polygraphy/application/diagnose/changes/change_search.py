"""The search for a changed node, for every oracle: which change of one node makes a model, or a
part of it, compute what is expected.

A caller names the part, what is expected of it, and the kinds of changes that may explain it. Here
they are tried: within one budget, and in a process of its own, because a backend may crash if a
node is not what it should be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from math import inf
from typing import Any, TypeVar

import numpy as np
from attrs import define, evolve, field, frozen

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.parts import Part
from polygraphy.application.diagnose.subprocesses import filter_in_subprocess, try_in_subprocess
from polygraphy.domain.diagnosis.borrowed import (
    borrowed_variants,
    scalar_weights,
    with_weight,
)
from polygraphy.domain.diagnosis.closeness import mean_square_error
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.solving import solve_weights
from polygraphy.domain.diagnosis.variants import (
    Variant,
    integer_variants,
    matches_expected,
    numeric_attributes,
    variants,
    with_number,
)
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import open_model

_TRIES = (64, 768)
"""The fewest and the most changes of a part that are tried."""
_WORK = 8 << 30
"""Bytes of tensors that all runs compute together; the fewest may compute more."""
_FEW_NODES = 16
"""In a part with more nodes, fewer changes are tried: each computes all of them."""
_TENSORS = 64
"""Tensors that are tried instead of an input of a node."""

T = TypeVar("T")
Explains = Callable[[Values, Compute], bool]
"""Returns whether computed tensors are as expected; it also gets what computes them."""


@define
class Budget:
    """How much a search may try, and the record of how much it has tried.

    Attributes:
        tries: the number of changes.
        seconds: the time, from now.
        tried: how many were tried.
        is_cut_short: whether some were not.
    """

    tries: float = inf
    seconds: float = inf
    tried: int = 0
    is_cut_short: bool = False
    _start: float = field(factory=time.perf_counter)

    @classmethod
    def for_runs(cls, nbytes: int, fewest: int, most: int) -> Budget:
        """Return the budget for runs that compute so many bytes of tensors each."""
        return cls(int(np.clip(_WORK // max(nbytes, 1), fewest, most)))

    @classmethod
    def for_part(cls, nbytes: int, nodes: int) -> Budget:
        """Return the budget for changes in a part of a model.

        Args:
            nbytes: what its tensors take.
            nodes: how many it has.
        """
        most = _TRIES[1] * _FEW_NODES // max(nodes, _FEW_NODES)
        return cls.for_runs(nbytes, _TRIES[0], max(most, _TRIES[0]))

    @property
    def is_spent(self) -> bool:
        """Return whether nothing more may be tried."""
        return self.tried >= self.tries or time.perf_counter() - self._start > self.seconds

    def take(self, candidates: Iterable[T]) -> Iterator[T]:
        """Yield candidates, each of which is tried, until the budget is spent."""
        for candidate in candidates:
            if self.is_spent:
                self.is_cut_short = True
                return
            self.tried += 1
            yield candidate


@frozen
class OtherTensor:
    """A tensor that a node may have read.

    Attributes:
        name: its name.
        value: its value.
        is_in_model: whether the model computes it; if not, a node is missing.
    """

    name: str
    value: Any
    is_in_model: bool = True


@frozen
class ChangeSearch:
    """Tries changes of nodes.

    Attributes:
        graph: the model.
        part: the model, or a part of it, in which nodes are changed.
        goals: by tensor, what the part should compute.
        runners: the backends; the first that takes a part computes it.
        budget: how much is tried.
        explains: whether computed tensors are right (default: they match the goals).
        prover: a backend that has to compute the same with all its rewrites.
        is_reshaped: whether goals have the shapes that the unchanged part computes.
        limit: how many bytes the tensors of a changed part may take.
    """

    graph: Side
    part: Part
    goals: Values
    runners: tuple[SuspectedParty, ...]
    budget: Budget
    explains: Explains | None = field(default=None, kw_only=True)
    prover: SuspectedParty | None = field(default=None, kw_only=True)
    is_reshaped: bool = field(default=False, kw_only=True)
    limit: float = field(default=inf, kw_only=True)

    @property
    def is_right(self) -> bool:
        """Return whether the part computes what is expected without a change."""
        return self._is_right(None)

    def matching(self, candidates: Iterable[Variant]) -> Iterator[Variant]:
        """Yield the candidates with which the part computes what is expected."""
        return filter_in_subprocess(self.budget.take(candidates), self._is_right, self.runners[-1])

    def find_usual(self, position: int) -> Iterator[Variant]:
        """Yield variants of a node by common mistakes."""
        return self.matching(usual_variants(self.graph, position))

    def find_borrowed(
        self, position: int, donor: Side, donor_nodes: Collection[int]
    ) -> Iterator[Variant]:
        """Yield variants of a node with what nodes of another model have."""
        return self.matching(borrowed_variants(self.graph, position, donor, [*donor_nodes]))

    def find_weights(self, position: int, output: Any, goal: Any) -> Iterator[Variant]:
        """Yield variants of a node with a weight solved for what it should compute."""
        return self.matching(solve_weights(self.graph, position, self.part.feed, output, goal))

    def find_numbers(self, position: int) -> Iterator[Variant]:
        """Yield variants of a node in which one number is solved for: an attribute, or a weight."""
        node, graph = self.graph.nodes[position], self.graph
        makers: list[Callable[[float], Variant]] = [
            partial(with_number, node, name) for name in numeric_attributes(node)
        ]
        makers += [
            partial(_with_scalar, graph, position, name) for name in scalar_weights(graph, position)
        ]
        for make in makers:
            if self.budget.is_spent:
                return
            number = try_in_subprocess(partial(self._nearest_number, make), self.runners[-1])
            if number is not None:
                yield from self.matching([make(number)])

    def find_inputs(
        self, position: int, candidates: Iterable[OtherTensor], equal: Collection[str]
    ) -> Iterator[Variant]:
        """Yield variants of a node that reads another tensor.

        Args:
            position: the node; nothing else in the part may read the same.
            candidates: the tensors that it may read.
            equal: inputs that are known to be right, so that a node may be missing behind them.
        """
        node, feed = self.graph.nodes[position], self.part.feed
        shared = {
            name
            for single_node in open_model(self.part.model).nodes
            if not set(single_node.makes) & set(node.outputs)
            for name in single_node.reads
        }
        computed = self._computed_from(position)
        # A loaded model does not survive the start of a process, so each process loads its own.
        load = cache(lambda: self._load(self.part))
        pool = [candidate for candidate in candidates if candidate.name not in computed]
        for operand in dict.fromkeys(node.inputs):
            if operand not in feed or operand in shared:
                continue
            alike = _alike(pool, operand, feed[operand], is_missing=operand in equal)

            def is_right(other_tensor: OtherTensor, operand: str = operand) -> bool:
                """Return whether the nodes compute the expected values with another tensor as
                input.
                """
                try:
                    values = load()({**feed, operand: other_tensor.value})
                except PolygraphyException:
                    return False
                return self._matches_goals(values, load())

            tried = filter_in_subprocess(self.budget.take(alike), is_right, self.runners[-1])
            for candidate in tried:
                reads = tuple(
                    candidate.name if input_name == operand else input_name
                    for input_name in node.inputs
                )
                change = (
                    changes.other_input(node.op, operand, candidate.name)
                    if candidate.is_in_model
                    else changes.lost_node_between(node.op, candidate.name, operand)
                )
                yield Variant("structure", change, evolve(node, inputs=reads))

    def _computed_from(self, position: int) -> set[str]:
        """Return the tensors that depend on a node."""
        waiting, upstream = [position], set[str]()
        while waiting:
            names = set(filter(None, self.graph.nodes[waiting.pop()].outputs)) - upstream
            upstream |= names
            waiting += {index for name in names for index, _ in self.graph.readers.get(name, ())}
        return upstream

    def _load(self, part: Part, prover: SuspectedParty | None = None) -> Compute:
        """Return a part loaded by a backend that takes it, with rewrites if it has to prove it."""
        if prover is not None:
            return part.load(prover)
        return part.load_first(self.runners)

    def _is_right(self, variant: Variant | None) -> bool:
        """Return whether the part computes what is expected with a variant of one node."""
        return self._computes_expected(variant) and (
            self.prover is None or self._computes_expected(variant, self.prover)
        )

    def _computes_expected(
        self, variant: Variant | None, prover: SuspectedParty | None = None
    ) -> bool:
        """Return whether a variant computes the expected values; None stands for the part as it
        is.
        """
        try:
            part = self.part if variant is None else self.part.change(output_name(variant), variant)
            if not self._is_small(part):
                return False
            compute = self._load(part, prover)
            return self._matches_goals(compute(part.feed), compute)
        except PolygraphyException:
            return False

    def _matches_goals(self, values: Values, compute: Compute) -> bool:
        """Return whether values match the expected ones."""
        if self.explains is not None:
            return self.explains(values, compute)
        return all(
            name in values and matches_expected(self._in_shape(values[name], goal), goal)
            for name, goal in self.goals.items()
        )

    def _in_shape(self, value: Any, goal: Any) -> Any:
        """Return an array in the shape of a goal, if that has the shape of what is wrong."""
        if self.is_reshaped and np.size(value) == np.size(goal):
            return np.reshape(value, np.shape(goal))
        return value

    def _is_small(self, part: Part) -> bool:
        """Return whether the tensors of a part are within the limit."""
        if self.limit == inf:
            return True
        shapes = {name: np.shape(value) for name, value in part.feed.items()}
        layers = open_model(part.model).layers(shapes)
        return sum(size or 0 for layer in layers for size in layer.makes.values()) <= self.limit

    def _nearest_number(self, make: Callable[[float], Variant]) -> float | None:
        """Return the number with which a part computes what is nearest to what is expected."""
        compute = self._load_with_number(make(0.0))

        def error(number: float) -> float:
            """Return the error with a number; infinity if it cannot be computed."""
            try:
                values = compute(make(number))
            except PolygraphyException:
                return inf
            return sum(mean_square_error(values.get(n), goal) for n, goal in self.goals.items())

        number = nearest_number(error)
        return number if np.isfinite(error(number)) else None

    def _load_with_number(self, variant: Variant) -> Callable[[Variant], Values]:
        """Return a function that computes the part with a variant; it is loaded only once if the
        number is a weight that can be an input.
        """
        if variant.weights:
            try:
                part = self.part.change(output_name(variant), variant, asks=True)
                compute, input_name = self._load(part), [*part.feed][-1]
                compute(part.feed)
                return lambda variant: compute(
                    {**part.feed, input_name: next(iter(variant.weights.values()))}
                )
            except PolygraphyException:  # It may have to be a weight.
                pass

        def compute_variant(single_variant: Variant) -> Values:
            """Return the values that a variant computes."""
            part = self.part.change(output_name(single_variant), single_variant)
            return self._load(part)(part.feed)

        return compute_variant


def usual_variants(graph: Side, position: int) -> Iterator[Variant]:
    """Yield variants of a node by common mistakes, the likeliest first."""
    yield from variants(graph, position)
    yield from integer_variants(graph, position)


def output_name(variant: Variant) -> str:
    """Return the name of the first output of a changed node."""
    return next(filter(None, variant.node.outputs))


def _with_scalar(graph: Side, position: int, name: str, value: float) -> Variant:
    """Return a variant of a node with another value of a scalar weight."""
    return with_weight(graph, position, name, np.full_like(graph.weights[name].values, value))


def _alike(
    candidates: Iterable[OtherTensor], operand: str, value: Any, *, is_missing: bool
) -> Iterator[OtherTensor]:
    """Yield the tensors with the shape and type of an input: of the model, and of its reference.

    Args:
        candidates: the tensors.
        operand: the input.
        value: its value.
        is_missing: whether a node may be missing behind it.
    """
    alike = [
        candidate
        for candidate in candidates
        if candidate.name != operand
        and np.shape(candidate.value) == np.shape(value)
        and getattr(candidate.value, "dtype", None) == getattr(value, "dtype", None)
    ]
    yield from islice((candidate for candidate in alike if candidate.is_in_model), _TENSORS)
    if is_missing:
        yield from islice(
            (other_tensor for other_tensor in alike if not other_tensor.is_in_model), _TENSORS
        )
