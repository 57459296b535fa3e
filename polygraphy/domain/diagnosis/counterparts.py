"""Which tensors of two models may correspond, although their values differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.diagnosis.regions import GraphNode
from polygraphy.domain.tensors.precision import is_float

_TWINS = 3
"""Counterparts that are tried for one tensor."""
_TENSORS = 64
"""Tensors of the model that are tried, the first ones."""
_OTHER_SHAPE, _OTHER_OP, _OTHER_INPUTS = 0.5, 0.25, 1.0
"""What a difference counts beside the distance of the values, which is at most 1."""

Side = tuple[Sequence[GraphNode], Mapping[str, Any], Mapping[str, str], Collection[int]]
"""Nodes, values, which tensors correspond to one of the reference, and the nodes before these."""
Other = tuple[Sequence[GraphNode], Mapping[str, Any], Collection[str], Mapping[str, str]]
"""Nodes, values, tensors that correspond to one of the model, and classes of equal tensors."""


@frozen
class Candidate:
    """Two tensors that may correspond.

    Attributes:
        tensor: the one of the model.
        twin: the one of the reference.
        penalty: what speaks against it.
    """

    tensor: str
    twin: str
    penalty: float


def candidates(model: Side, reference: Other) -> Iterator[Candidate]:
    """Yield pairs of tensors that may correspond, in model order, the likeliest counterpart first:
    similar values, computed from equal inputs by the same operator.
    """
    nodes, values, same, right = model
    others, theirs, taken, classes = reference
    twin_of = {name: classes.get(twin, twin) for name, twin in same.items()}
    before = _known_sources(nodes, twin_of)
    before_twins = _known_sources(others, {name: classes.get(name, name) for name in taken})
    by_size: dict[int, list[tuple[str, GraphNode, Any]]] = {}
    seen: set[str] = set()
    value: Any
    for node in others:
        for name in node.makes:
            value = theirs.get(name)
            kind = classes.get(name, name)
            if name not in taken and kind not in seen and is_float(value) and np.size(value) > 1:
                seen.add(kind)
                by_size.setdefault(value.size, []).append((name, node, value))
    count = 0
    for index, node in enumerate(nodes):
        if index in right or node.op == "Constant":
            continue
        for name in node.makes:
            value = values.get(name)
            if name in same or not is_float(value) or not before.get(name):
                continue
            found = sorted(
                (
                    _penalty(node, value, other, theirs_value)
                    + _OTHER_INPUTS * (before[name] != before_twins.get(twin, frozenset())),
                    position,
                    twin,
                )
                for position, (twin, other, theirs_value) in enumerate(by_size.get(value.size, ()))
                if before[name] & before_twins.get(twin, frozenset())
            )
            yield from (Candidate(name, twin, penalty) for penalty, _, twin in found[:_TWINS])
            count += bool(found)
        if count >= _TENSORS:
            return


def _known_sources(
    nodes: Sequence[GraphNode], known: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """Return, by tensor, the known ones that it is computed from without a known one in between."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        read: set[str] = set()
        for name in node.reads:
            if name in known:
                read.add(known[name])
            else:
                read |= found.get(name, frozenset())
        roots = frozenset(read)
        found.update(dict.fromkeys(node.makes, roots))
    return found


def _penalty(node: GraphNode, value: Any, other: GraphNode, twin: Any) -> float:
    """Return the distance of two tensors, larger for other shapes and operators."""
    shapes = [tuple(size for size in np.shape(each) if size != 1) for each in (value, twin)]
    return (
        _distance(value, twin)
        + _OTHER_SHAPE * (shapes[0] != shapes[1])
        + _OTHER_OP * (node.op != other.op)
    )


def _distance(array: Any, reference: Any) -> float:
    """Return the distance of two arrays: 0 if they are equal, at most 1."""
    first, second = (np.asarray(each, np.float64).reshape(-1) for each in (array, reference))
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(first) + np.linalg.norm(second))
        apart = float(np.linalg.norm(first - second))
    return apart / size if np.isfinite(size) and size > 0 and np.isfinite(apart) else 1.0
