"""Which integers of a node differ: those with which it computes what is expected, found one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Values
from polygraphy.application.diagnose.changes.change_search import ChangeSearch, output_name
from polygraphy.domain.diagnosis.solving.integers import difference_of_integers
from polygraphy.domain.diagnosis.two_models import QUANTIZING
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException

_MOST_INTEGERS = 16
"""Elements of the largest weight whose integers are tried one by one. Chosen, not measured."""
_MOST_VALUES = 64
"""Values of an integer that are tried. Chosen, not measured."""
_ROUNDS = 2
"""Times that all integers are tried: one may be right only after another is."""
_MOST_RUNS = 1024
"""The most runs of a search."""

Score = tuple[int, float]


def find_integers(search: ChangeSearch, position: int) -> Iterator[Variant]:
    """Yield the variant of a node with other integers in one of its weights,
    if it computes the expected values.

    Args:
        search: tries changes of the node alone.
        position: the node.
    """
    node, weights = search.graph.nodes[position], search.graph.constants
    for name in dict.fromkeys(node.inputs) if node.op not in QUANTIZING else ():
        values = weights[name].values if name in weights else None
        if values is None or not 0 < np.size(values) <= _MOST_INTEGERS:
            continue
        start = np.asarray(values)
        if start.dtype.kind not in {"b", "i", "u"}:
            continue

        def variant_with(array: Any, name: str = name, start: Any = start) -> Variant:
            """Return the variant of the node with these integers in a weight."""
            difference = difference_of_integers(start, array)
            change = changes.other_weight("weight", name, difference, node.op)
            return Variant("weight", change, node, {name: array})

        integers = search.try_runs(
            partial(_nearest_integers, search, start, variant_with), _MOST_RUNS
        )
        if integers is not None:
            yield from search.select_matching([variant_with(integers)])


def _nearest_integers(
    search: ChangeSearch, start: Any, variant_with: Callable[[Any], Variant]
) -> Any:
    """Return the integers with which most elements are as expected, or None.
    The result is None if none are better than `start`."""
    variant = variant_with(start)
    try:
        part = search.part.change(output_name(variant), variant, asks=True)
        compute = part.load_first(search.runners)
    except PolygraphyException:
        return None
    *_, last = part.feed

    def score(array: Any) -> Score:
        """Return how close the computed values are: equal sizes first, then equal elements."""
        try:
            return _score(compute({**part.feed, last: array}), search.goals)
        except PolygraphyException:
            return (-1, 0.0)

    shapes = [np.shape(value) for value in (*search.part.feed.values(), *search.goals.values())]
    largest = max((size for shape in shapes for size in shape), default=0)
    candidates: Sequence[int] = range(2)
    if start.dtype.kind != "b":
        sizes = range(min(largest + 1, _MOST_VALUES))
        candidates = [*dict.fromkeys([*sizes, *_near_goals(search.goals, start.dtype)])]
    if start.size == 1 and start.dtype.kind in "iu" and start.itemsize == 1:
        # Probably a zero point, so try all of its values.
        candidates = range(np.iinfo(start.dtype).min, np.iinfo(start.dtype).max + 1)
    array, best, runs = start.copy(), score(start), 1
    for _ in range(_ROUNDS):
        before = best
        for at in range(array.size):
            for value in candidates:
                changed = array.copy()
                changed.flat[at] = value
                if runs >= _MOST_RUNS or np.array_equal(changed, array):
                    continue
                runs, scored = runs + 1, score(changed)
                if scored > best:
                    array, best = changed, scored
        if best == before:
            break
    return None if np.array_equal(array, start) else array


def _near_goals(goals: Values, dtype: Any) -> list[int]:
    """Return integers of a data type between the expected integers, or next to them:
    a bound is one of these, and a divisor one more than the largest remainder. If they are many,
    only the ends.
    """
    arrays = [np.asarray(goal) for goal in goals.values()]
    arrays = [array for array in arrays if array.size and array.dtype.kind in "iu"]
    if not arrays:
        return []
    least, most = (int(pick(map(end, arrays))) for pick, end in ((min, np.min), (max, np.max)))
    ends = [least - 1, least, most, most + 1]
    every = range(least - 1, most + 2) if most - least < _MOST_VALUES else ends
    limits = np.iinfo(dtype)
    return [value for value in every if limits.min <= value <= limits.max]


def _score(values: Values, goals: Values) -> Score:
    """Return the number of equal sizes of tensors, and the share of equal elements."""
    sizes, shares = 0, []
    for name, goal in goals.items():
        array, wanted = np.asarray(values.get(name)), np.asarray(goal)
        if array.ndim == wanted.ndim:
            sizes += sum(
                length == wanted_length for length, wanted_length in zip(array.shape, wanted.shape)
            )
        if array.shape == wanted.shape and wanted.size:
            shares.append(float(np.mean(np.isclose(array, wanted, rtol=1e-4, atol=1e-6))))
    return sizes, sum(shares)
