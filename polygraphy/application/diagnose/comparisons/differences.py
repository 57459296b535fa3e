"""The differences between a model and its reference that change the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.comparisons.model_pair import FEW_DIFFERENCES, ModelPair
from polygraphy.domain.diagnosis.commands import copy_command
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.fused import expand_replacement, is_open_trace, trace_suspects
from polygraphy.domain.diagnosis.pairing import Pairing, pair_graphs
from polygraphy.domain.diagnosis.two_models import (
    Suspect,
    copies_more,
    suspect_names,
    suspects,
)
from polygraphy.domain.diagnosis.words import evidence, remedies, steps
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import LARGE
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.editing import open_model

_MOST = 64
"""With more differences, none is proven by restoring it: each costs a run."""
_NEAR = 2
"""How many nodes away from the known ones exchanged inputs are searched. Chosen, not measured."""
_FEW_PLAIN = 4
"""Most weights and attributes that count as proof if the reference has different nodes. Chosen,
not measured."""


def find_differences(
    case: Case, pair: ModelPair, feed: Feed, expected: Values, most: float
) -> Differences:
    """Return the differences that cause an error of the outputs, up to a relative size."""
    differences = _find_changed_nodes(case, pair, feed, expected, most)
    culprits = differences.culprits
    if differences.is_open or _may_be_exchanged(culprits):
        return _find_exchange(case, pair, feed, expected, culprits, _NEAR) or differences
    return differences


def _find_exchange(
    case: Case,
    pair: ModelPair,
    feed: Feed,
    expected: Values,
    culprits: Sequence[Culprit],
    hops: int,
) -> Differences | None:
    """Return the exchanged inputs of nodes near some culprits, or None.
    The result is None if no exchange explains the outputs.
    """
    from polygraphy.application.diagnose.comparisons.exchanged_wires import find_exchanged_wires

    names = {name for culprit in culprits for name in culprit.nodes}
    return find_exchanged_wires(case, pair, feed, expected, names, hops) if names else None


def _may_be_exchanged(culprits: Sequence[Culprit]) -> bool:
    """Return whether two nodes of one operator differ in a weight,
    which can be that of the other."""
    return len(culprits) == 2 and {(culprit.op, culprit.cause) for culprit in culprits} == {
        (culprits[0].op, "weight")
    }


def _find_changed_nodes(
    case: Case, pair: ModelPair, feed: Feed, expected: Values, most: float
) -> Differences:
    """Return the nodes and weights that differ from the reference and cause an error of the
    outputs, up to a relative size."""
    model, pairing, differing = case.model.proto, pair.pairing, suspects(pair.pairing)
    is_same_structure = len(differing) <= FEW_DIFFERENCES
    # The reference may be an optimized graph.
    fused = None if is_same_structure else _optimize_alike(case, pair, len(differing))
    proven = prove_differences(case, *(fused or (pair, model, pairing, differing)), feed, expected)
    culprits = proven.culprits
    is_one = len(culprits) == 1 and is_same_structure
    is_folded = any(_names_folded_weight(culprit, pairing.model) for culprit in culprits)
    is_plain = not is_folded and all(culprit.cause != "structure" for culprit in culprits)
    if (
        fused is not None
        and most < LARGE / 3
        and not (is_plain and 0 < len(culprits) <= _FEW_PLAIN)
    ):
        return Differences()  # Fused nodes may compute by an approximation, which is no fault.
    is_only = fused and len(culprits) == len(fused[3]) == 1 and len(culprits[0].nodes) == 1
    is_all = len(culprits) == len(differing) or is_only
    is_all = is_all or (fused is not None and _are_rewired(culprits, pairing.model, len(fused[3])))
    is_certain = not is_folded and not proven.is_mixed
    if not differing or (is_all and is_certain) or (is_one and is_plain):
        return proven
    exchanged = _find_exchange(case, pair, feed, expected, culprits, 0) if culprits[1:] else None
    if exchanged is not None:
        return exchanged
    from polygraphy.application.diagnose.changes.model_changes import find_changes

    feeds = (feed, pair.feed_reference(feed))
    known_culprits = [*culprits] if is_certain else []
    parting = find_changes(
        case, pair.reference, pairing, pair.party, feeds, expected, known_culprits
    )
    by_values = parting.culprits
    if proven.is_mixed or (is_folded and (parting.is_open or not by_values)):
        return parting if proven.is_mixed else proven
    is_small = not is_folded and (is_same_structure or _is_small(culprits, is_plain))
    if culprits and is_small and _says_more(proven, parting, is_plain):
        return proven
    if by_values:
        is_open = proven.is_open and any(c in culprits and len(c.nodes) > 1 for c in by_values)
        repaired = parting.repaired or proven.repaired
        return evolve(parting, repaired=repaired, is_open=parting.is_open or is_open)
    # Many differences are weak evidence: if most of the model is replaced by the reference, outputs
    # match wherever the fault is.
    return evolve(proven, is_open=proven.is_open or (bool(culprits) and not is_small))


def _is_small(culprits: Sequence[Culprit], is_plain: bool) -> bool:
    """Return whether differences from a reference with other nodes are few enough to be a proof."""
    if is_plain:
        return len(culprits) <= _FEW_PLAIN
    return sum(len(culprit.nodes) for culprit in culprits) <= 1


def _says_more(proven: Differences, by_values: Differences, is_plain: bool) -> bool:
    """Return whether differences of the structure say more than those of the values.

    Args:
        proven: the first.
        by_values: the others.
        is_plain: whether the first are weights and attributes only.
    """
    is_proven = all(culprit.remedy.proven for culprit in by_values.culprits)
    if is_plain and not is_proven:
        return True  # The graphs name the change; values only show between which tensors it is.
    # If only all differences together make outputs match, some may be harmless rewrites by a tool.
    is_vague = by_values.is_open and not is_proven and len(proven.culprits) == 1
    return is_vague or len(by_values.culprits) > len(proven.culprits)


def _are_rewired(culprits: Sequence[Culprit], side: Graph, most: int) -> bool:
    """Return whether the culprits are all differences of two graphs, and single nodes of the model
    that only read other tensors, so that nothing else of the reference was taken over."""
    if not len(culprits) == most <= FEW_DIFFERENCES:
        return False
    inputs = {node.label: {*node.inputs} for node in side.nodes}
    for culprit in culprits:
        changes = [fact.values["change"] for fact in culprit.facts if "change" in fact.values]
        if [change.kind for change in changes] != ["other_inputs"] or len(culprit.nodes) != 1:
            return False
        # If the model's node lacks these inputs, a rewrite inserted it, and the difference says
        # nothing about the original nodes.
        if not {*changes[0].values["names"]} <= inputs.get(culprit.nodes[0], set()):
            return False
    return True


def _names_folded_weight(culprit: Culprit, side: Graph) -> bool:
    """Return whether the weight of a culprit was folded from several nodes of the model,
    any of which may be at fault."""
    changes = [fact.values["change"] for fact in culprit.facts if "change" in fact.values]
    names = [change.values.get("name") for change in changes if change.kind == "other_weight"]
    return any(name not in side.constants for name in names)


def prove_differences(
    case: Case,
    pair: ModelPair,
    model: Any,
    pairing: Pairing,
    differing: Sequence[Suspect],
    feed: Feed,
    expected: Values,
) -> Differences:
    """Return the verified differences of a model, or of its optimized graph, from the reference."""
    with case.record_step("structure") as notes:
        notes.append(steps.differences(len(differing)))
    if not differing or len(differing) > _MOST:
        return Differences()

    def test(chosen: Sequence[Suspect]) -> Outcome:
        """Return GOOD if the model matches with some differences restored, else BAD."""
        is_right = pair.matches(case, model, pairing, chosen, feed, expected)
        return Outcome.GOOD if is_right else Outcome.BAD

    with case.record_step("remedy") as notes:
        needed = smallest_good_set(list(differing), test)
        if needed is None:
            notes.append(steps.NOT_EXPLAINED)
            return Differences()
        needed = _without_pairs(needed, test)
        notes.append(steps.explaining(len(needed), len(differing)))
    repaired = None
    is_mixed = len(needed) < len(differing) and copies_more(pairing, needed)
    needed = [_at_replaced_node(suspect, pairing, differing) for suspect in needed]
    wider = [
        expand_replacement(_with_removed_nodes(pair, model, pairing, suspect), pairing)
        for suspect in needed
    ]
    is_open, needed = wider != needed, wider
    if pairing is pair.pairing:
        chosen = list(needed)

        repaired = cache(lambda: open_model(pair.repair(model, pairing, chosen)))
    else:
        needed = trace_suspects(needed, pairing, pair.pairing.model, differing)
    side = pair.pairing.model
    culprits = [describe_difference(side, suspect, len(needed)) for suspect in needed]
    is_open |= pairing is not pair.pairing and any(
        is_open_trace(suspect, side) for suspect in needed
    )
    return Differences(culprits, repaired, is_open, is_mixed)


def _at_replaced_node(suspect: Suspect, pairing: Pairing, differing: Sequence[Suspect]) -> Suspect:
    """Return a suspect that a node is missing; if restoring it replaces a node by another operator,
    the suspect that this operator differs."""
    operators = [
        (pairing.model.nodes[index].op, pairing.reference.nodes[twin].op)
        for index, twin in suspect.twins
    ]
    if suspect.change.kind != "missing_node" or any(own == other for own, other in operators):
        return suspect
    others = (
        other
        for other in differing
        if other.change.kind == "other_operator" and other.twins == suspect.twins
    )
    return next(others, suspect)


def _with_removed_nodes(pair: ModelPair, model: Any, pairing: Pairing, suspect: Suspect) -> Suspect:
    """Return a suspect that a node is missing, at the nodes that restoring it removes, if any: the
    model has them in its place, and its neighbor only computes their input."""
    if suspect.change.kind != "missing_node":
        return suspect
    graph, is_optimized = pairing.model, pairing is not pair.pairing
    try:
        repaired = open_model(pair.repair(model, pairing, [suspect]), as_it_is=is_optimized)
    except (PolygraphyException, KeyError):  # It can only be restored together with others.
        return suspect
    kept_tensors = _used_tensors(repaired.graph)
    removed = {graph.operation_producers[name] for name in _used_tensors(graph) - kept_tensors}
    if not removed:
        return suspect
    return evolve(suspect, nodes=tuple(sorted(removed | {index for index, _ in suspect.twins})))


def _used_tensors(graph: Graph) -> set[str]:
    """Return the tensors that operations compute and outputs depend on."""
    used = {
        index
        for tensor in graph.outputs
        for index in region_before(graph, tensor.name, ())
        if index in graph.operations
    }
    return {name for index in used for name in graph.nodes[index].outputs if name}


def _without_pairs(
    needed: list[Suspect], test: Callable[[Sequence[Suspect]], Outcome]
) -> list[Suspect]:
    """Return differences without pairs that cancel:
    two nodes that equal the reference only together, so that neither can be removed by itself.
    """
    pairs = list(combinations(needed, 2)) if 2 < len(needed) <= FEW_DIFFERENCES else []
    for pair in pairs:
        remaining_suspects = [suspect for suspect in needed if suspect not in pair]
        if (
            remaining_suspects
            and all(suspect in needed for suspect in pair)
            and test(remaining_suspects) is Outcome.GOOD
        ):
            needed = remaining_suspects
    return needed


def add_copy_command(
    case: Case, pair: ModelPair, differences: Differences, feed: Feed, expected: Values
) -> Differences:
    """Return differences with the command that copies their nodes from the reference,
    if all outputs match then.
    """
    culprits, pairing = differences.culprits, pair.pairing
    wanted = dict.fromkeys(name for culprit in culprits for name in culprit.nodes)
    names_of = [(suspect, suspect_names(pairing.model, suspect)) for suspect in suspects(pairing)]
    chosen = [suspect for suspect, names in names_of if wanted.keys() & names]
    differing = {name for _, names in names_of for name in names}
    names = [name for name in wanted if name in differing]
    if not case.is_given or not chosen or differences.is_open:
        return differences
    if not pair.matches(case, case.model.proto, pairing, chosen, feed, expected):
        return differences
    remedy = Remedy(copy_command(case.path, pair.path, names) or None, True)
    named_changes = [
        fact.values["change"]
        for culprit in culprits
        for fact in culprit.facts
        if fact.kind == "change_of_node"
    ]
    changes = [suspect.change for suspect in chosen if not _is_named(suspect.change, named_changes)]
    copied = [evolve(culprit, remedy=remedy) for culprit in culprits]
    if changes and remedy.command and named_changes:
        copied[-1] = evolve(copied[-1], facts=[*copied[-1].facts, evidence.also_copied(changes)])
    return evolve(differences, culprits=copied)


def _is_named(change: Fact, named: Sequence[Fact]) -> bool:
    """Return whether a change is one of others, or the same weight's with the values of another."""
    exchanged = [fact.values["name"] for fact in named if fact.kind == "values_of_other_weight"]
    is_exchanged = change.kind == "other_weight" and change.values["name"] in exchanged
    return is_exchanged or str(change) in map(str, named)


