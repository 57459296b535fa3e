"""Which nodes are to blame for what a model loses in half precision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from polygraphy.domain.diagnosis.headroom import Fault, NodeLoss, Range

_FEW = 3
"""So many nodes that lose digits together are all named; of more, the one that loses most."""


@frozen
class HalfCulprit:
    """A node that has to stay in float32, or a few that lose digits together.

    Attributes:
        nodes: their names.
        op: the operator of the one that loses most.
        fault: why.
        beside: nodes that stay with it, because they read or hand on what it computes.
    """

    nodes: Sequence[str]
    op: str
    fault: Fault
    beside: Sequence[str] = ()


def ranked(
    losses: Sequence[NodeLoss],
    nodes: Sequence[str],
    users: Mapping[str, Collection[str]],
    limits: Range,
) -> list[str]:
    """Return nodes, those first that are most likely to have to stay in float32: those that lose
    most, and then those whose results they lose it on.

    Args:
        losses: what each loses alone.
        nodes: all nodes; those that nothing is known of come last.
        users: the nodes that read what a node makes.
        limits: the range of the type.
    """
    own = {loss.name: loss.sensitivity for loss in losses}
    amplifying = {loss.name for loss in losses if loss.amplifies(limits)}
    handed_on = {
        name: max((own[user] for user in users.get(name, ()) if user in amplifying), default=0.0)
        for name in nodes
    }
    return sorted(nodes, key=lambda name: (-max(own.get(name, 0.0), handed_on[name])))


def first_invalid(losses: Iterable[NodeLoss]) -> HalfCulprit | None:
    """Return the first node that computes NaN or infinity of finite operands in float32 already."""
    for loss in losses:
        for each in loss.results:
            if each.invalid and not any(operand.invalid for operand in loss.operands):
                evidence = (
                    f"{each.invalid} of {each.elements} elements of {each.name!r} are infinite or"
                    " NaN in float32 already, with finite operands"
                )
                return HalfCulprit([loss.name], loss.op, Fault("nan", each.name, evidence))
    return None


def culprits_among(
    kept: Collection[str],
    losses: Sequence[NodeLoss],
    users: Mapping[str, Collection[str]],
    limits: Range,
) -> list[HalfCulprit]:
    """Return which of the nodes that have to stay in float32 are at fault, and why; the others only
    read or hand on what those compute.

    Args:
        kept: the nodes that stay.
        losses: what each node of the model loses alone.
        users: the nodes that read what a node makes.
        limits: the range of the type.
    """
    by_name = {loss.name: loss for loss in losses}
    found: list[HalfCulprit] = []

    def amplifies(one: HalfCulprit) -> bool:
        return any(by_name[name].amplifies(limits) for name in one.nodes)

    for group in _connected([loss.name for loss in losses if loss.name in set(kept)], users):
        made = {result.name for name in group for result in by_name[name].results}
        blamed = {
            name: fault
            for name in group
            if (fault := by_name[name].fault(limits, made)) and fault.cause != "rounding"
        }
        if not blamed:
            most = max(group, key=lambda name: by_name[name].sensitivity)
            nodes = group if len(group) <= _FEW else [most]
            fault = by_name[most].residual_fault(limits)
            rest = [name for name in group if name not in nodes]
            found.append(HalfCulprit(nodes, by_name[most].op, fault, rest))
        beside = [name for name in group if name not in blamed]
        for name, fault in blamed.items():
            found.append(HalfCulprit([name], by_name[name].op, fault, beside))
            beside = []
    # Beside others, nodes that do no more than round are kept because it adds up.
    worst = [one for one in found if one.fault.cause != "rounding" or amplifies(one)]
    return worst or found


def _connected(names: Sequence[str], users: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return groups of nodes that hand tensors to each other, in the order of the model."""
    group_of: dict[str, list[str]] = {name: [name] for name in names}
    for name in names:
        for user in users.get(name, ()):
            if user in group_of and group_of[user] is not group_of[name]:
                joint = group_of[name] + group_of[user]
                for each in joint:
                    group_of[each] = joint
    groups = {id(group): set(group) for group in group_of.values()}
    return sorted(
        ([name for name in names if name in group] for group in groups.values()),
        key=lambda group: names.index(group[0]),
    )
