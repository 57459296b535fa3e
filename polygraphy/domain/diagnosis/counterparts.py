"""Tensors of two models that may correspond although their values differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.model.graph import Node
from polygraphy.domain.tensors.precision import is_float

_TWINS = 3
"""Counterparts that are tried for one tensor."""
_TENSORS = 64
"""Tensors of the model that are tried, the first ones."""
_OTHER_SHAPE, _OTHER_OP, _OTHER_INPUTS = 0.5, 0.25, 1.0
"""Costs of a different shape, operator and inputs, in addition to the distance of the values,
which is at most 1. Chosen, not measured."""

ModelTensors = tuple[Sequence[Node], Mapping[str, Any], Mapping[str, str], Collection[int]]
"""Nodes, values, which tensors correspond to one of the reference, and the nodes before these."""
ReferenceTensors = tuple[Sequence[Node], Mapping[str, Any], Collection[str], Mapping[str, str]]
"""Nodes, values, tensors that correspond to one of the model, and classes of equal tensors."""


@frozen
class Candidate:
    """Two tensors that may correspond.

    Attributes:
        tensor: the one of the model.
        twin: the one of the reference.
        penalty: the penalty of this pairing.
    """

    tensor: str
    twin: str
    penalty: float


def candidates(model: ModelTensors, reference: ReferenceTensors) -> Iterator[Candidate]:
    """Yield pairs of tensors that may correspond, in model order, the likeliest counterpart first:
    similar values, computed from equal inputs by the same operator.
    """
    nodes, values, equal_tensors, expected = model
    other_nodes, reference_values, used_names, classes = reference
    twin_of = {name: classes.get(twin, twin) for name, twin in equal_tensors.items()}
    before = _nearest_known_sources(nodes, twin_of)
    before_twins = _nearest_known_sources(
        other_nodes, {name: classes.get(name, name) for name in used_names}
    )
    by_size: dict[int, list[tuple[str, Node, Any]]] = {}
    seen_names: set[str] = set()
    value: Any
    for node in other_nodes:
        for name in node.makes:
            value = reference_values.get(name)
            kind = classes.get(name, name)
            if (
                name not in used_names
                and kind not in seen_names
                and is_float(value)
                and np.size(value) > 1
            ):
                seen_names.add(kind)
                by_size.setdefault(value.size, []).append((name, node, value))
    count = 0
    for index, node in enumerate(nodes):
        if index in expected or node.operator == "Constant":
            continue
        for name in node.makes:
            value = values.get(name)
            if name in equal_tensors or not is_float(value) or not before.get(name):
                continue
            matches = sorted(
                (
                    _penalty(node, value, other_node, reference_value)
                    + _OTHER_INPUTS * (before[name] != before_twins.get(twin, frozenset())),
                    position,
                    twin,
                )
                for position, (twin, other_node, reference_value) in enumerate(
                    by_size.get(value.size, ())
                )
                if before[name] & before_twins.get(twin, frozenset())
            )
            yield from (Candidate(name, twin, penalty) for penalty, _, twin in matches[:_TWINS])
            count += bool(matches)
        if count >= _TENSORS:
            return


def _nearest_known_sources(
    nodes: Sequence[Node], known_names: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """Return, by tensor, the known ones that it is computed from without a known one in between."""
    sources: dict[str, frozenset[str]] = {}
    for node in nodes:
        read: set[str] = set()
        for name in node.reads:
            if name in known_names:
                read.add(known_names[name])
            else:
                read |= sources.get(name, frozenset())
        roots = frozenset(read)
        sources.update(dict.fromkeys(node.makes, roots))
    return sources


def _penalty(node: Node, value: Any, other_node: Node, twin: Any) -> float:
    """Return the distance of two tensors, larger for other shapes and operators."""
    shapes = [tuple(size for size in np.shape(value) if size != 1) for value in (value, twin)]
    return (
        _distance(value, twin)
        + _OTHER_SHAPE * (shapes[0] != shapes[1])
        + _OTHER_OP * (node.operator != other_node.operator)
    )


def _distance(array: Any, reference: Any) -> float:
    """Return the distance of two arrays: 0 if they are equal, at most 1."""
    first, second = (np.asarray(value, np.float64).reshape(-1) for value in (array, reference))
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(first) + np.linalg.norm(second))
        apart = float(np.linalg.norm(first - second))
    return apart / size if np.isfinite(size) and size > 0 and np.isfinite(apart) else 1.0