def _optimize_alike(
    case: Case, pair: ModelPair, most: int
) -> tuple[ModelPair, Any, Pairing, list[Suspect]] | None:
    """Return pair, optimized model, pairing and differences at the best optimization level.

    It is the level with the fewest differences from the reference; None if no level has fewer than
    the model itself.
    """
    best: tuple[ModelPair, Any, Pairing, list[Suspect]] | None = None
    for level in pair.party.levels:
        executed = _graph_after_rewrites(pair.party, case.model.proto, level)
        if executed is None:
            continue
        graph = open_model(executed, as_it_is=True).graph
        rewritten = _graph_after_rewrites(pair.party, pair.reference.proto, level)
        references = [pair.reference, *([] if rewritten is None else [open_model(rewritten)])]
        for reference in references:
            pairing = pair_graphs(graph, reference.graph)
            differing = suspects(pairing)
            # Outputs differ, so a pairing without differences does not see where.
            if 0 < len(differing) < most:
                chosen = pair if reference is pair.reference else evolve(pair, reference=reference)
                best, most = (chosen, executed, pairing, differing), len(differing)
    return best


def _graph_after_rewrites(party: SuspectedParty, model: Any, level: str) -> Any:
    """Return the graph that a backend executes at an optimization level, or None.
    The result is None if it refuses the model.
    """
    try:
        return party.runtime_graph(model, level=level)
    except BackendError:
        return None


def describe_difference(side: Graph, suspect: Suspect, number: int) -> Culprit:
    """Return the culprit for a difference; restoring `number` of them makes all outputs match."""
    nodes = suspect_names(side, suspect)
    last = side.nodes[suspect.nodes[-1]]
    facts = [evidence.change_of_node(suspect.change), evidence.match_after_restoring(number)]
    tensor = next(filter(None, last.outputs), None)
    note = remedies.take(suspect.change, [name for name, _ in suspect.weights])
    remedy = Remedy(None, True, note)
    is_same_op = len({side.nodes[index].op for index in suspect.nodes}) == 1
    op = suspect.op or (last.op if is_same_op else "")
    return Culprit(nodes, tensor, MODEL, suspect.cause, facts=facts, remedy=remedy, op=op)
