"""The change that makes a model diverge from a reference with different nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.change_search import (
    output_name,
)
from polygraphy.application.diagnose.changes.divergence import (
    LEFT,
    Divergence,
    Divergences,
    find_divergences,
)
from polygraphy.application.diagnose.changes.one_change import Change, Explanation
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.diagnosis.borrowed import MOVING, Border
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.pairing import Pairing, paired_outputs
from polygraphy.domain.diagnosis.two_models import WEIGHTED
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes, evidence, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import nodes_after_inputs
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import OpenModel, open_model

_UNEXPLAINED = 2
"""With more places that no change explains, nothing is proven. Chosen, not measured."""
_RUNS_FOR_KNOWN = 96
"""Most runs for a group of places if the node is known already, and only its change is not. Chosen
so that a large decoder takes seconds.
"""
_MANY = 64
"""Most nodes that are named together: the first ones, which are nearest to equal tensors."""


def group_places(divergences: Sequence[Divergence]) -> list[list[Divergence]]:
    """Return groups of divergences that have nodes in common."""
    groups: list[list[Divergence]] = []
    for divergence in divergences:
        nodes = set(divergence.unproven)
        sharing = [g for g in groups if any(nodes & set(parting.unproven) for parting in g)]
        groups = [g for g in groups if g not in sharing]
        groups.append([*(parting for group in sharing for parting in group), divergence])
    return groups


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
        known_culprits: the nodes whose difference the structure of both models proves.

    Returns:
        The nodes that are not in `known_culprits`; empty if they cannot be found.
    """
    with case.record_step(titles.EQUAL_TENSORS) as notes:
        outputs = paired_outputs(pairing)
        divergences = find_divergences(case, reference, party, *feeds, goal, outputs)
        if divergences is None:
            notes.append(steps.NO_DIVERGENCE)
            return Differences(known_culprits, is_open=len(known_culprits) > 1)
        notes.append(steps.equal_pairs(len(divergences.same), len(divergences.places)))
        if divergences.ends:
            return Differences(divergences.ends)
    new_culprits: list[Culprit] = []
    reasons: list[Explanation] = []
    untried: dict[str, set[int]] = {}
    is_open = False
    with case.record_step(titles.CHANGED_NODES) as notes:
        groups = group_places(divergences.places)
        search = _GroupSearch(
            case, reference, pairing, party, divergences, feeds[0], known_culprits, goal
        )
        explained = [
            parting for group in groups for parting in search.explain_each(group, len(groups))
        ]
        lost_tensors = {
            tensor
            for parting in explained
            if parting.reason is not None
            for tensor in parting.reason.lost_tensors
        }
        for single_culprits in explained:
            reason = single_culprits.reason or (
                single_culprits.change.find_lost_nodes(lost_tensors) if lost_tensors else None
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
        repaired = _repair_builder(case, pairing.model, party, feeds[0], goal, reasons)
        if repaired is None:
            return Differences(known_culprits or new_culprits, is_open=True)
        remedy = case.undo_changes(pairing.model, [culprit.variant for culprit in reasons])
        new_culprits = [evolve(reason, remedy=remedy) for reason in new_culprits]
    return Differences(new_culprits, repaired, is_open)


@frozen
class _Group:
    """Divergences that have nodes in common, with their explanation.

    Attributes:
        places: the divergences.
        change: the search for a change among their nodes.
        reason: the change that explains them; None if none does.
        is_right: whether the nodes compute the expected values, so that the cause was rounding.
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
    """Searches an explanation for groups of divergences; attributes are the arguments of
    `find_changes`."""

    case: Case
    reference: OpenModel
    pairing: Pairing
    party: SuspectedParty
    found: Divergences
    feed: Feed
    known: Sequence[Culprit]
    goal: Values

    def explain_each(self, divergences: Sequence[Divergence], number: int) -> Sequence[_Group]:
        """Return a group with the change that explains it;
        if there is none, its divergences as single groups if each has an explanation. They are
        not searched if one different node is known to explain all outputs."""
        group = self.explain(divergences, number)
        is_done = group.is_right or group.reason is not None or len(divergences) == 1
        if is_done or self._is_node_known:
            return [group]
        single = [self.explain([divergence], number + 1) for divergence in divergences]
        is_explained = all(change.is_right or change.reason is not None for change in single)
        return single if is_explained else [group]

    def explain(self, divergences: Sequence[Divergence], number: int) -> _Group:
        """Return a group with the change that explains it; `number` is the number of all groups."""
        change = self._change(self.found, divergences)
        if self._ignores_inputs(divergences):
            return _Group(divergences, change)  # No change of a node makes it read the inputs.
        inside = _culprits_within(self.case, divergences, self.known, self.found.values)
        group = _Group(divergences, change, inside=inside)
        if change.is_right:
            return evolve(group, is_right=True)
        reason = self._explain_nearer() if number == 1 else None
        reason = (
            reason
            or change.find_common_change()
            or (None if group.states_change else change.find_lost_node_behind())
            or (None if group.states_change else change.find_other_change())
        )
        if reason is None and not group.states_change:
            # A node may be missing before this node, or two of its inputs may be swapped.
            wider = [_with_makers(self.case, self.found, divergence) for divergence in divergences]
            behind = self._change(self.found, wider)
            is_one = len(change.unverified_nodes) == 1
            reason = behind.find_common_change() if is_one else behind.find_exchanged_outputs()
            reason = reason or change.find_solved_weight()
            if reason is None and number == 1:
                reason = change.find_change_for_outputs(self.goal)
        if reason is not None:
            reason = self._explain_by_maker(change, reason) or change.choose_node(reason)
        return evolve(group, reason=reason)

    def _explain_by_maker(self, change: Change, reason: Explanation) -> Explanation | None:
        """Return the change of the node that computes the input of a node,
        if it should compute another tensor; None if the reference computes that from the input,
        so that a node is missing in between."""
        graph = self.case.model.graph
        expected_inputs = reason.variant.node.inputs
        inputs = graph.nodes[graph.operation_producers[output_name(reason.variant)]].inputs
        for tensor in reason.lost_tensors:
            operand = next((a for a, b in zip(inputs, expected_inputs) if b == tensor != a), "")
            maker = graph.producers.get(operand)
            is_border = operand in {place.border.tensor for place in reason.places}
            is_equal = operand in self.found.same and not is_border
            if maker is None or not is_equal or change.is_computed_from(tensor, operand):
                continue
            border = Border((maker,), operand, tensor)
            place = Divergence(border, self.found.theirs[tensor], (maker,), (tensor,))
            search = self._change(self.found, [place])
            changed = search.find_common_change() or search.find_other_change()
            if changed is not None and not changed.lost_tensors:
                return evolve(changed, places=reason.places)
        return None

    def describe(self, group: _Group) -> tuple[Sequence[Culprit], bool]:
        """Return culprits of an unexplained group, and whether its faulty node is unknown."""
        is_certain = all(
            _has_same_operator(self.case, self.reference, divergence) for divergence in group.places
        )
        wider = [
            divergence if is_certain else _with_makers(self.case, self.found, divergence)
            for divergence in group.places
        ]
        if self._ignores_inputs(group.places):
            return [_constant_culprit(self.case, group.places)], False
        unexplained = _culprit_without_change(self.case, wider, self.feed)
        # Outputs match without changes outside of the places, so culprits found outside are not at
        # fault. Culprits found inside are not proven without such a change.
        inside = group.inside if self._is_known_inside else ()
        is_inside = len(inside) == 1 and len(inside[0].nodes) <= len(unexplained.nodes)
        culprits = list(inside) if is_inside else [unexplained]
        is_unknown = len(culprits[-1].nodes) > 1 and not (is_inside and group.states_change)
        return culprits, is_unknown

    def _ignores_inputs(self, group: Sequence[Divergence]) -> bool:
        """Return whether outputs are constants that the reference computes from the inputs."""
        outputs, own, other = paired_outputs(self.pairing), self.case.model, self.reference
        nodes = {index for divergence in group for index in divergence.border.nodes}
        fed = nodes_after_inputs(other.graph, [*other.inputs])
        twins = [outputs.get(divergence.border.tensor, "") for divergence in group]
        is_fed = all(other.graph.producers.get(twin) in fed for twin in twins)
        return bool(nodes) and is_fed and nodes.isdisjoint(nodes_after_inputs(own.graph, self.feed))

    @property
    def _is_known_inside(self) -> bool:
        """Return whether the divergences contain all differences that explain the outputs;
        that is, all structural ones."""
        divergences = self.found.places
        return len(_culprits_within(self.case, divergences, self.known, self.found.values)) == len(
            self.known
        )

    @property
    def _is_node_known(self) -> bool:
        """Return whether restoring a single node is known to make all outputs match."""
        return len(self.known) == 1 and len(self.known[0].nodes) == 1

    def _change(self, search: Divergences, divergences: Sequence[Divergence]) -> Change:
        """Return the search for one change that explains the divergences."""
        change = Change(self.case, self.pairing, self.party, search, self.feed, divergences)
        if self._is_node_known:
            change.budget.runs = min(change.budget.runs, _RUNS_FOR_KNOWN)
        return change

    def _explain_nearer(self) -> Explanation | None:
        """Return the one change that explains all consecutively replaced tensors, or None.
        The result is None if there is none, or they have no nodes in common."""
        nearer = self.found.nearer
        groups = [] if nearer is None else group_places(nearer.places)
        if nearer is None or len(groups) != 1:
            return None
        change = self._change(nearer, groups[0])
        reason = change.find_common_change()
        return None if reason is None else change.choose_node(reason)


def _extra_node(case: Case, variant: Variant, equal_tensors: Mapping[str, str]) -> Node | None:
    """Return the node that the reference lacks, if a variant bypasses it; else None."""
    graph = case.model.graph
    inputs = graph.nodes[graph.operation_producers[output_name(variant)]].inputs
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
    reader = graph.nodes[graph.operation_producers[output_name(variant)]]
    moved = [
        name
        for name, changed_name in zip(reader.inputs, variant.node.inputs)
        if name != changed_name
    ]
    # A bias of either operand of an addition has the same effect.
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
        equal_tensors: tensors that the reference also computes.
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


def _with_makers(case: Case, divergences: Divergences, divergence: Divergence) -> Divergence:
    """Return a divergence extended by the nodes that compute the numbers that its nodes read."""
    makers = case.model.graph.producers
    read = [
        name
        for name in divergence.given
        if name in makers and is_float(divergences.values.get(name))
    ]
    before = {makers[name] for name in read}
    border = evolve(divergence.border, nodes=tuple(sorted({*divergence.border.nodes, *before})))
    return evolve(
        divergence, border=border, unproven=tuple(sorted({*divergence.unproven, *before}))
    )


def _has_same_operator(case: Case, reference: OpenModel, divergence: Divergence) -> bool:
    """Return whether the reference computes a tensor by the same operator.
    If not, a node before it may be missing.
    """
    own_ops = {case.model.nodes[index].operator for index in divergence.unproven}
    ops = {node.operator for node in reference.nodes if set(node.makes) & set(divergence.instead)}
    idle = MOVING | {"Constant"}
    return own_ops - idle == ops - idle and bool(own_ops - idle)


def _culprits_within(
    case: Case, group: Sequence[Divergence], culprits: Sequence[Culprit], values: Values
) -> list[Culprit]:
    """Return the structural differences within nodes, except nodes that only compute shapes:
    if the reference has constants there, copying these also copies their readers."""
    nodes = [case.model.nodes[index] for parting in group for index in parting.border.nodes]
    names = {node.label for node in nodes}
    numeric = {n.label for n in nodes if any(is_float(values.get(name)) for name in n.makes)}
    return [
        culprit
        for culprit in culprits
        if set(culprit.nodes) <= names
        and (culprit.cause != "structure" or numeric & set(culprit.nodes))
    ]


def _constant_culprit(case: Case, group: Sequence[Divergence]) -> Culprit:
    """Return the culprit for outputs that do not depend on the inputs."""
    tensors = [divergence.border.tensor for divergence in group]
    node = case.model.nodes[max(index for divergence in group for index in divergence.border.nodes)]
    facts = [evidence.ignores_inputs(name) for name in tensors]
    return Culprit([node.label], tensors[-1], MODEL, "structure", facts=facts, op=node.operator)


def _culprit_without_change(case: Case, group: Sequence[Divergence], feed: Feed) -> Culprit:
    """Return the culprit for nodes that no known change corrects."""
    nodes = case.model.nodes
    fed = nodes_after_inputs(case.model.graph, feed)
    unproven = sorted({index for parting in group for index in parting.unproven if index in fed})
    tensors = [parting.border.tensor for parting in group]
    names = [nodes[index].label for index in unproven if nodes[index].operator != "Constant"]
    last = group[-1].border.tensor
    op = nodes[unproven[-1]].operator if unproven else ""
    if len(names) == 1:
        fault = evidence.computes_differently(tensors, 1)
    else:
        given_inputs = dict.fromkeys(name for parting in group for name in parting.given)
        fault, op = evidence.one_of_nodes([*given_inputs], tensors, len(names)), ""
    facts = [fault, evidence.match_with_reference_tensors(tensors)]
    return Culprit(names[:_MANY], last, MODEL, "structure", facts=facts, op=op)


def _repair_builder(
    case: Case,
    graph: Graph,
    party: SuspectedParty,
    feed: Feed,
    goal: Values,
    reasons: Sequence[Explanation],
) -> Callable[[], OpenModel | None] | None:
    """Return a function that builds the model without the changes,
    which returns None unless all outputs then match; None if the changes cannot be undone.
    """
    part = Submodel(case.model.proto, feed)
    known_names = {"", *feed, *graph.constants, *graph.operation_producers}
    if any(
        set(reason.variant.node.inputs) - known_names - reason.variant.weights.keys()
        for reason in reasons
    ):
        return lambda: None  # Missing nodes are only in the reference, which is their source.
    try:
        for reason in reasons:
            part = part.change(output_name(reason.variant), reason.variant)
        values = part.run(party)
    except PolygraphyException:
        return None
    differing = case.find_deviations(values, goal)
    is_right = all(deviation.relative <= LEFT for deviation in differing.values())
    return cache(lambda: open_model(part.model)) if is_right else None
