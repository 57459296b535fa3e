"""The search for a changed node, for every oracle: which change of one node makes a model, or a
part of it, compute what is expected.

A caller names the part, what is expected of it, and the kinds of changes that may explain it. Here
they are tried: within one budget, and in a process of its own, because a backend may crash if a
node is not what it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from math import inf
from typing import Any, TypeVar

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.parts import Submodel, sizes_after_change, tensor_sizes
from polygraphy.application.diagnose.subprocesses import (
    TrialLimits,
    filter_in_subprocess,
    try_in_subprocess,
)
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.checks.requirements import broadcast_shapes
from polygraphy.domain.diagnosis.borrowed import (
    results_of_missing_nodes,
    scalar_weights,
    variants_from_donor,
    with_weight,
)
from polygraphy.domain.diagnosis.closeness import mean_square_error
from polygraphy.domain.diagnosis.solving.gates import gate_variants
from polygraphy.domain.diagnosis.solving.integers import integer_variants
from polygraphy.domain.diagnosis.solving.padding import masking_variants, padding_variants
from polygraphy.domain.diagnosis.solving.weights import solve_weights
from polygraphy.domain.diagnosis.variants import (
    CLOSE,
    Variant,
    matches_expected,
    numeric_attributes,
    operators_with_number,
    variants,
    with_number,
)
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.search.numbers import MOST_NUMBERS, nearest_number
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.editing import open_model

_TENSORS = 256
"""Tensors that are tried instead of an input of a node: a deep encoder has more than a hundred."""
_MUCH_LARGER = 32
"""Bytes for each element of a goal beyond which a tensor is not computed: its shape differs, and it
may take 100 times as long. Shapes that a model states may be those of faulty weights, so smaller
differences are tried. Chosen, not measured."""
_NOISE = 0.01
"""Noise that only a weight with too many elements fits, as a share of the RMS: much more than the
rounding that is accepted. Chosen, not measured."""
_EPSILON = "epsilon"
"""The number of a normalization, which is never negative."""
_LARGEST_EPSILON = 0.5
"""Largest epsilon that is proposed: if a variance is 1 everywhere, a larger one has the effect of
another scale. Chosen, not measured."""
_APART = "//apart"
"""Suffix of a tensor that a node reads at one position only."""
_BROADCASTING = frozenset(
    {"Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum", "Where"}
)
"""Operators with inputs of several shapes, so that the model also runs with another shape."""

T = TypeVar("T")
Explains = Callable[[Values, Compute], bool]
"""Returns whether computed tensors are as expected; it also gets what computes them."""


@frozen
class OtherTensor:
    """A tensor that a node may have read in place of its input.

    Attributes:
        name: its name.
        value: its value.
        is_in_model: whether the model computes it; if not, a node is missing.
        op: the operator of the node that is missing, if it computes the tensor from the input.
    """

    name: str
    value: Any
    is_in_model: bool = True
    op: str = ""


@frozen
class ChangeSearch:
    """Tries changes of nodes until a part computes the expected values.

    Attributes:
        graph: the model.
        part: the model, or a part of it, in which nodes are changed.
        goals: by tensor, what the part should compute.
        runners: the backends; the first that takes a part computes it.
        budget: the number of trials.
        explains: returns whether computed tensors are correct (default: they match the goals).
        prover: a backend that has to compute the same with all its rewrites.
        is_reshaped: whether goals have the shapes that the unchanged part computes.
        limit: the limit in bytes of the tensors of a changed part.
        share: the largest distance from the goals, as a share of their RMS.
        trial_limits: what a trial may take, besides the time of the unchanged part.
    """

    graph: Graph
    part: Submodel
    goals: Values
    runners: tuple[SuspectedParty, ...]
    budget: RunBudget
    explains: Explains | None = field(default=None, kw_only=True)
    prover: SuspectedParty | None = field(default=None, kw_only=True)
    is_reshaped: bool = field(default=False, kw_only=True)
    limit: float = field(default=inf, kw_only=True)
    share: float = field(default=CLOSE, kw_only=True)
    trial_limits: TrialLimits = field(factory=TrialLimits, kw_only=True)

    @property
    def is_right(self) -> bool:
        """Return whether the part computes the expected values without a change."""
        return self._is_right(None)

    def select_matching(self, candidates: Iterable[Variant]) -> Iterator[Variant]:
        """Yield the candidates with which the part computes the expected values."""
        candidates = self.budget.take(candidates)
        return filter_in_subprocess(candidates, self._is_right, self.runners[-1], self._limits)

    def try_runs(self, function: Callable[[], T], runs: int) -> T | None:
        """Return the result of a function that runs changed parts up to `runs` times, or None.
        The result is None if the backend crashes or hangs."""
        return try_in_subprocess(function, self.runners[-1], self._limits, runs)

    def find_usual_variants(self, position: int) -> Iterator[Variant]:
        """Yield the variants of a node by common mistakes with which the part computes the expected
        values."""
        return self.select_matching(usual_variants(self.graph, position))

    def find_borrowed_variants(
        self, position: int, donor: Graph, donor_nodes: Collection[int]
    ) -> Iterator[Variant]:
        """Yield variants of a node with weights or attributes from nodes of another model."""
        return self.select_matching(
            variants_from_donor(self.graph, position, donor, [*donor_nodes])
        )

    def find_weights(self, position: int, output: Any, goal: Any) -> Iterator[Variant]:
        """Yield variants of a node with a weight solved from the expected output."""
        return self.select_matching(
            solve_weights(self.graph, position, self.part.feed, output, goal)
        )

    def fits_noise(self, position: int, output: Any, name: str, weight: Variant) -> bool:
        """Return whether a solved weight could be solved for noise as well,
        because it has as many elements as there are equations.

        Args:
            position: the node.
            output: the result of the unchanged part.
            name: the tensor that the node computes.
            weight: the variant with the solved weight.
        """
        goal = np.asarray(self.goals[name])
        if not is_float(goal) or not np.isfinite(goal).all():
            return False
        noise = np.random.default_rng(0).standard_normal(goal.shape)
        size = _NOISE * root_mean_square(goal.astype(np.float64))
        noisy = (goal + size * noise).astype(goal.dtype)
        search = evolve(self, goals={**self.goals, name: noisy})
        return any(
            noisy_weight.weights.keys() == weight.weights.keys()
            for noisy_weight in search.find_weights(position, output, noisy)
        )

    def find_numbers(self, position: int) -> Iterator[Variant]:
        """Yield variants of a node with one number solved: an attribute or a scalar weight."""
        node, graph = self.graph.nodes[position], self.graph
        names = numeric_attributes(node)
        makers: list[Callable[[float], Variant]] = [
            partial(with_number, node, name) for name in names
        ]
        positive = [make for make, name in zip(makers, names) if name == _EPSILON]
        makers += [
            partial(_with_scalar, graph, position, name) for name in scalar_weights(graph, position)
        ]
        makers += operators_with_number(node)
        for make in makers:
            if self.budget.is_spent:
                self.budget.is_cut_short = True
                return
            signs = (1.0,) if make in positive else (1.0, -1.0)
            number = self.try_runs(partial(self._nearest_number, make, signs), MOST_NUMBERS)
            is_too_large = number is not None and make in positive and number > _LARGEST_EPSILON
            if number is not None and not is_too_large:
                yield from self.select_matching([make(number)])

    def find_inputs(
        self,
        position: int,
        candidates: Iterable[OtherTensor],
        equal: Collection[str],
        behind: Mapping[str, Collection[str]] | None = None,
        weights: Sequence[Any] = (),
        *,
        includes_constants: bool = False,
        may_be_missing: Callable[[OtherTensor], bool] = lambda tensor: True,
    ) -> Iterator[Variant]:
        """Yield variants of a node that reads another tensor.

        Args:
            position: the node; nothing else in the part may read the same.
            candidates: the tensors that it may read.
            equal: inputs that are known to be right, so that a node may be missing behind them.
            behind: for each such input, tensors that only the other model computes from it.
            weights: weights of the other model, which a missing node may read.
            includes_constants: whether the node may also read a tensor in place of a constant.
            may_be_missing: returns whether the node that computes a tensor may be missing.
        """
        node, feed = self.graph.nodes[position], self.part.feed
        shared = {
            name
            for node_alone in open_model(self.part.model).nodes
            if not set(node_alone.makes) & set(node.outputs)
            for name in node_alone.reads
        }
        computed = self.dependents(position)
        pool = [candidate for candidate in candidates if candidate.name not in computed]
        for operand, positions in _operand_places(node):
            is_held = includes_constants and operand in self.graph.constants
            value = self.graph.constants[operand].values if is_held else feed.get(operand)
            if value is None or (is_held and np.size(value) == 1):
                continue
            is_part = is_held or operand in shared or len(positions) < node.inputs.count(operand)
            # A loaded model cannot be passed to another process, so each process loads its own.
            reading = partial(self._load_reading, node, operand)
            reshaped = partial(reading, positions)
            loads = cache(partial(reading, positions if is_part else (), value)), cache(
                partial(reading, (), value)
            )
            lost_names = (behind or {}).get(operand, ())
            alike: Iterator[OtherTensor] = chain(
                _similar_tensors(pool, operand, value, is_held or operand in equal, lost_names),
                (
                    tensor
                    for tensor in _tensors_of_missing_nodes(operand, value, weights)
                    if behind is not None and may_be_missing(tensor)
                ),
                () if is_held else _broadcast_tensors(pool, node, operand, feed),
            )

            def is_right(
                other_tensor: OtherTensor,
                loads: tuple[Callable[[], tuple[Compute, str]], ...] = loads,
                is_alone: bool = is_held or not is_part,
                reshaped: Callable[..., tuple[Compute, str]] = reshaped,
                shape: tuple[int, ...] = np.shape(value),
            ) -> bool:
                """Return whether the nodes compute the expected values with another input tensor;
                a missing node affects all nodes that read it."""
                if np.shape(other_tensor.value) != shape:
                    loads = (partial(reshaped, value=other_tensor.value),)
                for load in loads[: 1 if is_alone or other_tensor.is_in_model else 2]:
                    try:
                        compute, name = load()
                        values = compute({**feed, name: other_tensor.value})
                    except PolygraphyException:
                        continue
                    if self._matches_goals(values, compute):
                        return True
                return False

            tried = filter_in_subprocess(
                self.budget.take(alike), is_right, self.runners[-1], self._limits
            )
            for candidate in tried:
                reads = tuple(
                    candidate.name if at in positions else input_name
                    for at, input_name in enumerate(node.inputs)
                )
                if candidate.op:
                    change = changes.missing_node(candidate.op, [node.op])
                elif candidate.is_in_model:
                    change = changes.other_input(node.op, operand, candidate.name)
                else:
                    change = changes.missing_node_between(
                        node.op, candidate.name, "" if is_held else operand
                    )
                yield Variant("structure", change, evolve(node, inputs=reads))

    def _load_reading(
        self, node: Node, operand: str, positions: Collection[int], value: Any
    ) -> tuple[Compute, str]:
        """Return the loaded part and the name of the input that stands for an operand.
        At the given positions of a node, the operand becomes a new input, with the shape of
        `value`."""
        if not positions:
            return self._load(self.part), operand
        reads = tuple(_APART if at in positions else name for at, name in enumerate(node.inputs))
        change = changes.other_input(node.op, operand, _APART)
        weights = {_APART: value}
        variant = Variant("structure", change, evolve(node, inputs=reads), weights)
        part = self.part.change(output_name(variant), variant, asks=True)
        return self._load(part), [*part.feed][-1]

    def dependents(self, position: int) -> set[str]:
        """Return the tensors that depend on a node."""
        waiting, upstream = [position], set[str]()
        while waiting:
            names = set(filter(None, self.graph.nodes[waiting.pop()].outputs)) - upstream
            upstream |= names
            waiting += {index for name in names for index, _ in self.graph.readers.get(name, ())}
        return upstream

    @property
    def _limits(self) -> TrialLimits:
        """Return what a trial may take; a run of the unchanged part shows how long one takes."""
        return evolve(self.trial_limits, usual=partial(self._is_right, None))

    def _load(self, part: Submodel, prover: SuspectedParty | None = None) -> Compute:
        """Return a part loaded by a backend that accepts it,
        with rewrites if it must prove the change."""
        if prover is not None:
            return part.load(prover)
        return part.load_first(self.runners)

    def compute(self, variant: Variant, prover: SuspectedParty | None = None) -> Values | None:
        """Return the tensors that the part computes with a variant, or None.
        The result is None if the backend refuses it."""
        try:
            part = self.part.change(output_name(variant), variant)
            return self._load(part, prover)(part.feed)
        except PolygraphyException:
            return None

    def _is_right(self, variant: Variant | None) -> bool:
        """Return whether the part computes the expected values with a variant of one node."""
        return self._computes_expected(variant) and (
            self.prover is None or self._computes_expected(variant, self.prover)
        )

    def _computes_expected(
        self, variant: Variant | None, prover: SuspectedParty | None = None
    ) -> bool:
        """Return whether a variant computes the expected values.
        None stands for the unchanged part."""
        try:
            part = self.part if variant is None else self.part.change(output_name(variant), variant)
            if not self._may_match(part, variant):
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
            name in values
            and matches_expected(self._reshape_to_goal(values[name], goal), goal, self.share)
            for name, goal in self.goals.items()
        )

    def _reshape_to_goal(self, value: Any, goal: Any) -> Any:
        """Return an array in the shape of a goal, if the incorrect tensor has that shape."""
        if self.is_reshaped and np.size(value) == np.size(goal):
            return np.reshape(value, np.shape(goal))
        return value

    def _may_match(self, part: Submodel, variant: Variant | None) -> bool:
        """Return whether the tensors of a part are within the limit, and those with a goal are not
        much larger, as far as sizes are known without a run of the part.
        """
        if self.limit == inf:
            return True
        if variant is None:
            sizes = tensor_sizes(open_model(part.model), part.feed)
        else:
            sizes = sizes_after_change(part, output_name(variant), self.runners[-1])
        if sum(sizes.values()) > self.limit:
            return False
        return self.explains is not None or all(
            sizes.get(name, 0) <= _MUCH_LARGER * max(np.size(goal), 1)
            for name, goal in self.goals.items()
        )

    def _nearest_number(
        self, make: Callable[[float], Variant], signs: Sequence[float]
    ) -> float | None:
        """Return the number with which a part comes closest to the expected values, or None.
        The result is None if none helps."""
        compute = self._load_with_number(make(0.0))

        def error(number: float) -> float:
            """Return the error with a number; infinity if it cannot be computed."""
            try:
                values = compute(make(number))
            except PolygraphyException:
                return inf
            return sum(mean_square_error(values.get(n), goal) for n, goal in self.goals.items())

        number = nearest_number(error, signs=signs)
        return number if np.isfinite(error(number)) else None

    def _load_with_number(self, variant: Variant) -> Callable[[Variant], Values]:
        """Return a function that computes the part with a variant in which one number differs.
        If the number can be passed as an input, the part is loaded only once."""
        if variant.weights:
            try:
                part = self.part.change(output_name(variant), variant, asks=True)
                compute, input_name = self._load(part), [*part.feed][-1]
                compute(part.feed)
                return lambda variant: compute(
                    {**part.feed, input_name: next(iter(variant.weights.values()))}
                )
            except PolygraphyException:  # Some operators accept only a constant here.
                pass

        def compute_variant(single_variant: Variant) -> Values:
            """Return the values that a variant computes."""
            part = self.part.change(output_name(single_variant), single_variant)
            return self._load(part)(part.feed)

        return compute_variant


def usual_variants(graph: Graph, position: int) -> Iterator[Variant]:
    """Yield variants of a node by common mistakes, the likeliest first."""
    yield from padding_variants(graph, position)
    yield from masking_variants(graph, position)
    yield from variants(graph, position)
    yield from integer_variants(graph, position)
    yield from gate_variants(graph, position)


def output_name(variant: Variant) -> str:
    """Return the name of the first output of a changed node."""
    return next(filter(None, variant.node.outputs))


def _with_scalar(graph: Graph, position: int, name: str, value: float) -> Variant:
    """Return a variant of a node with another value of a scalar weight."""
    return with_weight(graph, position, name, np.full_like(graph.constants[name].values, value))


def _tensors_of_missing_nodes(
    operand: str, value: Any, weights: Sequence[Any]
) -> Iterator[OtherTensor]:
    """Yield the tensors that possibly missing nodes would compute from an input."""
    if is_float(value):
        for op, result in results_of_missing_nodes(value, weights):
            yield OtherTensor(f"{operand}/{op}", result, False, op)


def _operand_places(node: Node) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each tensor that a node reads, and the positions of the inputs to replace.

    These are each single position, then all of them if there are several.
    """
    for name in dict.fromkeys(node.inputs):
        positions = tuple(at for at, input_name in enumerate(node.inputs) if input_name == name)
        if len(positions) > 1:
            yield from ((name, (at,)) for at in positions)
        yield name, positions


