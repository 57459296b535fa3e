"""Searches for the cheapest combination of replacements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.search.plugin_search import Choice, Cost, exhaustive_search, greedy_search

BASE = Cost(100.0, 1000)


def test_latency_counts_and_memory_where_latencies_are_the_same() -> None:
    assert Cost(0.9).is_below(Cost(1.0))
    assert not Cost(1.1).is_below(Cost(1.0))
    assert not Cost(0.995).is_below(Cost(1.0))  # That is noise.
    assert Cost(1.005, 10).is_below(Cost(1.0, 11))
    assert not Cost(1.005, 11).is_below(Cost(1.0, 11))
    assert not Cost(1.0, 10).is_below(Cost(1.0))
    assert Cost(0.25).throughput == 4
    assert Cost(0.0).throughput == float("inf")


gains = st.lists(st.sampled_from([-20.0, -5.0, 0.0, 5.0, 15.0]), max_size=5)


@given(gains)
def test_greedy_keeps_exactly_what_helps_where_gains_add_up(gains: list[float]) -> None:
    asked: list[Choice] = []

    def measure(choice: Choice) -> Cost:
        asked.append(choice)
        return Cost(1000.0 - 4 * sum(gains[position] for position in choice))

    found = greedy_search(len(gains), Cost(1000.0), measure)
    assert found.chosen == tuple(index for index, gain in enumerate(gains) if gain > 0)
    assert found.tried == len(asked) == len(gains)


@given(gains, st.sets(st.integers(0, 4)))
def test_exhaustive_finds_the_best_that_works(gains: list[float], broken: set[int]) -> None:
    def measure(choice: Choice) -> Cost | None:
        if broken.intersection(choice):
            return None
        return Cost(1000.0 - 4 * sum(gains[position] for position in choice))

    found = exhaustive_search(len(gains), Cost(1000.0), measure, most=10**6, enough=1.0)
    best = {index for index, gain in enumerate(gains) if gain > 0 and index not in broken}
    assert set(found.chosen) == best
    assert found.tried == 2 ** len(gains) - 1


@pytest.mark.parametrize(("most", "tried"), [(1, 1), (5, 5), (100, 7)])
def test_exhaustive_tries_so_many_at_most(most: int, tried: int) -> None:
    asked: list[Choice] = []

    def measure(choice: Choice) -> Cost:
        asked.append(choice)
        return BASE

    assert exhaustive_search(3, BASE, measure, most=most, enough=0.1).tried == tried
    assert len(set(asked)) == tried
    assert () not in asked  # That is the baseline.


def test_exhaustive_ends_when_it_is_quick_enough() -> None:
    costs = {(0,): Cost(95.0), (1,): Cost(80.0)}
    found = exhaustive_search(3, BASE, lambda choice: costs[choice], most=99, enough=0.1)
    assert (found.chosen, found.tried) == ((1,), 2)
