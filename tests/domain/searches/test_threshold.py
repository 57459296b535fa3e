"""How much is enough, against trying everything."""

from __future__ import annotations

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.search import Outcome, first_good, first_good_in_order

ANSWERS = st.lists(st.sampled_from(Outcome), min_size=1, max_size=40)


class Counted:
    """Answers from a list, and never twice about the same."""

    def __init__(self, answers: list[Outcome]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    def __call__(self, number: int) -> Outcome:
        assert number not in self.asked
        self.asked.append(number)
        return self.answers[number]


@given(st.integers(0, 500), st.integers(0, 501))
def test_the_smallest_good_number_is_found_in_few_tests(most: int, first: int) -> None:
    test = Counted([Outcome.GOOD if each >= first else Outcome.BAD for each in range(most + 1)])
    assert first_good(most, test) == (first if first <= most else None)
    assert len(test.asked) <= 2 + log2(most + 1)


@given(ANSWERS)
def test_whatever_the_answers_are_what_is_found_is_good(answers: list[Outcome]) -> None:
    test = Counted(answers)
    found = first_good(len(answers) - 1, test)
    assert (found is None) == (answers[-1] is not Outcome.GOOD)
    if found is None:
        return
    assert answers[found] is Outcome.GOOD
    below = found - 1
    while below >= 0 and answers[below] is Outcome.UNRESOLVED:
        assert below in test.asked
        below -= 1
    assert below < 0 or (answers[below] is Outcome.BAD and below in test.asked)


@given(ANSWERS)
def test_one_after_the_other_finds_the_first(answers: list[Outcome]) -> None:
    test = Counted(answers)
    expected = answers.index(Outcome.GOOD) if Outcome.GOOD in answers else None
    assert first_good_in_order(len(answers) - 1, test) == expected
