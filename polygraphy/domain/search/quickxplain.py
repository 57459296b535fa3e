"""The fewest things that are enough.

Source: Ulrich Junker, "QuickXplain: Preferred Explanations and Relaxations for Over-Constrained
Problems", AAAI 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from polygraphy.domain.search.outcome import Outcome

T = TypeVar("T")


def smallest_good_set(
    items: Sequence[T], test: Callable[[Sequence[T]], Outcome], *, is_ranked: bool = False
) -> list[T] | None:
    """Find items that together are good, and no longer are when any one of them is left out.

    That holds where more items never make a good set bad. The number of tests is of the order of
    ``k log2(n / k)`` for `k` items that are found among `n`.

    Args:
        items: all items.
        test: answers about some of them, in order; what is unresolved counts as not good, so that
            nothing is left out without being known to be dispensable.
        is_ranked: whether those come first that are likely to be needed. Then 1, 2, 4, 8 and so on
            of them are tried until they are enough, before they are searched.

    Returns:
        The items, in order; none where even the empty set is good. None if all together are not.
    """
    known: dict[tuple[int, ...], bool] = {}

    def is_good(positions: Sequence[int]) -> bool:
        key = tuple(sorted(positions))
        if key not in known:
            known[key] = test([items[position] for position in key]) is Outcome.GOOD
        return known[key]

    everything = list(range(len(items)))
    if is_ranked:
        everything = _first_enough(everything, is_good)
    if not is_good(everything):
        return None
    if is_good([]):
        return []
    return [items[position] for position in sorted(_needed([], False, everything, is_good))]


def _first_enough(positions: list[int], is_good: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return as many of the first as are good together, none to begin with; else all."""
    count = 0
    while count < len(positions) and not is_good(positions[:count]):
        count = 2 * count or 1
    return positions[:count]


def _needed(
    kept: list[int],
    has_grown: bool,
    rest: list[int],
    is_good: Callable[[Sequence[int]], bool],
) -> list[int]:
    """Return what of `rest` is needed beside what is kept; `has_grown` tells whether something was
    kept since that was last tested.
    """
    if has_grown and is_good(kept):
        return []
    if len(rest) == 1:
        return rest
    middle = len(rest) // 2
    first, second = rest[:middle], rest[middle:]
    of_second = _needed(kept + first, True, second, is_good)
    of_first = _needed(kept + of_second, bool(of_second), first, is_good)
    return of_first + of_second
