"""Sets of things that are enough, or too many, against trying all sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log2

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.search import Outcome, ddmin, smallest_good_set
from tests.support.examples import scaled

SMALL = st.integers(1, 7)


class Family:
    """Answers by a rule, or as drawn, never twice about the same, and counts."""

    def __init__(self, rule: dict[tuple[int, ...], Outcome], data: st.DataObject | None = None):
        self.rule = rule
        self.data = data
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, chosen: Sequence[int]) -> Outcome:
        key = tuple(chosen)
        assert key not in self.asked
        assert list(key) == sorted(key)
        self.asked.append(key)
        if self.data is not None and key not in self.rule:
            self.rule[key] = self.data.draw(st.sampled_from(Outcome))
        return self.rule[key]


def subsets(count: int) -> list[tuple[int, ...]]:
    return [each for size in range(count + 1) for each in combinations(range(count), size)]


@given(st.data())
def test_a_smallest_good_set_is_good_and_nothing_of_it_is_dispensable(data: st.DataObject) -> None:
    count = data.draw(SMALL)
    cores = data.draw(
        st.lists(st.frozensets(st.integers(0, count - 1)), max_size=3), label="enough"
    )
    rule = {
        each: Outcome.GOOD if any(core <= set(each) for core in cores) else Outcome.BAD
        for each in subsets(count)
    }
    is_ranked = data.draw(st.booleans())
    found = smallest_good_set(range(count), Family(rule), is_ranked=is_ranked)
    if not cores:
        assert found is None
        return
    assert found is not None
    assert rule[tuple(found)] is Outcome.GOOD
    for left_out in found:
        assert rule[tuple(each for each in found if each != left_out)] is not Outcome.GOOD


@given(st.integers(1, 400), st.data())
def test_a_few_of_many_are_found_in_few_tests(count: int, data: st.DataObject) -> None:
    core = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=5))
    asked = []

    def test(chosen: Sequence[int]) -> Outcome:
        asked.append(len(chosen))
        return Outcome.GOOD if core <= set(chosen) else Outcome.BAD

    assert smallest_good_set(range(count), test) == sorted(core)
    size = len(core)
    assert len(asked) <= 3 + 2 * size * (log2(count / size) + 2)


def test_what_is_likely_to_be_needed_is_found_in_fewer_tests() -> None:
    asked = []

    def test(chosen: Sequence[int]) -> Outcome:
        asked.append(len(chosen))
        return Outcome.GOOD if {0, 2} <= set(chosen) else Outcome.BAD

    assert smallest_good_set(range(1000), test, is_ranked=True) == [0, 2]
    assert max(asked) == 4
    assert len(asked) <= 8


@settings(deadline=None, max_examples=scaled(50))
@given(SMALL, st.data())
def test_what_cannot_be_reported_is_not_left_out(count: int, data: st.DataObject) -> None:
    test = Family({}, data)
    found = smallest_good_set(range(count), test)
    assert (found is None) == (test.rule[tuple(range(count))] is not Outcome.GOOD)


@settings(deadline=None, max_examples=scaled(50))
@given(SMALL, st.data())
def test_what_ddmin_finds_is_bad_and_minimal_whatever_the_rule(
    count: int, data: st.DataObject
) -> None:
    everything = tuple(range(count))
    test = Family({everything: Outcome.BAD}, data)
    found = tuple(ddmin(range(count), test))
    assert test.rule[found] is Outcome.BAD
    assert everything not in test.asked
    for left_out in found:
        rest = tuple(each for each in found if each != left_out)
        assert not rest or test.rule[rest] is not Outcome.BAD
