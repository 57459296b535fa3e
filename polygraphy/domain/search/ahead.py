"""Which questions a search may ask next, whatever the answers are until then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from polygraphy.domain.search.subsets import Outcome

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
    """Return what a search may ask, the most likely first.

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
        question = _asked(search, {**known, **assumed})
        if question is None:
            continue
        questions.setdefault(question)
        pending += [{**assumed, question: answer} for answer in (Outcome.GOOD, Outcome.BAD)]
    return [*questions]


def _asked(search: Callable[[Callable[[Q], Outcome]], Any], known: Mapping[Q, Outcome]) -> Q | None:
    """Return the first question without an answer; None where the search ends before."""

    def test(question: Q) -> Outcome:
        if question not in known:
            raise _Asked(question)
        return known[question]

    try:
        search(test)
    except _Asked as asked:
        found: Q = asked.question
        return found
    return None
