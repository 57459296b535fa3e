"""The command that keeps nodes in float32 whose weights exceed the range of half precision."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison
from polygraphy.application.diagnose.precision.half import Tolerance, half_type
from polygraphy.application.diagnose.precision.half_verdict import cast_model
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.diagnosis.commands import convert_command
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.diagnosis.headroom import Range
from polygraphy.domain.diagnosis.words import precision
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.precision import is_float, widen_array

_MOST_TRIES = 4
"""Most conversions, each with the next nodes in float32: a mask ends at Softmax, after Mul and Add.
Chosen, not measured."""


def keep_wide_numbers(
    comparison: ModelComparison, culprits: Sequence[Culprit], dtype: str, tolerance: Tolerance
) -> Sequence[Culprit]:
    """Return culprits with the command that converts the reference with some nodes in float32, if
    half precision cannot hold a weight that they read; without advice if no such command helps.

    Args:
        comparison: the model, which computes in half precision, and its reference.
        culprits: the nodes that differ from the reference.
        dtype: ``fp16`` or ``bf16``.
        tolerance: that of half precision.
    """
    pair, pairing = comparison.pair, comparison.pair.pairing
    names = {name for culprit in culprits for name in culprit.nodes}
    twins = {
        pairing.reference.nodes[twin].label
        for place, twin in pairing.nodes.items()
        if pairing.model.nodes[place].label in names
    }
    graph = pair.reference.graph  # The graph of the pairing has no casts.
    kept = {place for place, node in enumerate(graph.nodes) if node.label in twins}
    kept |= _places_before(graph, kept)
    if not _has_wide_number(graph, kept, Range.of(half_type(dtype)).largest):
        return culprits
    for _ in range(_MOST_TRIES):
        labels = [graph.nodes[place].label for place in sorted(kept)]
        try:
            error = _error_if_kept(comparison, labels, dtype, tolerance)
        except REFUSALS:
            break
        if error.is_tolerable:
            remedy = Remedy(convert_command(pair.path, dtype, labels) or None, True)
            fact = precision.error_with_nodes_in_float32(labels, str(error))
            return [
                evolve(culprit, facts=[*culprit.facts, fact], remedy=remedy) for culprit in culprits
            ]
        made = [name for place in kept for name in graph.nodes[place].makes]
        kept |= {place for name in made for place in graph.consumers.get(name, ())}
    return [evolve(culprit, remedy=Remedy()) for culprit in culprits]


def _error_if_kept(
    comparison: ModelComparison, kept: Sequence[str], dtype: str, tolerance: Tolerance
) -> Deviation:
    """Return the largest error of the outputs of the reference, converted with nodes in float32,
    in the backend and rounded at every operator: backends may omit casts."""
    pair, twins = comparison.pair, comparison.pair.pairing.tensors
    model = cast_model(pair.reference.proto, dtype, kept)
    worst = Deviation()
    for party in dict.fromkeys((pair.party, pair.arbiter)):
        compute = CarefulParty(party).load(model)
        for feed, expected in zip(comparison.feeds, comparison.expected):
            exact = {twins.get(name, name): widen_array(array) for name, array in expected.items()}
            with np.errstate(all="ignore"):
                values = compute(pair.feed_reference(feed))
            computed = {name: widen_array(array) for name, array in values.items()}
            error = tolerance.error(exact, computed)
            worst = max(worst, error, key=lambda deviation: deviation.excess)
    return worst


def _places_before(graph: Graph, places: Collection[int]) -> set[int]:
    """Return the positions of nodes that compute the operands of some nodes from weights alone."""
    found: set[int] = set()
    for name in (name for place in places for name in graph.nodes[place].reads):
        before = graph.producers.get(name)
        if before is None or before in places:
            continue
        earlier = _places_before(graph, {before})
        made = {name for place in earlier for name in graph.nodes[place].makes}
        if all(name in graph.constants or name in made for name in graph.nodes[before].reads):
            found |= {before, *earlier}
    return found


def _has_wide_number(graph: Graph, places: Collection[int], largest: float) -> bool:
    """Return whether some node reads a weight with a finite number above the largest one."""
    for name in {name for place in places for name in graph.nodes[place].reads}:
        weight = graph.constants.get(name)
        if weight is None or weight.values is None:
            continue
        values = np.asarray(weight.values)
        if is_float(values) and bool((np.abs(values[np.isfinite(values)]) > largest).any()):
            return True
    return False
