"""The change that makes a model diverge from a reference with different nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.change_search import (
    ChangeSearch,
    OtherTensor,
    output_name,
)
from polygraphy.application.diagnose.changes.divergence import (
    LEFT,
    Divergence,
    Divergences,
    find_divergences,
)
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.parts import Part, cut_part
from polygraphy.domain.diagnosis.borrowed import MOVING, SameTensors, bypass_variants, is_close
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.pairing import Pairing, is_quantized
from polygraphy.domain.diagnosis.two_models import WEIGHTED
from polygraphy.domain.diagnosis.variants import Variant, output_swaps
from polygraphy.domain.diagnosis.words import changes, evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node, attribute_text
from polygraphy.domain.model.regions import nodes_after_inputs
from polygraphy.domain.quantization.sites import is_coarse
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

_SOLVED = 16
"""In regions with more nodes, no number is solved for: a number of another node may have the same
effect."""
_OPERANDS = 16
"""Arrays that a missing node may have read besides its input."""
_RESERVED = 0.25
"""The share of the tries that is reserved for other inputs and numbers. Chosen, not measured."""
_UNEXPLAINED = 2
"""With more places that no change explains, nothing is proven. Chosen, not measured."""
_MANY = 64
"""Most nodes that are named together: the first ones, which are nearest to equal tensors."""


@frozen
class Explanation:
    """A change that explains some places.

    Attributes:
        node: the position of the node in the model.
        variant: the variant of the node that is correct.
        places: what that makes right.
        others: the positions of nodes of which a change does the same.
    """

    node: int
    variant: Variant
    places: Sequence[Divergence]
    others: Sequence[int] = ()

    @property
    def lost(self) -> Sequence[str]:
        """Return the reference tensor whose node is missing, if that is the change."""
        change = self.variant.change
        return [str(change.values["expected"])] if change.kind == "missing_node_between" else []


def group_places(places: Sequence[Divergence]) -> list[list[Divergence]]:
    """Return groups of places that have nodes in common."""
    groups: list[list[Divergence]] = []
    for place in places:
        nodes = set(place.unproven)
        sharing = [g for g in groups if any(nodes & set(parting.unproven) for parting in g)]
        groups = [g for g in groups if g not in sharing]
        groups.append([*(parting for group in sharing for parting in group), place])
    return groups


class Change:
    """Tries to explain some places by one change.

    Args:
        case: the model.
        pairing: its nodes and those of the reference.
        party: who runs it.
        found: all places.
        feed: what the model was fed with.
        places: what is to become right.

    Attributes:
        budget: how much is tried.
        untried: by kind of change, the nodes of which the limit left out some or all.
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
        """Prepare the search for one change that explains the places."""
        self._case, self._party, self._found, self._places = case, party, divergences, places
        self._side, self._others = pairing.model, pairing.reference
        self._is_quantized = is_quantized(pairing)
        self._held = {**divergences.values, **feed}
        self._nodes = sorted({index for place in places for index in place.border.nodes})
        self._goals = {place.border.tensor: place.expected for place in places}
        maker = self._others.computed
        self._instead = sorted({maker[n] for p in places for n in p.instead if n in maker})
        names = (name for index in self._nodes for name in case.model.nodes[index].makes)
        total = sum(getattr(self._held.get(name), "nbytes", 0) for name in names)
        self.budget = RunBudget.for_part(total, len(self._nodes))
        self.untried: dict[str, set[int]] = {}
        self._lost: Collection[str] = ()

    @property
    def unverified_nodes(self) -> set[int]:
        """Return the nodes that compute no verified tensor."""
        return {index for place in self._places for index in place.unproven}

    @property
    def is_right(self) -> bool:
        """Return whether the unchanged nodes compute the expected values, so that rounding was the
        cause."""
        return self._search_all_nodes is not None and self._search_all_nodes.is_right

    def find_common(self) -> Explanation | None:
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
                steps.VALUES_OF_REFERENCE: lambda index: search.find_borrowed(
                    index, self._others, self._instead
                ),
                steps.USUAL_MISTAKES: search.find_usual,
            }
        )

    def find_other(self) -> Explanation | None:
        """Return an explanation by different inputs or constants; None if none fits."""
        self.budget.reserved = 0
        return self._first_explanation(
            {steps.OTHER_INPUTS: self._find_inputs, steps.OTHER_NUMBERS: self._find_numbers}
        )

    def find_exchanged(self) -> Explanation | None:
        """Return an explanation by two exchanged outputs of one node; None if none fits."""
        self.budget.reserved = 0
        for index in self._nodes:
            if self._search_all_nodes is not None and index in self._side.operations:
                for variant in self._search_all_nodes.select_matching(
                    output_swaps(self._side.nodes[index])
                ):
                    return Explanation(index, variant, self._places)
        return None

    def find_lost(self, names: Collection[str]) -> Explanation | None:
        """Return an explanation by nodes that are known to be missing elsewhere; None if
        none fits.
        """
        self.budget.taken = 0
        self._lost = names
        return self._first_explanation({steps.OTHER_INPUTS: self._find_inputs})

    def _first_explanation(
        self, kinds: Mapping[str, Callable[[int], Iterator[Variant]]]
    ) -> Explanation | None:
        """Return the first explanation among nodes that compute no verified tensor, by kind of
        change; record what the budget leaves out.
        """
        nodes, equal_tensors = self._case.model.nodes, self._found.same
        if self._is_quantized and any(is_coarse(nodes[index].operator) for index in self._nodes):
            return None  # Nothing in steps makes what the reference has.
        # Nodes that compute shapes come last: they have many variants, and are rarely at fault.
        ordered = sorted(self._nodes, key=lambda index: not self._is_numeric(index))
        first = [i for i in ordered if any(i in place.unproven for place in self._places)]
        other_nodes = [
            index
            for index in ordered
            if index not in first and not all(name in equal_tensors for name in nodes[index].makes)
        ]
        for indices in (first, other_nodes):
            for kind, tried in kinds.items():
                for index in (each for each in indices if each in self._side.operations):
                    self.budget.is_cut_short = self.budget.is_spent
                    for variant in () if self.budget.is_spent else tried(index):
                        return Explanation(index, variant, self._places)
                    if self.budget.is_cut_short:
                        self.untried.setdefault(kind, set()).add(index)
        return None

    def _is_numeric(self, index: int) -> bool:
        """Return whether a node computes floating-point numbers."""
        return any(is_float(self._held.get(name)) for name in self._case.model.nodes[index].makes)

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
            is_reshaped=True, limit=self._found.limit,
        )  # fmt: skip

    def _find_numbers(self, index: int) -> Iterator[Variant]:
        """Yield variants in which one number that a node reads is solved."""
        if self._search_all_nodes is not None and len(self._nodes) <= _SOLVED:
            yield from self._search_all_nodes.find_numbers(index)

    def _find_inputs(self, index: int) -> Iterator[Variant]:
        """Yield variants in which a node reads another tensor, of the model or the reference."""
        behind = self._nodes_behind(index)
        search = self._search_in([node for node in self._nodes if node == index or node in behind])
        if search is not None:
            yield from search.find_inputs(
                index,
                self._other_tensors(),
                self._twins,
                self._tensors_behind,
                self._second_operands,
            )

    @cached_property
    def _second_operands(self) -> Sequence[Any]:
        """Return possible second inputs of a missing node: weights of the reference's nodes, and
        tensors that the nodes read."""
        names = dict.fromkeys(n for i in self._instead for n in self._others.nodes[i].inputs)
        weights = self._others.constants
        arrays = [weights[name].values for name in names if name in weights]
        read = dict.fromkeys(n for i in self._nodes for n in self._case.model.nodes[i].reads)
        arrays += [self._held[name] for name in read if name in self._held]
        return [one for one in map(np.asarray, arrays) if is_float(one)][:_OPERANDS]

    @cached_property
    def _twins(self) -> Mapping[str, str]:
        """Return the reference tensor that equals each tensor of the model, including tensors
        behind nodes that only move elements."""
        known, twins = SameTensors(self._found.theirs), dict(self._found.same)
        for index in self._nodes:
            for name in self._case.model.nodes[index].reads:
                if name in self._held and name not in twins:
                    twin = known.of(name, self._held[name], ())
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
        """Yield tensors that nodes may have read: the last equal ones first, then those that only
        the reference computes."""
        used_names = set(self._found.same.values())
        is_only = sum(map(self._is_numeric, self.unverified_nodes)) == 1
        own_tensors = ((name, self._held.get(name), True) for name in reversed([*self._found.same]))
        reference_tensors = (
            (n, v, False) for n, v in self._found.theirs.items() if n not in used_names
        )
        for name, value, is_in_model in chain(own_tensors, reference_tensors):
            if self._lost and (is_in_model or name not in self._lost):
                continue
            is_goal = any(is_close(value, goal) for goal in self._goals.values())
            # What another node of the model computes may be what this one should hand on; a tensor
            # of the reference proves nothing if other nodes may be at fault.
            if is_float(value) and (is_in_model or self._lost or is_only or not is_goal):
                yield OtherTensor(name, value, is_in_model)

    def choose_node(self, reason: Explanation) -> Explanation:
        """Return the explanation for the likeliest of several equivalent nodes, such as two
        Transpose nodes in a row: the one that becomes most similar to other nodes of the model."""
        node = self._case.model.nodes[reason.node]
        if node.operator not in MOVING or reason.variant.cause != "attribute":
            return reason
        choices = [(reason.node, reason.variant)]
        for index in self._neighbors(reason.node):
            if index in self._side.operations and self._search_all_nodes is not None:
                choices += [
                    (index, variant) for variant in self._search_all_nodes.find_usual(index)
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
        """Return the nodes of the same operator directly before or after a node that only move the
        same elements."""
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
        """Return how many nodes of the model have the operator and attributes of a variant, and
        inputs from the same operator."""
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
        maker = self._side.computed.get(node.inputs[0]) if node.inputs else None
        before = "" if maker is None else self._side.nodes[maker].op
        texts = sorted((attribute.name, attribute_text(attribute)) for attribute in node.attributes)
        return node.op, before, tuple(texts)


def find_changes(
    case: Case,
    reference: OpenModel,
    pairing: Pairing,
    party: SuspectedParty,
    feeds: tuple[Feed, Feed],
    goal: Values,
    known_culprits: Sequence[Culprit],
) -> Differences:
    """Return the nodes that compute different results than the reference from equal inputs.

    Args:
        case: the model.
        reference: the correct model.
        pairing: nodes of both, by structure.
        party: the backend that runs both.
        feeds: data by the names of the model, and of the reference.
        goal: the expected outputs.
        known: what the structure of both says, as far as that is proven.

    Returns:
        None of `known` where that could not be found out, or is said by them already.
    """
    with case.attempt(titles.EQUAL_TENSORS) as notes:
        divergences = find_divergences(case, reference, party, *feeds, goal)
        if divergences is None:
            notes.append(steps.NO_DIVERGENCE)
            return Differences(known_culprits, is_open=len(known_culprits) > 1)
        notes.append(steps.equal_pairs(len(divergences.same), len(divergences.places)))
    new_culprits: list[Culprit] = []
    reasons: list[Explanation] = []
    untried: dict[str, set[int]] = {}
    is_open = False
    with case.attempt(titles.CHANGED_NODES) as notes:
        groups = group_places(divergences.places)
        search = _GroupSearch(
            case, reference, pairing, party, divergences, feeds[0], known_culprits
        )
        explained = [
            parting for group in groups for parting in search.explain_each(group, len(groups))
        ]
        lost = {
            each
            for parting in explained
            if parting.reason is not None
            for each in parting.reason.lost
        }
        for single_culprits in explained:
            reason = single_culprits.reason or (
                single_culprits.change.find_lost(lost) if lost else None
            )
            if single_culprits.is_right:
                continue
            if reason is None:
                for kind, indices in single_culprits.change.untried.items():
                    untried.setdefault(kind, set()).update(indices)
                unexplained, is_unknown = search.describe(single_culprits)
                new_culprits += unexplained
                is_open |= is_unknown
                continue
            reasons.append(reason)
            new_culprits.append(_culprit_of_change(case, reason, divergences.same))
            is_open |= bool(reason.others)
        notes.append(steps.count_of_explanations(len(reasons), len(new_culprits), untried))
    is_open |= (
        sum(
            parting.cause == "structure" and parting not in known_culprits
            for parting in new_culprits
        )
        > _UNEXPLAINED
    )
    is_whole = reasons and len(reasons) == len(new_culprits)
    repaired = None
    if is_whole:
        repaired = _repair_model(case, pairing.model, party, feeds[0], goal, reasons)
        if repaired is None:
            return Differences(known_culprits or new_culprits, is_open=True)
        remedy = case.undo_changes(pairing.model, [culprit.variant for culprit in reasons])
        new_culprits = [evolve(reason, remedy=remedy) for reason in new_culprits]
    return Differences(new_culprits, repaired, is_open)


@frozen
class _Group:
    """Places that have nodes in common, with their explanation.

    Attributes:
        places: the places.
        change: the search for a change among their nodes.
        reason: the change that explains them; None if none does.
        is_right: whether the nodes compute what is expected, so that the cause was rounding.
        inside: the structural differences within their nodes.
    """

    places: Sequence[Divergence]
    change: Change
    reason: Explanation | None = None
    is_right: bool = False
    inside: Sequence[Culprit] = ()

    @property
    def states_change(self) -> bool:
        """Return whether a structural difference already states the change."""
        return len(self.inside) == 1 and self.inside[0].cause != "structure"


@frozen
class _GroupSearch:
    """Searches an explanation for groups of places; attributes are the arguments of
    `find_changes`.
    """

    case: Case
    reference: OpenModel
    pairing: Pairing
    party: SuspectedParty
    found: Divergences
    feed: Feed
    known: Sequence[Culprit]

    def explain_each(self, places: Sequence[Divergence], number: int) -> Sequence[_Group]:
        """Return a group with the change that explains it; if there is none, its places as single
        groups if each has an explanation."""
        group = self.explain(places, number)
        if group.is_right or group.reason is not None or len(places) == 1:
            return [group]
        single = [self.explain([place], number + 1) for place in places]
        is_explained = all(one.is_right or one.reason is not None for one in single)
        return single if is_explained else [group]

    def explain(self, places: Sequence[Divergence], number: int) -> _Group:
        """Return a group with the change that explains it; `number` is the number of all groups."""
        change = self._change(self.found, places)
        inside = _culprits_within(self.case, places, self.known, self.found.values)
        group = _Group(places, change, inside=inside)
        if change.is_right:
            return evolve(group, is_right=True)
        reason = self._explain_nearer() if number == 1 else None
        reason = (
            reason or change.find_common() or (None if group.states_change else change.find_other())
        )
        if reason is None and not group.states_change:
            # Something may be missing before the node, or two of its inputs may be exchanged.
            wider = [_with_makers(self.case, self.found, place) for place in places]
            behind = self._change(self.found, wider)
            is_one = len(change.unverified_nodes) == 1
            reason = behind.find_common() if is_one else behind.find_exchanged()
        return evolve(group, reason=None if reason is None else change.choose_node(reason))

    def describe(self, group: _Group) -> tuple[Sequence[Culprit], bool]:
        """Return the culprits of an unexplained group, and whether it is unknown which of its nodes
        is at fault."""
        is_certain = all(
            _has_same_operator(self.case, self.reference, place) for place in group.places
        )
        wider = [
            place if is_certain else _with_makers(self.case, self.found, place)
            for place in group.places
        ]
        unexplained = _culprit_without_change(self.case, wider, self.feed)
        # Outputs match without a change outside of the places: what is known there is innocent, and
        # what is known inside is no proof without it.
        inside = group.inside if self._is_known_inside else ()
        is_inside = len(inside) == 1 and len(inside[0].nodes) <= len(unexplained.nodes)
        culprits = list(inside) if is_inside else [unexplained]
        is_unknown = len(culprits[-1].nodes) > 1 and not (is_inside and group.states_change)
        return culprits, is_unknown

    @property
    def _is_known_inside(self) -> bool:
        """Return whether all structural differences that explain the outputs are at the places."""
        places = self.found.places
        return len(_culprits_within(self.case, places, self.known, self.found.values)) == len(
            self.known
        )

    def _change(self, found: Divergences, places: Sequence[Divergence]) -> Change:
        """Return the search for one change that explains the places."""
        return Change(self.case, self.pairing, self.party, found, self.feed, places)

    def _explain_nearer(self) -> Explanation | None:
        """Return the one change that explains all consecutively replaced tensors; None if there is
        none, or they have no nodes in common."""
        nearer = self.found.nearer
        groups = [] if nearer is None else group_places(nearer.places)
        if nearer is None or len(groups) != 1:
            return None
        change = self._change(nearer, groups[0])
        reason = change.find_common()
        return None if reason is None else change.choose_node(reason)


def _extra_node(case: Case, variant: Variant, equal_tensors: Mapping[str, str]) -> Node | None:
    """Return the node that the reference lacks, if a variant bypasses it; else None."""
    graph = case.model.graph
    inputs = graph.nodes[graph.computed[output_name(variant)]].inputs
    moved = [(a, b) for a, b in zip(inputs, variant.node.inputs) if a != b]
    if len(moved) != 1 or len(inputs) != len(variant.node.inputs):
        return None
    [(name, instead)] = moved
    index = graph.producers.get(name)
    if index is None or name in equal_tensors:
        return None
    node = case.model.nodes[index]
    read = {name for name in node.reads if name and name not in case.model.constants}
    return node if read == {instead} else None


def _without_bias(case: Case, variant: Variant) -> Node | None:
    """Return the node with weights after which only an Add is missing; else None."""
    if variant.change.kind != "missing_node" or variant.change.values["op"] != "Add":
        return None
    graph = case.model.graph
    reader = graph.nodes[graph.computed[output_name(variant)]]
    moved = [name for name, other in zip(reader.inputs, variant.node.inputs) if name != other]
    # A bias of either operand of a sum has the same effect.
    operands = reader.inputs if reader.op == "Add" else moved
    makers = [
        case.model.nodes[graph.producers[name]]
        for name in operands
        if name in graph.producers and len(graph.readers.get(name, ())) == 1
    ]
    weighted = [node for node in makers if node.operator in WEIGHTED]
    return weighted[0] if len(weighted) == 1 else None


def _culprit_of_change(
    case: Case, reason: Explanation, equal_tensors: Mapping[str, str]
) -> Culprit:
    """Return the culprit for a change that explains the outputs.

    Args:
        case: the model.
        reason: the change.
        same: tensors that the reference computes, too.
    """
    node, variant = case.model.nodes[reason.node], reason.variant
    proof = evidence.undone_gives_expected(source="reference")
    remedy = Remedy(None, True, remedies.undo([variant.change]))
    extra = None if reason.others else _extra_node(case, variant, equal_tensors)
    if extra is not None:
        facts = [
            evidence.change_of_node(changes.extra_node(extra.operator)),
            evidence.change_of_node(variant.change),
        ]
        return Culprit([extra.label], extra.makes[0], MODEL, "structure", facts=[*facts, proof],
                       remedy=remedy, op=extra.operator)  # fmt: skip
    if (maker := _without_bias(case, variant)) is not None:
        change = changes.missing_node("Add", [maker.operator])
        return Culprit([maker.label], maker.makes[0], MODEL, "structure",
                       facts=[evidence.change_of_node(change), proof],
                       remedy=Remedy(None, True, remedies.undo([change])),
                       op=maker.operator)  # fmt: skip
    names = [case.model.nodes[index].label for index in reason.others]
    facts = [evidence.change_of_node(variant.change), proof]
    if names:
        facts.append(evidence.change_elsewhere(names))
    return Culprit(
        [node.label, *names], node.makes[0], MODEL, variant.cause,
        facts=facts, remedy=remedy, op=node.operator,
    )  # fmt: skip


def _with_makers(case: Case, divergences: Divergences, place: Divergence) -> Divergence:
    """Return a place extended by the nodes that compute the numbers its nodes read."""
    makers = case.model.graph.producers
    read = [
        name for name in place.given if name in makers and is_float(divergences.values.get(name))
    ]
    before = {makers[name] for name in read}
    border = evolve(place.border, nodes=tuple(sorted({*place.border.nodes, *before})))
    return evolve(place, border=border, unproven=tuple(sorted({*place.unproven, *before})))


def _has_same_operator(case: Case, reference: OpenModel, place: Divergence) -> bool:
    """Return whether the reference computes a tensor by the same operator; if not, a node before it
    may be missing.
    """
    own_ops = {case.model.nodes[index].operator for index in place.unproven}
    ops = {node.operator for node in reference.nodes if set(node.makes) & set(place.instead)}
    idle = MOVING | {"Constant"}
    return own_ops - idle == ops - idle and bool(own_ops - idle)


def _culprits_within(
    case: Case, group: Sequence[Divergence], culprits: Sequence[Culprit], values: Values
) -> list[Culprit]:
    """Return the structural differences within nodes, except nodes that only compute shapes: if the
    reference has constants there, copying these also copies their readers."""
    nodes = [case.model.nodes[index] for parting in group for index in parting.border.nodes]
    names = {node.label for node in nodes}
    numeric = {n.label for n in nodes if any(is_float(values.get(name)) for name in n.makes)}
    return [
        culprit
        for culprit in culprits
        if set(culprit.nodes) <= names
        and (culprit.cause != "structure" or numeric & set(culprit.nodes))
    ]


def _culprit_without_change(case: Case, group: Sequence[Divergence], feed: Feed) -> Culprit:
    """Return the culprit for nodes that no known change corrects."""
    nodes = case.model.nodes
    fed = nodes_after_inputs(case.model.graph, feed)
    unproven = sorted({index for parting in group for index in parting.unproven if index in fed})
    names = [nodes[index].label for index in unproven if nodes[index].operator != "Constant"]
    tensors = [parting.border.tensor for parting in group]
    last = group[-1].border.tensor
    op = nodes[unproven[-1]].operator if unproven else ""
    if len(names) == 1:
        fault = evidence.computes_differently(tensors, 1)
    else:
        given_inputs = dict.fromkeys(name for parting in group for name in parting.given)
        fault, op = evidence.one_of_nodes([*given_inputs], tensors, len(names)), ""
    facts = [fault, evidence.match_with_reference_tensors(tensors)]
    return Culprit(names[:_MANY], last, MODEL, "structure", facts=facts, op=op)


def _repair_model(
    case: Case,
    graph: Graph,
    party: SuspectedParty,
    feed: Feed,
    goal: Values,
    reasons: Sequence[Explanation],
) -> Callable[[], OpenModel | None] | None:
    """Return a function that builds the model without the changes, if all outputs then match."""
    part = Part(case.model.proto, feed)
    known_names = {"", *feed, *graph.constants, *graph.computed}
    if any(
        set(reason.variant.node.inputs) - known_names - reason.variant.weights.keys()
        for reason in reasons
    ):
        return lambda: None  # What is missing is only in the reference, from where it was taken.
    try:
        for reason in reasons:
            part = part.change(output_name(reason.variant), reason.variant)
        values = part.run(party)
    except PolygraphyException:
        return None
    differing = case.differing(values, goal)
    is_right = all(deviation.relative <= LEFT for deviation in differing.values())
    return cache(lambda: open_model(part.model)) if is_right else None
