"""What can be left out while a failure stays.

Source: Andreas Zeller and Ralf Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
IEEE Transactions on Software Engineering 28(2), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from polygraphy.domain.search.outcome import Outcome

T = TypeVar("T")


def ddmin(items: Sequence[T], test: Callable[[Sequence[T]], Outcome]) -> list[T]:
    """Find items that together are bad, and of which none can be left out alone.

    Args:
        items: all items, which together are bad: that is not tested.
        test: answers about some of them, in order; no assumption is made about its answers.

    Returns:
        The items, in order. Testing each of them left out was not bad.
    """
    known: dict[tuple[int, ...], bool] = {}

    def is_bad(positions: Sequence[int]) -> bool:
        key = tuple(positions)
        if key not in known:
            known[key] = test([items[position] for position in key]) is Outcome.BAD
        return known[key]

    left, parts = list(range(len(items))), 2
    while len(left) >= 2:
        chunks = _split(left, parts)
        smaller = next((chunk for chunk in chunks if is_bad(chunk)), None)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        others = ([each for each in left if each not in set(chunk)] for chunk in chunks)
        smaller = next((rest for rest in others if is_bad(rest)), None)
        if smaller is not None:
            left, parts = smaller, max(parts - 1, 2)
        elif parts >= len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return [items[position] for position in left]


def _split(items: list[int], parts: int) -> list[list[int]]:
    """Split a list into parts of about the same length."""
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]