def _similar_tensors(
    candidates: Iterable[OtherTensor],
    operand: str,
    value: Any,
    is_missing: bool,
    lost_names: Collection[str] = (),
) -> Iterator[OtherTensor]:
    """Yield the tensors with the size and type of an input: those that only the reference computes
    from it, then others with its shape, of the model, and of the reference.

    Args:
        candidates: the tensors.
        operand: the input.
        value: its value.
        is_missing: whether a node may be missing behind it.
        lost_names: the tensors that the reference computes from it.
    """
    alike = [
        candidate
        for candidate in candidates
        if candidate.name != operand
        and np.size(candidate.value) == np.size(value)
        and getattr(candidate.value, "dtype", None) == getattr(value, "dtype", None)
    ]
    nearest = [
        candidate
        for candidate in alike
        if is_missing and not candidate.is_in_model and candidate.name in lost_names
    ]
    for near_tensor in nearest[:_TENSORS]:
        yield evolve(near_tensor, value=np.reshape(near_tensor.value, np.shape(value)))
    seen = {id(other_tensor) for other_tensor in nearest}
    equal_candidates = [
        candidate
        for candidate in alike
        if np.shape(candidate.value) == np.shape(value) and id(candidate) not in seen
    ]
    yield from islice(
        (candidate for candidate in equal_candidates if candidate.is_in_model), _TENSORS
    )
    if is_missing:
        yield from islice(
            (candidate for candidate in equal_candidates if not candidate.is_in_model), _TENSORS
        )


def _broadcast_tensors(
    candidates: Iterable[OtherTensor], node: Node, operand: str, feed: Values
) -> Iterator[OtherTensor]:
    """Yield the tensors that a node accepts in place of an input of another shape;
    all shapes broadcast."""
    if node.op not in _BROADCASTING:
        return
    value = feed[operand]
    shapes = [np.shape(feed[name]) for name in node.inputs if name in feed]
    yield from islice(
        (
            candidate
            for candidate in candidates
            if candidate.is_in_model
            and getattr(candidate.value, "dtype", None) == getattr(value, "dtype", None)
            and np.shape(candidate.value) != np.shape(value)
            and broadcast_shapes([*shapes, np.shape(candidate.value)]) is not None
        ),
        _TENSORS,
    )
