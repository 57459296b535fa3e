"""The search for two nodes that each read what the other should: with these inputs exchanged, the
model computes what the reference does.

Only the outputs of the reference are needed, so that its nodes may be others: those of another
exporter, or of an optimizer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.change_search import output_name
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair, matches_reference
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.application.diagnose.subprocesses import filter_in_subprocess
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.domain.diagnosis.borrowed import is_close, is_informative
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit
from polygraphy.domain.diagnosis.two_models import SYMMETRIC
from polygraphy.domain.diagnosis.variants import Variant, output_swaps
from polygraphy.domain.diagnosis.words import changes, evidence, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node, attribute_digests
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.ports.editing import open_model

_RUNS = (12, 160)
"""The fewest and the most runs of a search."""


@frozen
class _Wire:
    """An input of a node.

    Attributes:
        node: the position of the node.
        position: the position of the input.
    """

    node: int
    position: int


_Exchange = tuple[_Wire, _Wire]


def find_exchanged_wires(
    case: Case, pair: ModelPair, feed: Feed, expected: Values, names: Collection[str], hops: int
) -> Differences | None:
    """Return the two inputs that have to be exchanged so that all outputs match, or None.
    The result is None if the search finds none.

    Args:
        case: the model.
        pair: the model and its reference.
        feed: the data.
        expected: the outputs of the reference.
        names: the nodes near which the search looks.
        hops: how many nodes away it looks.
    """
    with case.record_step(titles.EXCHANGED_INPUTS) as notes:
        try:
            search = _ExchangeSearch(case, pair, feed, expected)
        except PolygraphyException:
            return None
        found = search.find(names, hops)
        if found is not None:
            notes.append(steps.exchanged_inputs(len(found.culprits)))
        return found


class _ExchangeSearch:
    """Tries to exchange inputs of a model."""

    def __init__(self, case: Case, pair: ModelPair, feed: Feed, expected: Values) -> None:
        """Compute all tensors of the model.

        Raises:
            BackendError: the backend cannot.
        """
        self._case, self._pair, self._feed = case, pair, feed
        self._expected = expected
        self._graph: Graph = case.model.graph
        values = trace_tensors(case, pair.party, feed).values
        self._values: Mapping[str, Any] = {
            **{n: w.values for n, w in self._graph.constants.items() if w.values is not None},
            **feed,
            **values,
        }
        total = sum(getattr(value, "nbytes", 0) for value in values.values())
        weights = sum(weight.nbytes for weight in self._graph.all_weights)
        self._budget = RunBudget.for_loads(total, weights, *_RUNS)
        self._limits = evolve(case.trial_limits(total), usual=partial(self._is_right, ()))

    def find(self, names: Collection[str], hops: int) -> Differences | None:
        """Return the exchange near some nodes with which all outputs match; None if none does."""
        distances = self._distances(names, hops)
        tried = filter_in_subprocess(
            self._budget.take(self._candidates(distances)),
            lambda candidate: self._is_right(candidate[1]),
            self._pair.party,
            self._limits,
        )
        exchange, variants = next(tried, (None, ()))
        if not variants:
            return None
        if exchange is None:  # Two outputs of one node.
            return self._differences(variants, [[variant.node] for variant in variants])
        equivalents = self._likely_exchanges(exchange)
        variants = self._variants(equivalents[0])
        nodes = [[self._graph.nodes[pair[side].node] for pair in equivalents] for side in (0, 1)]
        return self._differences(variants, nodes[: len(variants)])

    def _distances(self, names: Collection[str], hops: int) -> dict[int, int]:
        """Return the nodes that are at most some nodes away from others, with the distance."""
        nodes, readers = self._graph.nodes, self._graph.readers
        makers = self._graph.operation_producers
        edge = {i for i in self._graph.operations if nodes[i].label in names}
        distances = dict.fromkeys(edge, 0)
        for hop in range(1, hops + 1):
            after = {i for at in edge for name in nodes[at].makes for i, _ in readers.get(name, ())}
            before = {makers[name] for at in edge for name in nodes[at].inputs if name in makers}
            edge = {*after, *before} - distances.keys()
            distances |= dict.fromkeys(edge, hop)
        return distances

    def _candidates(
        self, distances: Mapping[int, int]
    ) -> Iterator[tuple[_Exchange | None, Sequence[Variant]]]:
        """Yield an exchange of inputs or outputs, or None, and the nodes that it changes.

        The nearest exchanges come first.
        """
        ranked: list[tuple[int, _Exchange | None, Sequence[Variant]]] = []
        wires: dict[tuple[Any, ...], list[_Wire]] = {}
        for index in sorted(distances):
            node = self._graph.nodes[index]
            ranked += [
                (2 * distances[index], None, [variant])
                for variant in output_swaps(node)
                if self._has_equal_shapes(node.outputs, variant.node.outputs)
            ]
            for position, name in enumerate(node.inputs):
                value = np.asarray(self._values.get(name))
                if value.size > 1:
                    key = value.shape, str(value.dtype)
                    wires.setdefault(key, []).append(_Wire(index, position))
        for group in wires.values():
            for pair in combinations(group, 2):
                if self._differ(pair):
                    distance = sum(distances[wire.node] for wire in pair)
                    ranked.append((distance, pair, ()))
        for _, exchange, variants in sorted(ranked, key=lambda candidate: candidate[0]):
            yield exchange, variants if exchange is None else self._variants(exchange)

    def _has_equal_shapes(self, names: Sequence[str], others: Sequence[str]) -> bool:
        """Return whether tensors in two orders have the same shapes."""
        return all(
            np.asarray(self._values.get(name)).shape == np.asarray(self._values.get(other)).shape
            for name, other in zip(names, others)
        )

    def _differ(self, pair: _Exchange) -> bool:
        """Return whether the exchange of two inputs can have an effect."""
        first, second = pair
        names = self._name(first), self._name(second)
        if names[0] == names[1] or (
            first.node == second.node and self._graph.nodes[first.node].op in SYMMETRIC
        ):
            return False
        return not np.array_equal(*(self._values[name] for name in names))

    def _name(self, wire: _Wire) -> str:
        """Return the tensor that an input reads."""
        return self._graph.nodes[wire.node].inputs[wire.position]

    def _variants(self, exchange: _Exchange) -> Sequence[Variant]:
        """Return the changed nodes of an exchange of two inputs."""
        first, second = exchange
        names = {first: self._name(second), second: self._name(first)}
        if first.node == second.node:
            node = self._graph.nodes[first.node]
            return [Variant("structure", changes.swapped_inputs(node.op), _rewire(node, names))]
        nodes = self._graph.nodes
        if self._have_exchanged_values(*names.values()):
            return [
                Variant(
                    "weight",
                    changes.values_of_other_weight(self._name(w), name),
                    _rewire(nodes[w.node], {w: name}),
                )
                for w, name in names.items()
            ]
        return [
            Variant(
                "structure",
                changes.other_input(nodes[w.node].op, self._name(w), name),
                _rewire(nodes[w.node], {w: name}),
            )
            for w, name in names.items()
        ]

    def _have_exchanged_values(self, name: str, other: str) -> bool:
        """Return whether each of two weights has the values of the other in the reference."""
        sides = self._graph, self._pair.reference.graph
        if not all(weight in side.constants for side in sides for weight in (name, other)):
            return False
        return all(
            sides[0].digest(a) == sides[1].digest(b) for a, b in ((name, other), (other, name))
        )

    def _change(self, variants: Sequence[Variant]) -> Submodel:
        """Return the model with some nodes changed.

        Raises:
            BackendError: they cannot be written.
        """
        part = Submodel(self._case.model.proto, self._feed)
        for variant in variants:
            part = part.change(output_name(variant), variant)
        return part

    def _is_right(self, variants: Sequence[Variant]) -> bool:
        """Return whether all outputs match with some nodes changed."""
        try:
            compute = self._change(variants).load(self._pair.party)
        except PolygraphyException:
            return False
        data = ((self._feed, self._expected), *self._pair.also)
        return all(matches_reference(self._case, compute, *one) for one in data)

    def _differences(
        self, variants: Sequence[Variant], nodes: Sequence[Sequence[Node]]
    ) -> Differences:
        """Return the culprits for changed nodes, each with the nodes that it may be instead."""
        remedy = self._case.undo_changes(self._graph, variants)
        proof = evidence.match_after_restoring(len(variants))
        culprits = [
            Culprit(
                [node.label for node in group], output_name(variant), MODEL, variant.cause,
                facts=[evidence.change_of_node(variant.change), proof],
                remedy=remedy, op=variant.node.op,
            )
            for variant, group in zip(variants, nodes)
        ]  # fmt: skip
        repaired = cache(lambda: open_model(self._change(variants).model))
        return Differences(culprits, repaired, any(len(group) > 1 for group in nodes))

    def _likely_exchanges(self, exchange: _Exchange) -> Sequence[_Exchange]:
        """Return the exchanges with the same effect that the names of equal tensors allow:
        before or behind two equal nodes, it is the same."""
        equivalents = [exchange]
        while (before := self._exchange_before(equivalents[0])) is not None:
            equivalents.insert(0, before)
        while (after := self._exchange_after(equivalents[-1])) is not None:
            equivalents.append(after)
        if len(equivalents) == 1:
            return equivalents
        are_right = [
            {self._has_reference_value(self._name(wire)) for wire in pair} - {None}
            for pair in equivalents
        ]
        likely = [
            pair
            for number, pair in enumerate(equivalents)
            if not any(False in known for known in are_right[: number + 1])
            and not any(True in known for known in are_right[number + 1 :])
        ]
        return likely or [exchange]

    def _exchange_before(self, exchange: _Exchange) -> _Exchange | None:
        """Return the exchange of the inputs of two equal nodes whose results two inputs read.
        The result is None if there are none."""
        makers = [self._graph.operation_producers.get(self._name(wire)) for wire in exchange]
        if None in makers or not all(self._is_only_reader(wire) for wire in exchange):
            return None
        first, second = (index for index in makers if index is not None)
        position = self._differing_input(first, second)
        return None if position is None else (_Wire(first, position), _Wire(second, position))

    def _exchange_after(self, exchange: _Exchange) -> _Exchange | None:
        """Return the exchange of the results of two equal nodes with the exchanged inputs.
        The result is None if the nodes differ in more."""
        first, second = exchange
        position = self._differing_input(first.node, second.node)
        if position is None or {position} != {first.position, second.position}:
            return None
        results = [self._graph.nodes[wire.node].makes[0] for wire in exchange]
        wires = [_Wire(*at) for name in results for at in self._graph.readers.get(name, ())]
        if len(wires) != 2 or not all(map(self._is_only_reader, wires)):
            return None
        return wires[0], wires[1]

    def _is_only_reader(self, wire: _Wire) -> bool:
        """Return whether nothing else reads the tensor of an input."""
        name = self._name(wire)
        return len(self._graph.readers.get(name, ())) == 1 and name not in self._case.model.outputs

    def _differing_input(self, first: int, second: int) -> int | None:
        """Return the position of the only input in which two nodes with one output differ.
        The result is None if they differ otherwise."""
        nodes = self._graph.nodes[first], self._graph.nodes[second]
        if first == second or any(len(node.outputs) != 1 for node in nodes):
            return None
        keys = [(node.op, node.domain, len(node.inputs), attribute_digests(node)) for node in nodes]
        reads = [[self._key(name) for name in node.inputs] for node in nodes]
        differing = [at for at, (a, b) in enumerate(zip(*reads)) if a != b]
        return differing[0] if keys[0] == keys[1] and len(differing) == 1 else None

    def _key(self, name: str) -> str:
        """Return the content of a weight, or the name of another tensor."""
        return self._graph.digest(name) if name in self._graph.constants else name

    def _has_reference_value(self, name: str) -> bool | None:
        """Return whether the reference's tensor of the same name has the same values, or None.
        The result is None if the reference has no such tensor, or the values show nothing.
        Optimizers name the result of folded nodes after them."""
        value = self._values.get(name)
        if value is None or not is_informative(np.asarray(value)):
            return None
        values = self._reference_values
        folded = (key for key in values if key.endswith(f"_{name}"))
        other = values.get(name, values.get(next(folded, "")))
        return None if np.size(other) != np.size(value) else is_close(value, other)

    @cached_property
    def _reference_values(self) -> Mapping[str, Any]:
        """Return the tensors and weights of the reference; empty if they cannot be computed."""
        reference = self._pair.reference
        held = {n: w.values for n, w in reference.graph.constants.items() if w.values is not None}
        try:
            feed = self._pair.feed_reference(self._feed)
            case = self._case.with_model(reference)
            return {**held, **trace_tensors(case, self._pair.party, feed).values}
        except PolygraphyException:
            return held


def _rewire(node: Node, names: Mapping[_Wire, str]) -> Node:
    """Return a node that reads other tensors at some inputs."""
    by_position = {wire.position: name for wire, name in names.items()}
    return evolve(
        node, inputs=tuple(by_position.get(at, name) for at, name in enumerate(node.inputs))
    )
