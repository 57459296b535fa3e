"""One change of a node that explains why a model computes other values than a reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.change_search import (
    ChangeSearch,
    OtherTensor,
)
from polygraphy.application.diagnose.changes.divergence import (
    LEFT,
    Divergence,
    Divergences,
)
from polygraphy.application.diagnose.parts import Submodel, cut_part
from polygraphy.application.diagnose.subprocesses import TrialLimits
from polygraphy.domain.diagnosis.borrowed import (
    FUNCTIONS,
    MOVING,
    SameTensors,
    bypass_variants,
    is_close,
    is_informative,
)
from polygraphy.domain.diagnosis.pairing import Pairing, is_quantized
from polygraphy.domain.diagnosis.variants import Variant, output_swaps, variants
from polygraphy.domain.diagnosis.words import changes, steps
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import attribute_text
from polygraphy.domain.quantization.sites import is_coarse
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import Compute, SuspectedParty

_SOLVED = 16
"""In regions with more nodes, no number is solved for: a number of another node may have the same
effect."""
_OPERANDS = 16
"""Arrays that a missing node may have read besides its input."""
_FEW_NODES = 4
"""The most nodes whose changes are tried in the whole model. Chosen, not measured."""
_RESERVED = 0.25
"""The share of the tries that is reserved for other inputs and numbers. Chosen, not measured."""


@frozen
class Explanation:
    """A change that explains some divergences.

    Attributes:
        node: the position of the node in the model.
        variant: the variant of the node that is correct.
        places: the divergences that the variant corrects.
        others: the positions of nodes whose change has the same effect.
    """

    node: int
    variant: Variant
    places: Sequence[Divergence]
    others: Sequence[int] = ()

    @property
    def lost_tensors(self) -> Sequence[str]:
        """Return the reference tensor whose node is missing, if that is the change."""
        change = self.variant.change
        return [str(change.values["expected"])] if change.kind == "missing_node_between" else []


class Change:
    """Tries to explain some divergences by one change.

    Args:
        case: the model.
        pairing: its nodes and those of the reference.
        party: the backend that runs it.
        found: all places.
        feed: what the model was fed with.
        places: the divergences to explain.

    Attributes:
        budget: the budget of runs.
        untried: by kind of change, the nodes that the limit excluded.
    """

    def __init__(
        self,
        case: Case,
        pairing: Pairing,
        party: SuspectedParty,
        divergences: Divergences,
        feed: Feed,
        places: Sequence[Divergence],
    ) -> None:
        """Prepare the search for one change that explains the divergences."""
        self._case, self._party, self._found, self._places = case, party, divergences, places
        self._side, self._others = pairing.model, pairing.reference
        self._is_quantized = is_quantized(pairing)
        self._feed = feed
        self._held = {**divergences.values, **feed}
        self._nodes = sorted({index for divergence in places for index in divergence.border.nodes})
        self._goals = {divergence.border.tensor: divergence.expected for divergence in places}
        maker = self._others.operation_producers
        self._instead = sorted({maker[n] for p in places for n in p.instead if n in maker})
        names = (name for index in self._nodes for name in case.model.nodes[index].makes)
        total = sum(getattr(self._held.get(name), "nbytes", 0) for name in names)
        self.budget = RunBudget.for_part(total, len(self._nodes))
        self.untried: dict[str, set[int]] = {}
        self._lost: Collection[str] = ()

    @property
    def unverified_nodes(self) -> set[int]:
        """Return the positions of the nodes that compute no verified tensor."""
        return {index for divergence in self._places for index in divergence.unproven}

    @property
    def is_right(self) -> bool:
        """Return whether the unchanged nodes compute the expected values,
        so that rounding was the cause."""
        return self._search_all_nodes is not None and self._search_all_nodes.is_right

    def find_common_change(self) -> Explanation | None:
        """Return an explanation by the reference's nodes or common mistakes; None if none fits."""
        search = self._search_all_nodes
        if search is None:
            return None
        self.budget.reserved = int(self.budget.runs * _RESERVED)
        return self._first_explanation(
            {
                steps.LEFT_OUT_NODES: lambda index: search.select_matching(
                    bypass_variants(self._side, index)
                ),
                steps.VALUES_OF_REFERENCE: lambda index: search.find_borrowed_variants(
                    index, self._others, self._instead
                ),
                steps.USUAL_MISTAKES: search.find_usual_variants,
            }
        )

    def find_other_change(self) -> Explanation | None:
        """Return an explanation by different inputs or constants; None if none fits."""
        self.budget.reserved = 0
        return self._first_explanation(
            {steps.OTHER_INPUTS: self._find_inputs, steps.OTHER_NUMBERS: self._find_numbers}
        )

    def find_exchanged_outputs(self) -> Explanation | None:
        """Return an explanation by two exchanged outputs of one node; None if none fits."""
        self.budget.reserved = 0
        for index in self._nodes:
            if self._search_all_nodes is not None and index in self._side.operations:
                for variant in self._search_all_nodes.select_matching(
                    output_swaps(self._side.nodes[index])
                ):
                    return Explanation(index, variant, self._places)
        return None

    def find_lost_nodes(self, names: Collection[str]) -> Explanation | None:
        """Return an explanation by nodes that are known to be missing elsewhere, or None.
        The result is None if none fits."""
        self.budget.taken = 0
        self._lost = names
        return self._first_explanation({steps.OTHER_INPUTS: self._find_inputs})

    def _first_explanation(
        self, kinds: Mapping[str, Callable[[int], Iterator[Variant]]]
    ) -> Explanation | None:
        """Return the first explanation among nodes that compute no verified tensor,
        by kind of change; None if there is none. Changes that the budget excludes are recorded."""
        nodes, equal_tensors = self._case.model.nodes, self._found.same
        if self._is_quantized and any(is_coarse(nodes[index].operator) for index in self._nodes):
            return None  # Quantized nodes cannot reproduce the reference exactly.
        # Nodes that compute shapes come last: they have many variants, and are rarely at fault.
        ordered = sorted(self._nodes, key=lambda index: not self._is_numeric(index))
        first = [i for i in ordered if any(i in divergence.unproven for divergence in self._places)]
        other_nodes = [
            index
            for index in ordered
            if index not in first and not all(name in equal_tensors for name in nodes[index].makes)
        ]
        for indices in (first, other_nodes):
            for kind, tried in kinds.items():
                for index in (i for i in indices if i in self._side.operations):
                    self.budget.is_cut_short = self.budget.is_spent
                    for variant in () if self.budget.is_spent else tried(index):
                        return Explanation(index, variant, self._places)
                    if self.budget.is_cut_short:
                        self.untried.setdefault(kind, set()).add(index)
        return None

    def _is_numeric(self, index: int) -> bool:
        """Return whether a node computes floating-point numbers."""
        return any(is_float(self._held.get(name)) for name in self._case.model.nodes[index].makes)

    @property
    def _trial_limits(self) -> TrialLimits:
        """Return what a changed part may take."""
        return self._case.trial_limits(
            sum(getattr(value, "nbytes", 0) for value in self._held.values())
        )

    @cached_property
    def _search_all_nodes(self) -> ChangeSearch | None:
        """Return the search among all nodes; None if they read an unknown tensor."""
        return self._search_in(self._nodes)

    def _search_in(self, nodes: Sequence[int]) -> ChangeSearch | None:
        """Return the search in a part of the model; None if that reads an unknown tensor."""
        try:
            part = cut_part(self._case.model, nodes, self._held)
        except PolygraphyException:
            return None
        return ChangeSearch(
            self._side, part, self._goals, (self._party,), self.budget,
            is_reshaped=True, limit=self._found.limit, trial_limits=self._trial_limits,
        )  # fmt: skip

    def _find_numbers(self, index: int) -> Iterator[Variant]:
        """Yield variants in which one number that a node reads is solved."""
        if self._search_all_nodes is not None and len(self._nodes) <= _SOLVED:
            yield from self._search_all_nodes.find_numbers(index)

    def _find_inputs(self, index: int) -> Iterator[Variant]:
        """Yield variants in which a node reads another tensor, of the model or the reference."""
        if self._changes_equal_tensor(index):
            return
        behind = self._nodes_behind(index)
        is_moving = self._case.model.nodes[index].operator in MOVING
        narrow = tuple(node for node in self._nodes if node == index or node in behind)
        for nodes in dict.fromkeys((narrow, self._readers_like(index))):
            search = self._search_in(nodes)
            if search is not None:
                for variant in search.find_inputs(
                    index,
                    self._other_tensors(),
                    self._twins,
                    self._tensors_behind,
                    self._second_operands(index),
                    may_be_missing=self._is_computed if is_moving else lambda tensor: True,
                ):
                    if not self._stands_idle(index, variant):
                        yield variant

    def _stands_idle(self, index: int, variant: Variant) -> bool:
        """Return whether a node that is said to be missing is there, next to the node or past nodes
        that only move data, and returns its input unchanged: then its other input is wrong."""
        makers, change = self._others.operation_producers, variant.change
        if change.kind == "missing_node":
            op = change.values["op"]
        elif change.kind == "missing_node_between" and change.values["expected"] in makers:
            op = self._others.nodes[makers[change.values["expected"]]].op
        else:
            return False
        graph = self._case.model.graph
        waiting, reached = [index], {index}
        while waiting:
            node = graph.nodes[waiting.pop()]
            near = {graph.producers[name] for name in node.reads if name in graph.producers}
            near |= {reader for name in node.makes for reader, _ in graph.readers.get(name, ())}
            for other in near - reached:
                reached.add(other)
                if graph.nodes[other].operator in MOVING:
                    waiting.append(other)
                elif graph.nodes[other].operator == op and self._is_idle(other):
                    return True
        return False

    def _is_idle(self, index: int) -> bool:
        """Return whether a node returns one of its inputs unchanged."""
        node = self._case.model.nodes[index]
        values = [self._held[name] for name in node.reads if name in self._held]
        return any(
            np.array_equal(value, self._held[made]) and np.array_equal(value, self._held[made])
            for made in node.makes
            if made in self._held
            for value in values
        )

    def _is_computed(self, tensor: OtherTensor) -> bool:
        """Return whether a function without weights, such as Neg, is one that the reference
        computes. Beside a node that only moves data, another one can stand for a fault of the nodes
        behind it, such as Sub instead of Add."""
        if tensor.op not in FUNCTIONS:
            return True
        makers, others = self._others.operation_producers, self._others.nodes
        return any(
            name in makers
            and others[makers[name]].op not in MOVING
            and is_close(tensor.value, array)
            for name, array in self._found.theirs.items()
        )

    def _changes_equal_tensor(self, index: int) -> bool:
        """Return whether tensors with an equal one in the reference depend on a node, other than
        through a border: another input of the node would change them too."""
        nodes, readers = self._case.model.nodes, self._case.model.graph.readers
        waiting, reached = [index], {index}
        while waiting:
            for name in nodes[waiting.pop()].makes:
                if name in self._goals:
                    continue
                value = self._held.get(name)
                if name in self._found.same and is_float(value) and is_informative(value):
                    return True
                behind = {reader for reader, _ in readers.get(name, ())} - reached
                waiting += behind
                reached |= behind
        return False

    def _readers_like(self, index: int) -> tuple[int, ...]:
        """Return a node, the nodes that read one of its computed inputs, and all nodes after these:
        a node may be missing before all of them."""
        nodes, constants = self._case.model.nodes, self._case.model.constants
        read = {name for name in nodes[index].reads if name and name not in constants}
        readers = [node for node in self._nodes if node == index or read & {*nodes[node].reads}]
        chosen = {*readers}.union(*map(self._nodes_behind, readers))
        return tuple(node for node in self._nodes if node in chosen)

    def find_lost_node_behind(self) -> Explanation | None:
        """Return an explanation by a node that is missing after the only divergence, or None.
        The result is None unless the unchanged nodes compute a tensor that the reference has
        just before the expected one."""
        search = self._search_all_nodes
        if search is None or len(self._places) != 1:
            return None
        [divergence] = self._places
        tensor, twin = divergence.border.tensor, divergence.border.twin
        try:
            value = search.part.run(self._party).get(tensor)
        except PolygraphyException:
            return None
        earlier = (name for name in divergence.instead if name != twin)
        reference_values = self._found.theirs
        if not any(
            name in reference_values and is_close(value, reference_values[name]) for name in earlier
        ):
            return None
        for index, _ in self._case.model.graph.readers.get(tensor, ()):
            if index in self._side.operations:
                node = self._side.nodes[index]
                inputs = tuple(twin if name == tensor else name for name in node.inputs)
                change = changes.missing_node_between(node.op, twin, tensor)
                variant = Variant("structure", change, evolve(node, inputs=inputs))
                if not self._stands_idle(index, variant):
                    return Explanation(index, variant, self._places)
        return None

    def find_solved_weight(self) -> Explanation | None:
        """Return an explanation by a weight of the only unverified node, solved from the expected
        value, or None. The result is None if none fits, or if noise would fit as well.
        The reference may not contain the weight, for example if it scales what the node computes.
        """
        operations = self._side.operations
        indices = [index for index in self.unverified_nodes if index in operations]
        if len(indices) != 1 or len(self._places) != 1:
            return None
        [index], [divergence] = indices, self._places
        name, search = divergence.border.tensor, self._search_in(indices)
        if search is None or name not in self._side.nodes[index].outputs:
            return None
        try:
            output = search.part.run(self._party)[name]
        except PolygraphyException:
            return None
        goal = divergence.expected
        if np.size(output) != np.size(goal):
            return None
        search = evolve(search, goals={name: np.reshape(goal, np.shape(output))})
        for weight in search.find_weights(index, output, search.goals[name]):
            if not search.fits_noise(index, output, name, weight):
                return Explanation(index, weight, self._places)
        return None

    def find_change_for_outputs(self, goals: Values) -> Explanation | None:
        """Return an explanation by a change of one of the unverified nodes with which the whole
        model computes the expected outputs; None if none fits. The expected value at a border may
        be unknown, for example if Relu follows it in both models."""

        def matches(values: Values, compute: Compute) -> bool:
            """Return whether the outputs are as expected."""
            own_goals = {name: goal for name, goal in goals.items() if name in values}
            differing = self._case.find_deviations(values, own_goals)
            return all(deviation.relative <= LEFT for deviation in differing.values())

        part = Submodel(self._case.model.proto, self._feed)
        search = ChangeSearch(
            self._side, part, goals, (self._party,), self.budget,
            explains=matches, limit=self._found.limit, trial_limits=self._trial_limits,
        )  # fmt: skip
        indices = sorted(self.unverified_nodes & self._side.operations.keys())
        indices = indices if len(indices) <= _FEW_NODES else []
        for index in indices:
            tried = chain(bypass_variants(self._side, index), variants(self._side, index))
            for variant in search.select_matching(tried):
                return Explanation(index, variant, self._places)
        for index in indices:
            for variant in self._find_inputs_for_outputs(search, index):
                return Explanation(index, variant, self._places)
        return None

    def _find_inputs_for_outputs(self, search: ChangeSearch, index: int) -> Iterator[Variant]:
        """Yield variants in which a node reads another tensor that only the reference computes,
        so that the nodes behind it compute the expected outputs."""
        nodes = {index, *self._nodes_behind(index)}
        names = {name for position in nodes for name in self._case.model.nodes[position].makes}
        outputs = [name for name in self._case.model.outputs if name in names]
        try:
            part = cut_part(self._case.model, sorted(nodes), self._held, outputs)
        except PolygraphyException:
            return
        lost_tensors = [tensor for tensor in self._other_tensors() if not tensor.is_in_model]
        yield from evolve(search, part=part).find_inputs(
            index, lost_tensors, self._twins, self._tensors_behind
        )

    def _second_operands(self, index: int) -> Sequence[Any]:
        """Return possible second inputs of a node that is missing before a node:
        weights of the reference's nodes, and tensors that the nodes read and that do not depend
        on the node."""
        names = dict.fromkeys(n for i in self._instead for n in self._others.nodes[i].inputs)
        weights = self._others.constants
        arrays = [weights[name].values for name in names if name in weights]
        nodes = self._case.model.nodes
        dependents = {n for i in (index, *self._nodes_behind(index)) for n in nodes[i].makes}
        read = dict.fromkeys(n for i in self._nodes for n in nodes[i].reads if n not in dependents)
        arrays += [self._held[name] for name in read if name in self._held]
        return [array for array in map(np.asarray, arrays) if is_float(array)][:_OPERANDS]

    @cached_property
    def _twins(self) -> Mapping[str, str]:
        """Return the reference tensor that equals each tensor of the model,
        including tensors after nodes that only move elements."""
        same_tensors, twins = SameTensors(self._found.theirs), dict(self._found.same)
        for index in self._nodes:
            for name in self._case.model.nodes[index].reads:
                if name in self._held and name not in twins:
                    twin = same_tensors.find_equal(name, self._held[name], ())
                    twins.update({} if twin is None else {name: twin})
        return twins

    @cached_property
    def _tensors_behind(self) -> Mapping[str, Collection[str]]:
        """Return, by input with an equal reference tensor, the tensors that only the reference
        computes from it and from other equal tensors."""
        twins = {twin: name for name, twin in self._twins.items()}
        tensors_behind: dict[str, list[str]] = {}
        roots = {twin: {name} for twin, name in twins.items()}
        for index in self._instead:
            node = self._others.nodes[index]
            read = {root for name in node.inputs for root in roots.get(name, ())}
            for name in node.outputs:
                if name and name not in twins:
                    roots[name] = read
                    for root in read:
                        tensors_behind.setdefault(root, []).append(name)
        return tensors_behind

    def is_computed_from(self, name: str, operand: str) -> bool:
        """Return whether only the reference computes a tensor from the equal of a tensor."""
        return name in self._tensors_behind.get(operand, ())

    def _nodes_behind(self, index: int) -> set[int]:
        """Return the nodes that depend on a node."""
        nodes = self._case.model.nodes
        produced = set(nodes[index].makes)
        nodes_behind: set[int] = set()
        for position in range(index + 1, len(nodes)):
            if produced.intersection(nodes[position].reads):
                nodes_behind.add(position)
                produced.update(nodes[position].makes)
        return nodes_behind

    def _other_tensors(self) -> Iterator[OtherTensor]:
        """Yield tensors that nodes may have read: the last equal ones first, then those of the
        model that do not depend on the nodes in question, then those that only the reference
        computes."""
        used_names = set(self._found.same.values())
        is_only = sum(map(self._is_numeric, self.unverified_nodes)) == 1
        own_tensors = ((name, self._held.get(name), True) for name in reversed([*self._found.same]))
        reference_tensors = (
            (n, v, False) for n, v in self._found.theirs.items() if n not in used_names
        )
        unaffected_tensors = (
            (name, value, True)
            for name, value in self._held.items()
            if name not in self._found.same and name not in self._affected_tensors
        )
        for name, value, is_in_model in chain(own_tensors, unaffected_tensors, reference_tensors):
            if self._lost and (is_in_model or name not in self._lost):
                continue
            is_goal = any(is_close(value, goal) for goal in self._goals.values())
            # This node should perhaps return the tensor of another node of the model. A tensor of
            # the reference proves nothing if other nodes may be at fault.
            if is_float(value) and (is_in_model or self._lost or is_only or not is_goal):
                yield OtherTensor(name, value, is_in_model)

    @cached_property
    def _affected_tensors(self) -> set[str]:
        """Return the tensors that depend on a node that computes no verified tensor."""
        nodes, suspected = self._case.model.nodes, self.unverified_nodes
        affected = suspected.union(*map(self._nodes_behind, suspected))
        return {name for index in affected for name in nodes[index].makes}

    def choose_node(self, reason: Explanation) -> Explanation:
        """Return the explanation for the likeliest of several equivalent nodes,
        such as two Transpose nodes in a row: the one that becomes most similar to other nodes
        of the model."""
        node = self._case.model.nodes[reason.node]
        if node.operator not in MOVING or reason.variant.cause != "attribute":
            return reason
        choices = [(reason.node, reason.variant)]
        for index in self._neighbors(reason.node):
            if index in self._side.operations and self._search_all_nodes is not None:
                choices += [
                    (index, variant)
                    for variant in self._search_all_nodes.find_usual_variants(index)
                ][:1]
        if len(choices) == 1:
            return reason
        counts = [self._count_alike(index, variant) for index, variant in choices]
        most = max(counts)
        if counts.count(most) == 1:
            index, variant = choices[counts.index(most)]
            return Explanation(index, variant, reason.places)
        return evolve(reason, others=[index for index, _ in choices[1:]])

    def _neighbors(self, index: int) -> list[int]:
        """Return the adjacent nodes of the same operator that only move the same elements."""
        nodes = self._case.model.nodes
        waiting, near = [index], {index}
        while waiting:
            position = waiting.pop()
            for node in self._nodes:
                is_next = {*nodes[position].makes} & {*nodes[node].reads}
                is_next = is_next or {*nodes[node].makes} & {*nodes[position].reads}
                if is_next and node not in near and nodes[node].operator in MOVING:
                    near.add(node)
                    waiting.append(node)
        return sorted(
            number
            for number in near
            if number != index and nodes[number].operator == nodes[index].operator
        )

    def _count_alike(self, index: int, variant: Variant) -> int:
        """Return how many nodes of the model are like a variant:
        the same operator and attributes, and inputs from the same operator."""
        operator_key = self._operator_key(variant.node)
        return sum(
            self._operator_key(node) == operator_key
            for other_index, node in self._side.operations.items()
            if other_index != index
        )

    def _operator_key(self, node: Any) -> tuple[Any, ...]:
        """Return the operator and attributes of a node, and the operator of the node that computes
        its input.
        """
        maker = self._side.operation_producers.get(node.inputs[0]) if node.inputs else None
        before = "" if maker is None else self._side.nodes[maker].op
        texts = sorted((attribute.name, attribute_text(attribute)) for attribute in node.attributes)
        return node.op, before, tuple(texts)
