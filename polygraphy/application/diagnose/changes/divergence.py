"""Search for the tensors at which a model diverges from a reference with different nodes.

Both run on the same data. Tensors with equal values correspond, whatever they are called. Where no
more do, a tensor of the model takes the value of one in the reference, and the rest is computed
from it: the pair corresponds if more tensors become equal behind it. The first tensors that make
all outputs match are the borders of what differs. The search is limited by the number of tries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.ends import find_changed_ends
from polygraphy.application.diagnose.parts import tensor_bytes
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.domain.diagnosis.borrowed import (
    MOVING,
    Border,
    Borders,
    SameTensors,
    is_close,
)
from polygraphy.domain.diagnosis.counterparts import Candidate, candidates
from polygraphy.domain.diagnosis.culprit import Culprit
from polygraphy.domain.diagnosis.words import steps
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import deviation
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

_ROUNDS = 8
"""Most replacements of tensors by those of the reference, one behind the other."""
_TRIES = (32, 320)
"""The fewest and the most runs of a search."""
_LOADED = 4
"""Models with different inputs that are kept loaded."""
_SHARE = 6
"""The memory that a search needs, as a multiple of the size of all tensors."""
_GROWTH = 4
"""The most bytes that a run may compute, as a multiple of all tensors of the reference."""
_OWN = 1.5
"""The same as a multiple of the tensors of the model itself, if these are larger and there is
memory."""
_PATIENCE = 12
"""After a pair that makes several tensors equal, this number of further pairs is tried: another
may do more."""
LEFT = 1e-4
"""A change explains a difference if at most this remains, relative to the size of the outputs.
Chosen, not measured."""
_STEPS = 0.1
"""The same for quantized outputs, as a share of the difference: rounding may land on the other
side of a step. Chosen, not measured."""
_HANDING = MOVING | {"Dropout"}
"""Operators that are not suspected behind a node with the same operator as in the reference."""


@frozen
class Divergence:
    """Nodes that compute incorrect values from correct ones, with the expected values.

    Attributes:
        border: the nodes, and their output.
        expected: the expected value in the reference.
        unproven: the positions of nodes with no other correct output.
        instead: the outputs of the corresponding nodes of the reference.
        given: the tensors that the nodes read and that have an equal counterpart.
    """

    border: Border
    expected: Any
    unproven: tuple[int, ...]
    instead: tuple[str, ...]
    given: tuple[str, ...] = ()


@frozen
class Divergences:
    """All divergences of a model from its reference.

    Attributes:
        places: the fewest divergences whose replacement makes all outputs match.
        values: the tensors of the model computed with these replaced, by name.
        theirs: the tensors of the reference, by name.
        same: by tensor of the model, the equal tensor of the reference.
        nearer: the divergences with all consecutively replaced tensors, if these are more than the
            fewest: they have fewer nodes, and shared nodes are nearer to the cause.
        ends: the nodes missing or too many at the end of the model, if they explain all outputs.
    """

    places: Sequence[Divergence]
    values: Values
    theirs: Values
    same: Mapping[str, str]
    nearer: Divergences | None = None
    ends: Sequence[Culprit] = ()

    @property
    def limit(self) -> int:
        """Return the memory limit for computed tensors, in bytes."""
        return _GROWTH * sum(_nbytes(value) for value in self.theirs.values())


def find_divergences(
    case: Case,
    reference: OpenModel,
    party: SuspectedParty,
    feed: Feed,
    fed: Feed,
    goal: Values,
    outputs: Mapping[str, str],
) -> Divergences | None:
    """Return the nodes that compute different results from equal inputs; None if the search fails.

    Args:
        case: the model.
        reference: the correct model.
        party: the backend that runs both.
        feed: data, by the names of the model.
        fed: the same data, by the names of the reference.
        goal: the expected outputs, by the names of the model.
        outputs: the names of the outputs in the reference, by those of the model.
    """
    try:
        tensors = trace_tensors(case.with_model(reference), party, fed)
    except PolygraphyException:
        return None
    if _SHARE * sum(tensors.sizes().values()) > case.resident_limit:
        with case.record_step("remedy") as notes:
            notes.append(steps.TOO_LARGE_TO_EXCHANGE)
        return None
    search = _DivergenceSearch(case, reference, party, feed, tensors, goal, dict(zip(feed, fed)))
    ends = search.find_ends(outputs)
    divergences = search.result()
    return None if divergences is None else evolve(divergences, ends=ends)


class _DivergenceSearch:
    """A search for the divergences of a model from its reference."""

    def __init__(
        self,
        case: Case,
        reference: OpenModel,
        party: SuspectedParty,
        feed: Feed,
        trace: Trace,
        goal: Values,
        inputs: Mapping[str, str],
    ) -> None:
        """Set the model, the reference, and the tensors of both."""
        self._case, self._party, self._feed, self._goal = case, party, feed, goal
        self._reference = reference
        self._theirs = trace.values
        self._inputs = dict(inputs)
        total = max(sum(trace.sizes().values()), 1)
        # The model may compute additional tensors, such as copies of weights that layers share.
        own_limit = min(_OWN * tensor_bytes(case.model, feed), case.resident_limit / _SHARE)
        self._limit = max(_GROWTH * total, own_limit)
        weights = sum(weight.nbytes for weight in case.model.graph.constants.values())
        self._budget = RunBudget.for_loads(total, weights, *_TRIES)
        jumps = any(node.is_discontinuous for node in case.model.nodes)
        first = case.find_deviations(case.load(party)(feed), goal).values() if jumps else ()
        sizes = [difference.relative for difference in first if np.isfinite(difference.relative)]
        self._left = max([LEFT, *(_STEPS * size for size in sizes)])
        self._known_as = SameTensors(trace.values)
        self._borders = Borders(case.model.graph, reference.graph, trace.values)
        self._marked = open_model(case.model.with_all_outputs())
        self._loaded: dict[tuple[str, ...], tuple[Callable[..., Any], list[str], set[str]]] = {}
        self._last: tuple[list[tuple[str, str]], dict[str, Any] | None] | None = None

    def find_ends(self, outputs: Mapping[str, str]) -> Sequence[Culprit]:
        """Return the nodes missing or too many at the end of the model; empty unless they explain
        all outputs."""
        values = self._compute_with([])
        if values is None:
            return ()
        differing = self._case.find_deviations(values, self._goal)
        pairs = {name: outputs.get(name, name) for name in differing}
        own, reference = self._case.model.graph, self._reference.graph
        return find_changed_ends(own, values, reference, self._theirs, pairs)

    def result(self) -> Divergences | None:
        """Return the smallest set of divergences whose replacement by the reference's values makes
        all outputs match; None if there is none."""
        divergences: dict[str, Divergence] = {}
        for _ in range(_ROUNDS):
            values = self._compute_with([*divergences.values()])
            if values is None:
                return None
            if self._matches(values):
                break
            next_partings = self._next_tensors(values, divergences)
            if not next_partings:
                next_partings = self._outputs_as_differences(values, divergences)
                if not next_partings:
                    return None
            next_partings = self._past_idle_nodes(next_partings, values, divergences)
            divergences.update((parting.border.tensor, parting) for parting in next_partings)
        values = self._compute_with([*divergences.values()])
        if values is None or not self._matches(values):
            return None
        replaced = list(divergences.values())
        nearer = Divergences(
            replaced, values, self._theirs, self._pair_equal_tensors(values, replaced)
        )
        fewest = smallest_good_set(replaced, self._test)
        if not fewest:
            return None
        if len(fewest) == len(replaced):
            return nearer
        # Compute replaced tensors again, so that more nodes lie between correct tensors.
        fewest = [self._without_others(divergence, fewest) for divergence in fewest]
        values = self._compute_with(fewest)
        if values is None:
            return None
        equal_tensors = self._pair_equal_tensors(values, fewest)
        return Divergences(fewest, values, self._theirs, equal_tensors, nearer)

    def _without_others(self, divergence: Divergence, among: Sequence[Divergence]) -> Divergence:
        """Return a divergence extended to all nodes after correct tensors,
        as computed while only the other divergences are replaced."""
        other_among = [candidate for candidate in among if candidate is not divergence]
        search = self._compute_with(other_among)
        if search is None:
            return divergence
        equal_tensors, nodes = self._pair_equal_tensors(search, other_among), self._case.model.nodes
        makers = self._borders.makers_of(
            equal_tensors, {candidate.border.tensor for candidate in other_among}
        )
        region = tuple(
            region_before(self._case.model.graph, divergence.border.tensor, equal_tensors.keys())
        )
        border = evolve(divergence.border, nodes=region)
        if border.twin:
            return self._divergence(border, search, equal_tensors, makers)
        read = dict.fromkeys(
            name for i in region for name in nodes[i].reads if name in equal_tensors
        )
        unproven = tuple(index for index in region if index not in makers)
        return evolve(divergence, border=border, unproven=unproven, given=tuple(read))

    def _next_tensors(
        self, values: Values, divergences: Mapping[str, Divergence]
    ) -> list[Divergence]:
        """Return the divergences whose tensors to replace next."""
        equal_tensors = self._pair_equal_tensors(values, divergences.values())
        makers = self._borders.makers_of(equal_tensors, divergences)
        # A tensor with the same name or shape may be a different one. It is the same if more later
        # tensors become equal. Outputs match once they are replaced, which shows nothing.
        refused = {*self._goal}
        while not self._budget.is_spent and (
            named := self._borders.find_first(values, equal_tensors, refused)
        ):
            chosen = [self._divergence(border, values, equal_tensors, makers) for border in named]
            if self._gain(chosen, equal_tensors, divergences):
                return chosen
            helping = [
                parting for parting in chosen if self._gain([parting], equal_tensors, divergences)
            ]
            if helping:
                return helping
            refused |= {border.tensor for border in named}
        return self._best_pairs(values, equal_tensors, makers, divergences)

    def _past_idle_nodes(
        self, chosen: list[Divergence], values: Values, divergences: Mapping[str, Divergence]
    ) -> list[Divergence]:
        """Return the divergences extended past nodes that return the replaced tensor unchanged.

        An example is an Add of zeros. The reference has a single tensor there, so its value does
        not show which node is faulty.
        """
        replaced = [*divergences.values(), *chosen]
        values_behind = self._compute_with(replaced)
        if values_behind is None:
            return chosen
        equal_behind = self._pair_equal_tensors(values_behind, replaced)
        ends = [
            self._last_idle_tensor(divergence.border, values_behind, equal_behind)
            for divergence in chosen
        ]
        if all(end == divergence.border.tensor for end, divergence in zip(ends, chosen)):
            return chosen
        equal_tensors = self._pair_equal_tensors(values, divergences.values())
        makers = self._borders.makers_of(equal_tensors, divergences)
        graph = self._case.model.graph
        extended = {}
        for divergence, end in zip(chosen, ends):
            if end != divergence.border.tensor:
                region = tuple(region_before(graph, end, equal_tensors.keys()))
                border = evolve(divergence.border, nodes=region, tensor=end)
                extended[end] = self._divergence(border, values, equal_tensors, makers)
            else:
                extended[end] = divergence
        return [*extended.values()]

    def _last_idle_tensor(
        self, border: Border, values: Values, equal_names: Mapping[str, str]
    ) -> str:
        """Return the last tensor with the value of a border: its own, or the output of nodes behind
        it that are its only readers and do not change it."""
        graph, tensor = self._case.model.graph, border.tensor
        while border.twin and tensor not in self._goal:
            readers = graph.consumers.get(tensor, [])
            made = [name for index in readers for name in graph.nodes[index].makes]
            if len(made) != 1 or made[0] not in values:
                break
            is_moving = graph.nodes[readers[0]].operator in _HANDING
            twin = equal_names.get(made[0])
            # A tensor that the reference only reshapes is no result of another node.
            if twin is not None and (is_moving or self._operators[1].get(twin) not in MOVING):
                break
            if is_moving and self._has_same_operator(border):
                break
            before, after = values[tensor], values[made[0]]
            if np.shape(before) != np.shape(after) or not is_close(after, before):
                break
            tensor = made[0]
        return tensor

    def _best_pairs(
        self,
        values: Values,
        equal_names: Mapping[str, str],
        makers: Collection[int],
        divergences: Mapping[str, Divergence],
    ) -> list[Divergence]:
        """Return the pair of tensors whose replacement makes most tensors equal,
        preferably all outputs.
        """
        total = sum(len(node.makes) for node in self._case.model.nodes)
        best, most, since = None, 0, 0
        for candidate in self._candidates(values, equal_names, makers):
            if self._budget.is_spent:
                break
            if most >= total and (best is None or candidate.tensor != best.border.tensor):
                break
            region = tuple(
                region_before(self._case.model.graph, candidate.tensor, equal_names.keys())
            )
            divergence = self._divergence(
                Border(region, candidate.tensor, candidate.twin), values, equal_names, makers
            )
            gain = self._gain([divergence], equal_names, divergences)
            since = 0 if gain > most else since + 1
            if gain > most:
                best, most = divergence, gain
            elif (
                gain >= total
                and best is not None
                and self._rank(candidate) < self._rank(best.border)
            ):
                # Prefer the earlier node: a repeated normalization has no effect, so both gain the
                # same.
                best = divergence
            if most >= total and best is not None and self._has_same_operator(best.border):
                break
            if most > 1 and since >= _PATIENCE:
                break
        return [] if best is None else [best]

    def _has_same_operator(self, pair: Candidate | Border) -> bool:
        """Return whether two tensors are computed by the same operator."""
        operators = self._operators
        return operators[0].get(pair.tensor) == operators[1].get(pair.twin)

    @cached_property
    def _operators(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the operator that computes each tensor, of the model and of the reference."""
        own_nodes, nodes = self._case.model.nodes, self._reference.nodes
        return (
            {name: node.operator for node in own_nodes for name in node.makes},
            {name: node.operator for node in nodes for name in node.makes},
        )

    def _rank(self, pair: Candidate | Border) -> tuple[bool, int]:
        """Return a rank that is lower for the same operator, and for earlier reference tensors."""
        return not self._has_same_operator(pair), [*self._operators[1]].index(pair.twin)

    def _candidates(
        self, values: Values, equal_names: Mapping[str, str], makers: Collection[int]
    ) -> Iterator[Candidate]:
        """Yield the borders at which the model may start to differ from the reference,
        given the equal tensors."""
        kinds = {self._classes.get(name, name) for name in equal_names.values()}
        # Exclude tensors that the reference only moves (Transpose, Reshape): the model may have
        # moved them incorrectly, so equal values do not show that they are counterparts.
        moved = {n for node in self._reference.nodes if node.operator in MOVING for n in node.makes}
        names = {n for n, kind in self._classes.items() if kind in kinds and n not in moved}
        names |= {*equal_names.values()}
        return candidates(
            (self._case.model.nodes, values, equal_names, makers),
            (self._reference.nodes, self._theirs, names, self._classes),
        )

    @cached_property
    def _classes(self) -> Mapping[str, str]:
        """Return, by reference tensor, the first reference tensor with the same values."""
        firsts: dict[bytes, str] = {}
        return {
            name: firsts.setdefault(_digest(self._theirs[name]), name)
            for node in self._reference.nodes
            for name in node.makes
            if name in self._theirs
        }

    def _divergence(
        self,
        border: Border,
        values: Values,
        equal_names: Mapping[str, str],
        makers: Collection[int],
    ) -> Divergence:
        """Return the border with its nodes, and the values that the reference computes there."""
        unproven = tuple(index for index in border.nodes if index not in makers)
        other_nodes, nodes = self._reference.nodes, self._case.model.nodes
        region = region_before(self._reference.graph, border.twin, set(equal_names.values()))
        instead = tuple(name for index in region for name in other_nodes[index].makes)
        expected, shape = self._theirs[border.twin], np.shape(values[border.tensor])
        if expected.shape != shape and expected.size == np.prod(shape):
            expected = expected.reshape(shape)  # Matrix products are often flattened.
        read = dict.fromkeys(
            name for i in border.nodes for name in nodes[i].reads if name in equal_names
        )
        return Divergence(border, expected, unproven, instead, tuple(read))

    def _outputs_as_differences(
        self, values: Values, divergences: Mapping[str, Divergence]
    ) -> list[Divergence]:
        """Return the outputs themselves as differences, if nothing narrower is known."""
        nodes, equal_tensors = self._case.model.nodes, self._pair_equal_tensors(
            values, divergences.values()
        )
        makers, used_names = self._borders.makers_of(equal_tensors, divergences), set(
            equal_tensors.values()
        )
        instead = [name for node in self._reference.nodes for name in node.makes]
        instead = [name for name in instead if name not in used_names]
        partings = []
        for name in self._case.find_deviations(values, self._goal):
            region = tuple(region_before(self._case.model.graph, name, equal_tensors.keys()))
            unproven = tuple(index for index in region if index not in makers)
            read = dict.fromkeys(
                name for i in region for name in nodes[i].reads if name in equal_tensors
            )
            border = Border(region, name, "")
            divergence = Divergence(border, self._goal[name], unproven, tuple(instead), tuple(read))
            partings.append(divergence)
        return partings

    def _gain(
        self,
        chosen: Sequence[Divergence],
        equal_names: Mapping[str, str],
        divergences: Mapping[str, Divergence],
    ) -> int:
        """Return how many more tensors match with further replacements:
        all if outputs match, 0 if only the replaced ones do.
        """
        gain = [*divergences.values(), *chosen]
        values = self._compute_with(gain)
        if values is None:
            return 0
        if self._matches(values):
            return sum(len(node.makes) for node in self._case.model.nodes)
        return max(len(self._pair_equal_tensors(values, gain)) - len(equal_names) - len(chosen), 0)

    def _test(self, chosen: Sequence[Divergence]) -> Outcome:
        """Return GOOD if the model matches with the reference values at some borders, else BAD."""
        values = self._compute_with(chosen)
        return Outcome.GOOD if values is not None and self._matches(values) else Outcome.BAD

    def _matches(self, values: Values) -> bool:
        """Return whether the outputs are as close to the reference as the search requires."""
        differing = self._case.find_deviations(values, self._goal)
        return all(difference.relative <= self._left for difference in differing.values())

    def _compute_with(self, chosen: Sequence[Divergence]) -> dict[str, Any] | None:
        """Return all tensors with some replaced by the reference's, None if the model cannot run.
        The last computation is cached."""
        key = [(parting.border.tensor, parting.border.twin) for parting in chosen]
        if self._last is None or self._last[0] != key:
            self._budget.taken += 1
            self._last = key, self._compute_tensors(chosen)
        return self._last[1]

    def _compute_tensors(self, chosen: Sequence[Divergence]) -> dict[str, Any] | None:
        """Return the tensors of the model with reference values at some borders, or None.
        The result is None if it cannot run.
        """
        substitutes = {parting.border.tensor: parting.expected for parting in chosen}
        values = {**self._feed, **substitutes}
        try:
            loaded = self._load(values)
            if loaded is None:
                return None
            compute, input_names, own_names = loaded
            computed_value = compute({name: values[name] for name in input_names})
        except PolygraphyException:
            return None
        return {
            **{name: value for name, value in computed_value.items() if name not in own_names},
            **substitutes,
        }

    def _load(self, values: Values) -> tuple[Callable[..., Any], list[str], set[str]] | None:
        """Return a function from given tensors to all, its inputs, and which given ones it repeats.
        The result is None if the function needs too much memory.
        """
        key = tuple(f"{name} {np.shape(value)}" for name, value in sorted(values.items()))
        if key not in self._loaded:
            model, names = self._marked.isolate_nodes(values)
            opened = open_model(model)
            if tensor_bytes(opened, values) > self._limit:
                return None
            marked = opened.with_all_outputs()
            while len(self._loaded) >= _LOADED:
                del self._loaded[next(iter(self._loaded))]
            compute = self._party.load(marked, plain=True)
            requested_names = [*opened.inputs]
            self._loaded[key] = compute, requested_names, set(names.values())
        return self._loaded[key]

    def _pair_equal_tensors(
        self, values: Values, divergences: Iterable[Divergence]
    ) -> dict[str, str]:
        """Return the reference tensor for each tensor of the model that is equal, by name."""
        equal_tensors = {
            **self._inputs,
            **{divergence.border.tensor: divergence.border.twin for divergence in divergences},
        }
        used_names = set(equal_tensors.values())
        for node in self._case.model.nodes:
            for name in node.makes:
                if name in values and name not in equal_tensors:
                    twin = self._known_as.find_equal(
                        name, values[name], used_names, node.operator in MOVING
                    )
                    twin = twin or self._equal_result_tensor(node, name, values, equal_tensors)
                    if twin is not None and twin not in used_names:
                        counterpart = self._unchanged_input(node, name, values, twin) or name
                        equal_tensors.setdefault(counterpart, twin)
                        used_names.add(twin)
        return equal_tensors

    def _unchanged_input(self, node: Node, name: str, values: Values, twin: str) -> str | None:
        """Return the input that a node returns unchanged, such as a Mul by 1, where the reference
        only moves the same numbers; else None. Equal values do not show that such a node is right.
        """
        if node.operator in _HANDING or self._operators[1].get(twin) not in MOVING:
            return None
        reads = (read for read in node.reads if read in values)
        return next((read for read in reads if np.array_equal(values[read], values[name])), None)

    def _equal_result_tensor(
        self, node: Node, name: str, outputs: Values, equal_names: Mapping[str, str]
    ) -> str | None:
        """Return the reference tensor computed by the same operator from equal inputs,
        if its value is equal; else None. Scalars need more than an equal value."""
        read, value = _non_constant_inputs(node, self._case.model.constants), outputs[name]
        twins = tuple(equal_names.get(name, "") for name in read)
        if not read or not all(twins):
            return None
        position, matches = node.makes.index(name), []
        for other_node in self._reference_nodes_by_reads.get(
            (node.operator, node.settings, twins), ()
        ):
            twin = other_node.makes[position] if position < len(other_node.makes) else ""
            if twin in self._theirs and not deviation(value, self._theirs[twin]).is_wrong:
                matches.append(twin)
        if not matches or name in matches or node.operator not in MOVING:
            return matches[0] if matches else None
        # If more nodes of the model than of the reference compute this tensor, one of them reads
        # the wrong input.
        return matches[0] if self._count_equal(node, name, outputs) <= len(matches) else None

    def _count_equal(self, node: Node, name: str, value: Values) -> int:
        """Return how many nodes with the same operator and inputs compute the same value."""
        key = node.operator, node.settings, _non_constant_inputs(node, self._case.model.constants)
        position = node.makes.index(name)
        names = (
            other_node.makes[position]
            for other_node in self._nodes_by_reads[key]
            if position < len(other_node.makes)
        )
        return sum(twin in value and np.array_equal(value[twin], value[name]) for twin in names)

    @cached_property
    def _nodes_by_reads(self) -> Mapping[tuple[str, str, tuple[str, ...]], Sequence[Node]]:
        """Return the nodes of the model by operator and computed inputs."""
        return _group_by_reads(self._case.model)

    @cached_property
    def _reference_nodes_by_reads(
        self,
    ) -> Mapping[tuple[str, str, tuple[str, ...]], Sequence[Node]]:
        """Return the reference nodes by operator and computed inputs."""
        return _group_by_reads(self._reference)


def _group_by_reads(
    model: OpenModel,
) -> Mapping[tuple[str, str, tuple[str, ...]], Sequence[Node]]:
    """Return the nodes of a model by operator, attributes and computed inputs."""
    by_reads: dict[tuple[str, str, tuple[str, ...]], list[Node]] = defaultdict(list)
    for node in model.nodes:
        by_reads[node.operator, node.settings, _non_constant_inputs(node, model.constants)].append(
            node
        )
    return by_reads


def _non_constant_inputs(node: Node, constants: Collection[str]) -> tuple[str, ...]:
    """Return the inputs of a node that are not constant."""
    return tuple(name for name in node.reads if name and name not in constants)


def _digest(value: Any) -> bytes:
    """Return a digest of an array's numbers in order."""
    array = np.ascontiguousarray(value)
    if array.dtype.kind in "OUS":
        return repr(array.tolist()).encode()
    return blake2b(array.dtype.str.encode() + array.tobytes(), digest_size=16).digest()


def _nbytes(value: Any) -> int:
    """Return the size of a value in bytes; 0 if it is unknown."""
    return int(getattr(value, "nbytes", 0))
