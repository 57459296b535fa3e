"""Searches among subsets: what can be left out while a failure stays (ddmin), the fewest that are
enough (QuickXplain), which rewrites are to blame, and all that can be computed together; and which
questions a search may ask next, whatever the answers are until then.

Sources: Andreas Zeller and Ralf Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
IEEE Transactions on Software Engineering 28(2), 2002. Ulrich Junker, "QuickXplain: Preferred
Explanations and Relaxations for Over-Constrained Problems", AAAI 2004.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, TypeVar


class Outcome(Enum):
    """The answer of a test: it passed, it failed, or that is unknown."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"


T = TypeVar("T")


def ddmin(items: Sequence[T], test: Callable[[Sequence[T]], Outcome]) -> list[T]:
    """Return a minimal set of items that is bad as a whole: none of them can be omitted.

    Args:
        items: all items, which together are bad: that is not tested.
        test: answers about some of them, in order; no assumption is made about its answers.

    Returns:
        The items, in order. Testing each of them left out was not bad.
    """
    known: dict[tuple[int, ...], bool] = {}

    def is_bad(positions: Sequence[int]) -> bool:
        """Return whether the items at some positions fail; each set is tested once."""
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
    """Return a list split into parts of about equal length."""
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]


def bisect_batch(
    names: Sequence[str], compute: Callable[[Sequence[str]], Mapping[str, T] | None]
) -> tuple[dict[str, T], list[str]]:
    """Compute as much as possible in as few steps as possible.

    Where everything can be computed, that takes one step; each one that cannot costs about twice
    the logarithm of their number more.

    Args:
        names: what is to be computed.
        compute: computes several at once; None when at least one of them cannot be.

    Returns:
        What was computed by name, and the names of the others, in order.
    """
    found: dict[str, T] = {}
    failed: list[str] = []
    pending = [list(names)] if names else []
    while pending:
        chosen = pending.pop()
        values = compute(chosen)
        if values is not None:
            found.update(values)
        elif len(chosen) == 1:
            failed += chosen
        else:
            middle = len(chosen) // 2
            pending += [chosen[middle:], chosen[:middle]]
    return found, failed


def smallest_good_set(
    items: Sequence[T], test: Callable[[Sequence[T]], Outcome], *, is_ranked: bool = False
) -> list[T] | None:
    """Return a minimal set of items that is good as a whole, or None: none of them can be omitted.

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
        """Return whether the items at some positions are good; each set is tested once."""
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
    return [items[position] for position in sorted(_needed_items([], False, everything, is_good))]


def _first_enough(positions: list[int], is_good: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return as many of the first as are good together, none to begin with; else all."""
    count = 0
    while count < len(positions) and not is_good(positions[:count]):
        count = 2 * count or 1
    return positions[:count]


def _needed_items(
    kept: list[int],
    has_grown: bool,
    rest: list[int],
    is_good: Callable[[Sequence[int]], bool],
) -> list[int]:
    """Return the items of `rest` that are needed in addition to `kept`; `has_grown`: `kept` has
    grown since the last test.
    """
    if has_grown and is_good(kept):
        return []
    if len(rest) == 1:
        return rest
    middle = len(rest) // 2
    first, second = rest[:middle], rest[middle:]
    of_second = _needed_items(kept + first, True, second, is_good)
    of_first = _needed_items(kept + of_second, bool(of_second), first, is_good)
    return of_first + of_second


Heals = Callable[[Sequence[str]], bool]
"""Returns whether the fault is gone without some passes: rewrites that are switched off, or nodes
that do not compute in half precision."""


def healing_passes(
    passes: Sequence[str], heals: Heals, *, is_ranked: bool = False
) -> list[str] | None:
    """Return the fewest passes of a backend to disable so that the fault disappears; None if it
    remains without all. See `smallest_good_set`.
    """

    def test(some: Sequence[str]) -> Outcome:
        """Return GOOD if the model is healed without some passes, else BAD."""
        return Outcome.GOOD if heals(some) else Outcome.BAD

    return smallest_good_set(passes, test, is_ranked=is_ranked)


def healing_alone(passes: Sequence[str], heals: Heals) -> list[str]:
    """Return the passes that each remove the fault if disabled by themselves."""
    return [name for name in passes if heals([name])]


Q = TypeVar("Q", bound=Hashable)

_PATIENCE = 4
"""So many assumptions are tried for each question that is wanted."""


class _Asked(Exception):
    """The search asks something whose answer is not known."""

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question


def next_questions(
    search: Callable[[Callable[[Q], Outcome]], Any], known: Mapping[Q, Outcome], count: int
) -> list[Q]:
    """Return the questions that a search may ask next, the likeliest first.

    Args:
        search: a pure function of what answers its questions.
        known: the answers that are known.
        count: how many questions are wanted, at most.
    """
    questions: dict[Q, None] = {}
    pending: deque[dict[Q, Outcome]] = deque([{}])
    for _ in range(_PATIENCE * count):
        if not pending or len(questions) >= count:
            break
        assumed = pending.popleft()
        question = _next_question(search, {**known, **assumed})
        if question is None:
            continue
        questions.setdefault(question)
        pending += [{**assumed, question: answer} for answer in (Outcome.GOOD, Outcome.BAD)]
    return [*questions]


def _next_question(
    search: Callable[[Callable[[Q], Outcome]], Any], known: Mapping[Q, Outcome]
) -> Q | None:
    """Return the first question without an answer; None if the search ends before one."""

    def answer(question: Q) -> Outcome:
        """Return the known outcome of a question; raise if it is not known."""
        if question not in known:
            raise _Asked(question)
        return known[question]

    try:
        search(answer)
    except _Asked as asked:
        found: Q = asked.question
        return found
    return None
