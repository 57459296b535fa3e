"""Where outputs begin to be wrong: every node, and every fused node, alone on the values of a
reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Case, Feed, Values, noise_of
from polygraphy.domain.diagnosis.judging import Deviation, deviation, moved, spread
from polygraphy.domain.diagnosis.regions import (
    GraphNode,
    producers,
    read_by_region,
    region_before,
    replaced_nodes,
)
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.precision import GROWTH
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import DissectedModel, DissectedModels, SuspectedParty

FLIPS = 0.01
"""The share of elements that may land on the other side of a step: what rounds half way between two
steps is as right either way."""
_ONE_STEP = 0.03
"""The same of integers that are one off, where a chain of many products and sums is computed in
integers."""
_SUMS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_EVERYWHERE = 0.05
"""The share from which on it is not as right."""
SMALL = 1e-4
"""What a node errs by for good reasons, such as an exponential that is approximated, relative to
the element and to the size of all that it makes.
"""
_SAMPLES = 4
_FEW = 3


@frozen
class Place:
    """Some nodes that compute something else than they should, on the right inputs.

    Attributes:
        region: their positions in the model, in order.
        tensor: what they make.
        deviation: how far it is off.
        fused: whether it shows only where they are run together, in a graph that was rewritten.
        explained: whether rounding between the nodes can do the same, so that it is no matter of
            what they mean, but of how they round.
    """

    region: Sequence[int]
    tensor: str
    deviation: Deviation
    fused: bool
    explained: bool = False


@frozen
class Trace:
    """The values of all tensors as a reference computes them.

    Attributes:
        values: by tensor.
        feed: what the model was fed with.
        party: who computed them.
    """

    values: Values
    feed: Feed
    party: SuspectedParty


def trace(case: Case, party: SuspectedParty, feed: Feed) -> Trace:
    """Compute every tensor of a model.

    Raises:
        BackendError: the party cannot.
    """
    made = party.load(case.model.marked(), plain=True)(feed)
    kept = {
        name: value
        for name, value in made.items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufOUS"
    }
    return Trace(kept, feed, party)


def isolated(
    case: Case, model: DissectedModel, party: SuspectedParty, known: Trace
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run every node alone on the values of a trace.

    Returns:
        By tensor what its node makes of them, and what moving them by an ulp changes.

    Raises:
        BackendError: the party cannot run a model that is cut so.
    """
    given = {**known.values, **known.feed}
    cut, names = model.cut(given, checked=model is not case.model)
    compute = party.load(cut, plain=True)
    asked = {value.name for value in cut.graph.input}
    feed = {name: given[name] for name in given if name in asked}
    values = compute(feed)
    noise = noise_of(compute, feed, values)
    return (
        {name: values[made] for name, made in names.items() if made in values},
        {name: noise.get(made, 0.0) for name, made in names.items()},
    )


def misfits(
    values: Mapping[str, Any],
    noise: Mapping[str, Any],
    known: Trace,
    order: Mapping[str, int],
) -> list[tuple[str, Deviation]]:
    """Return the tensors that are not what they should be, in the order of the model."""
    found = []
    for name in sorted((name for name in values if name in order), key=order.__getitem__):
        value, expected, unsure = values[name], known.values[name], noise.get(name, 0.0)
        made = deviation(value, expected, unsure)
        if made and deviation(value, expected, unsure, epsilon=SMALL / GROWTH):
            found.append((name, made))
    return found


def wrong_nodes(case: Case, party: SuspectedParty, known: Trace) -> list[Place]:
    """Return the nodes that a party computes otherwise alone, with nothing rewritten."""
    nodes = case.model.nodes
    order = producers(nodes)
    values, noise = isolated(case, case.model, party, known)
    kept = values.keys() | known.feed.keys() | set(case.model.constants)
    found = []
    for name, made in misfits(values, noise, known, order):
        # What cannot be handed out, such as bfloat16, is computed with what reads it.
        region = region_before(nodes, name, kept)
        if not _is_flip(made, [nodes[index] for index in region]):
            found.append(Place(region, name, made, fused=len(region) > 1))
    return found


