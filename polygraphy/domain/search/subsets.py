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
    """The result of a test: passed, failed, or unknown."""

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
    known_values: dict[tuple[int, ...], bool] = {}

    def is_bad(positions: Sequence[int]) -> bool:
        """Return whether the items at some positions fail; each set is tested once."""
        key = tuple(positions)
        if key not in known_values:
            known_values[key] = test([items[position] for position in key]) is Outcome.BAD
        return known_values[key]

    remaining, parts = list(range(len(items))), 2
    while len(remaining) >= 2:
        chunks = _split(remaining, parts)
        smaller = next((chunk for chunk in chunks if is_bad(chunk)), None)
        if smaller is not None:
            remaining, parts = smaller, 2
            continue
        complements = (
            [index for index in remaining if index not in set(chunk)] for chunk in chunks
        )
        smaller = next(
            (remaining_indices for remaining_indices in complements if is_bad(remaining_indices)),
            None,
        )
        if smaller is not None:
            remaining, parts = smaller, max(parts - 1, 2)
        elif parts >= len(remaining):
            break
        else:
            parts = min(2 * parts, len(remaining))
    return [items[position] for position in remaining]


def _split(items: list[int], parts: int) -> list[list[int]]:
    """Return a list split into parts of about equal length."""
    bounds = [len(items) * part // parts for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]


def bisect_batch(
    names: Sequence[str], compute: Callable[[Sequence[str]], Mapping[str, T] | None]
) -> tuple[dict[str, T], list[str]]:
    """Return the results of names that can be computed, and the names that cannot.
    They are computed in as few calls as possible.

    If everything can be computed, that takes one call; each name that cannot be computed takes
    about twice the logarithm of their number more.

    Args:
        names: the names of the results to compute.
        compute: computes several at once; None when at least one of them cannot be.

    Returns:
        What was computed by name, and the names of the others, in order.
    """
    answers: dict[str, T] = {}
    failed: list[str] = []
    pending = [list(names)] if names else []
    while pending:
        chosen = pending.pop()
        values = compute(chosen)
        if values is not None:
            answers.update(values)
        elif len(chosen) == 1:
            failed += chosen
        else:
            middle = len(chosen) // 2
            pending += [chosen[middle:], chosen[:middle]]
    return answers, failed


def smallest_good_set(
    items: Sequence[T], test: Callable[[Sequence[T]], Outcome], *, is_ranked: bool = False
) -> list[T] | None:
    """Return a minimal set of items that is good as a whole, or None: none of them can be omitted.

    This requires that more items never make a good set bad. The number of tests is of the order of
    ``k log2(n / k)`` for `k` items found among `n`.

    Args:
        items: all items.
        test: returns the outcome for some of them, in order; unresolved counts as not good, so that
            no item is left out unless it is known to be unnecessary.
        is_ranked: whether items that are likely to be needed come first. Then the first 1, 2, 4, 8
            and so on are tried until they are enough, before the search among them.

    Returns:
        The items, in order; none where even the empty set is good. None if all together are not.
    """
    known_values: dict[tuple[int, ...], bool] = {}

    def is_good(positions: Sequence[int]) -> bool:
        """Return whether the items at some positions are good; each set is tested once."""
        key = tuple(sorted(positions))
        if key not in known_values:
            known_values[key] = test([items[position] for position in key]) is Outcome.GOOD
        return known_values[key]

    enough = list(range(len(items)))
    if is_ranked:
        enough = _first_enough(enough, is_good)
    if not is_good(enough):
        return None
    if is_good([]):
        return []
    return [items[position] for position in sorted(_minimize_items([], False, enough, is_good))]


def _first_enough(positions: list[int], is_good: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return the shortest prefix, doubled from zero, that is good; else all positions."""
    count = 0
    while count < len(positions) and not is_good(positions[:count]):
        count = 2 * count or 1
    return positions[:count]


def _minimize_items(
    kept_indices: list[int],
    has_grown: bool,
    remaining_indices: list[int],
    is_good: Callable[[Sequence[int]], bool],
) -> list[int]:
    """Return the items of `remaining_indices` that are needed in addition to `kept_indices`.

    has_grown: whether `kept_indices` has grown since the last test.
    """
    if has_grown and is_good(kept_indices):
        return []
    if len(remaining_indices) == 1:
        return remaining_indices
    middle = len(remaining_indices) // 2
    first, second = remaining_indices[:middle], remaining_indices[middle:]
    of_second = _minimize_items(kept_indices + first, True, second, is_good)
    of_first = _minimize_items(kept_indices + of_second, bool(of_second), first, is_good)
    return of_first + of_second


Heals = Callable[[Sequence[str]], bool]
"""Returns whether the fault is gone without some passes: rewrites that are switched off, or nodes
that do not compute in half precision."""


def healing_passes(
    passes: Sequence[str], heals: Heals, *, is_ranked: bool = False
) -> list[str] | None:
    """Return the fewest passes of a backend to disable so that the fault disappears, or None.
    The result is None if it remains without all. See `smallest_good_set`.
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
"""Assumptions that are tried for each requested question."""


class _OpenQuestion(Exception):
    """Raised when the search asks a question without a known answer."""

    def __init__(self, question: Any) -> None:
        """Keep the question."""
        super().__init__()
        self.question = question


def next_questions(
    search: Callable[[Callable[[Q], Outcome]], Any], outcomes: Mapping[Q, Outcome], count: int
) -> list[Q]:
    """Return the questions that a search may ask next, the likeliest first.

    Args:
        search: a function whose questions depend only on the answers.
        outcomes: the answers that are known.
        count: the maximum number of questions to return.
    """
    questions: dict[Q, None] = {}
    pending: deque[dict[Q, Outcome]] = deque([{}])
    for _ in range(_PATIENCE * count):
        if not pending or len(questions) >= count:
            break
        assumed = pending.popleft()
        question = _next_question(search, {**outcomes, **assumed})
        if question is None:
            continue
        questions.setdefault(question)
        pending += [{**assumed, question: answer} for answer in (Outcome.GOOD, Outcome.BAD)]
    return [*questions]


def _next_question(
    search: Callable[[Callable[[Q], Outcome]], Any], outcomes: Mapping[Q, Outcome]
) -> Q | None:
    """Return the first question without an answer; None if the search ends before one."""

    def answer(question: Q) -> Outcome:
        """Return the known outcome of a question; raise if it is not known."""
        if question not in outcomes:
            raise _OpenQuestion(question)
        return outcomes[question]

    try:
        search(answer)
    except _OpenQuestion as asked:
        pending: Q = asked.question
        return pending
    return None
