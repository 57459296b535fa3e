"""What a search may ask next is known before the answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.search import (
    Outcome,
    ddmin,
    first_bad_part,
    first_bad_part_in_order,
    next_questions,
)
from polygraphy.domain.search.graph import dependency_sets
from tests.support.examples import scaled

Search = Callable[[Callable[[Any], Outcome]], Any]


def by_ddmin(items: Sequence[int], test: Callable[[tuple[int, ...]], Outcome]) -> list[int]:
    return ddmin(items, lambda chosen: test(tuple(chosen)))


@st.composite
def searches(draw: st.DrawFn) -> Search:
    count = draw(st.integers(1, 12))
    edges = [draw(st.sets(st.integers(0, max(node - 1, 0)), max_size=2)) for node in range(count)]
    reach = dependency_sets(
        [{each for each in edge if each < node} for node, edge in enumerate(edges)]
    )
    kind = draw(st.sampled_from([first_bad_part, first_bad_part_in_order, by_ddmin]))
    return partial(kind, range(count) if kind is by_ddmin else reach)


@settings(deadline=None, max_examples=scaled(60))
@given(searches(), st.integers(1, 4), st.data())
def test_the_next_question_comes_first_and_one_of_the_others_is_often_the_one_after(
    search: Search, count: int, data: st.DataObject
) -> None:
    known: dict[Any, Outcome] = {}
    guessed: list[Any] = []

    def test(question: Any) -> Outcome:
        assert question not in known
        listed = next_questions(search, known, count)
        assert listed[0] == question
        assert len(listed) == len(set(listed)) <= count
        if guessed and count >= 3:  # Whatever the answer was, both of what may follow were listed.
            assert question in guessed or len(guessed) == count
        guessed[:] = listed
        known[question] = data.draw(st.sampled_from([Outcome.GOOD, Outcome.BAD]))
        return known[question]

    found = search(test)
    assert next_questions(search, known, count) == []
    assert search(known.__getitem__) == found
