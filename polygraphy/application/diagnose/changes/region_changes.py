"""The changed node among several, if only the tensors before and behind them are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.changes.body_search import find_body_changes
from polygraphy.application.diagnose.changes.change_search import ChangeSearch, OtherTensor
from polygraphy.application.diagnose.changes.integer_search import find_integers
from polygraphy.application.diagnose.changes.scaled_numbers import ScaledNumbers
from polygraphy.application.diagnose.changes.unread_inputs import find_unread_inputs
from polygraphy.application.diagnose.changes.weight_search import find_other_weights
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import Deviation, deviation
from polygraphy.domain.tensors.precision import is_float


def find_region_changes(
    search: ChangeSearch, nodes: Sequence[int]
) -> Iterator[tuple[int, Variant]]:
    """Yield nodes with the change after which a part of the model computes the expected tensors:
    a common mistake, or else a weight or attribute multiplied by a factor.

    Args:
        search: tries changes of the part.
        nodes: the positions of its nodes.
    """
    operations = [index for index in nodes if index in search.graph.operations]
    changed = []
    for index in operations:
        for variant in search.find_usual_variants(index):
            changed.append(index)
            yield index, variant
            break
    for variant in _find_factors(search, operations):
        index = search.graph.operation_producers[next(filter(None, variant.node.outputs))]
        if index not in changed:
            changed.append(index)
            yield index, variant


def find_rarer_changes(
    search: ChangeSearch, nodes: Sequence[int], tensors: Iterable[OtherTensor]
) -> Iterator[tuple[int, Variant]]:
    """Yield nodes with another change after which a part of the model computes the expected
    tensors: an absent input, a change in a body, other integers or elements of a weight.

    Args:
        search: tries changes of the part.
        nodes: the positions of its nodes.
        tensors: the computed tensors that its nodes may read.
    """
    known = [*tensors]
    for index in (index for index in nodes if index in search.graph.operations):
        yield from ((index, variant) for variant in islice(_find_others(search, index, known), 1))


def _find_others(
    search: ChangeSearch, position: int, tensors: Sequence[OtherTensor]
) -> Iterator[Variant]:
    """Yield the variants of a node with a change that is no common mistake."""
    yield from find_unread_inputs(search, position, tensors)
    yield from find_body_changes(search, position)
    yield from find_integers(search, position)
    yield from find_other_weights(search, position, next(iter(search.goals.values())))


def _find_factors(search: ChangeSearch, nodes: Sequence[int]) -> Iterator[Variant]:
    """Yield the variants of nodes in which one number times a factor explains the outputs."""
    names = [name for name, goal in search.goals.items() if is_float(goal)]

    def deviations(values: Values) -> Mapping[str, Deviation]:
        """Return how tensors differ from the expected ones."""
        return {name: deviation(values[name], search.goals[name]) for name in names}

    try:
        values = search.part.load_first(search.runners)(search.part.feed)
    except PolygraphyException:
        return
    if len(names) == len(search.goals) and all(name in values for name in names):
        yield from ScaledNumbers(
            search, names, values, deviations, nodes=nodes, nearest=0.0
        ).find_matches()