def wrong_regions(case: Case, party: SuspectedParty, known: Trace) -> list[Place]:
    """Return the nodes that a party computes otherwise in the graph that it really runs; those of a
    large region more narrowly, where they are wrong with fewer rewrites, too.

    Raises:
        BackendError: it cannot run that graph in parts.
    """
    found = _wrong_regions(case, party, known, None)
    if all(len(place.region) <= _FEW for place in found):
        return found
    for level in party.levels:
        try:
            narrow = _wrong_regions(case, party, known, level)
        except PolygraphyException:
            continue
        found = [_narrower(place, narrow) for place in found]
    return found


def _narrower(place: Place, others: Sequence[Place]) -> Place:
    """Return the smallest of some places that lies within one, or that."""
    within = [other for other in others if set(other.region) < set(place.region)]
    return min(within, key=lambda other: len(other.region), default=place)


def _wrong_regions(
    case: Case, party: SuspectedParty, known: Trace, level: str | None
) -> list[Place]:
    executed = party.executed(case.model.proto, level=level)
    if executed is None:
        return []
    graph = resolve(DissectedModels).open(executed)
    nodes, order = case.model.nodes, producers(case.model.nodes)
    values, noise = isolated(case, graph, party, known)
    kept = values.keys() | known.feed.keys() | set(case.model.constants)
    found: list[Place] = []
    for name, made in misfits(values, noise, known, order):
        # It may be made of others than in the model, where a node was copied or taken out.
        region = region_before(nodes, name, read_by_region(graph.nodes, name, kept))
        if _is_flip(made, [nodes[index] for index in region]):
            continue
        taking_part = replaced_nodes(nodes, region, graph.nodes, name)
        explained = not all(nodes[index].op == "Cast" for index in taking_part) and (
            explained_by_rounding(case, region, name, values[name], known)
        )
        jumps = any(nodes[index].jumps for index in region)
        if explained and not (jumps and made.share > _EVERYWHERE):
            continue
        if not any(set(taking_part) <= set(place.region) for place in found):
            found.append(Place(taking_part, name, made, fused=True, explained=explained))
    return found


def _is_flip(made: Deviation, nodes: Sequence[GraphNode]) -> bool:
    """Return whether a few elements landed on the other side of a step."""
    if not any(node.jumps for node in nodes):
        return False
    is_chain = nodes[-1].op == "QuantizeLinear" and any(node.op in _SUMS for node in nodes)
    if is_chain and made.largest <= 1 and made.share <= _ONE_STEP:
        return True
    return made.share <= FLIPS or made.count <= 1 < _FEW <= 1 / max(made.share, 1e-9)


def explained_by_rounding(
    case: Case, region: Sequence[int], tensor: str, value: Any, known: Trace
) -> bool:
    """Return whether a tensor may be what it is when what some nodes hand to each other is rounded
    otherwise: nearly each element lies where moving all of that by an ulp takes it.
    """
    expected = known.values[tensor]
    try:
        samples = [_moved_between(case, region, tensor, known, seed) for seed in range(_SAMPLES)]
    except PolygraphyException:  # What cannot be run alone is not explained.
        return False
    before = deviation(value, expected)
    after = deviation(value, expected, np.asarray(spread(samples, expected)) / 8)
    return not after or (after.count < before.count / 4 and np.isfinite(after.largest))


def _moved_between(
    case: Case, region: Sequence[int], tensor: str, known: Trace, seed: int
) -> np.ndarray[Any, Any]:
    """Compute a region node by node, with everything on the way moved."""
    made: np.ndarray[Any, Any] = computed_roughly(case, region, known, seed)[tensor]
    return made


def computed_roughly(case: Case, region: Sequence[int], known: Trace, seed: int) -> dict[str, Any]:
    """Return all tensors where some nodes are computed one by one, with everything that they read
    moved by about an ulp.
    """
    held: dict[str, Any] = {**known.values, **known.feed}
    for index in region:
        part = case.model.part([index], held)
        asked = [value.name for value in part.graph.input]
        given = {name: moved(held[name], 97 * seed + index + i) for i, name in enumerate(asked)}
        held.update(known.party.load(part, plain=True)(given))
    return held
