"""Parts of graphs, against trying every part."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.search import Outcome, first_bad_part, first_bad_part_in_order
from polygraphy.domain.search.graph import dependency_sets, members
from tests.support.examples import scaled


@st.composite
def graphs(draw: st.DrawFn, largest: int = 24) -> list[list[int]]:
    count = draw(st.integers(1, largest))
    return [
        sorted(draw(st.sets(st.integers(max(0, node - 6), node - 1), max_size=3))) if node else []
        for node in range(count)
    ]


class Part:
    """Answers about parts, never twice about the same ends."""

    def __init__(self, reach: Sequence[int], rule) -> None:  # type: ignore[no-untyped-def]
        self.reach = reach
        self.rule = rule
        self.asked: list[tuple[int, ...]] = []

    def nodes(self, ends: Sequence[int]) -> int:
        union = 0
        for end in ends:
            union |= self.reach[end]
        return union

    def __call__(self, ends: Sequence[int]) -> Outcome:
        assert tuple(ends) not in self.asked
        assert ends
        for end in ends:  # None depends on another.
            assert not any(self.reach[other] >> end & 1 for other in ends if other != end)
        self.asked.append(tuple(ends))
        return self.rule(self.nodes(ends))


@settings(deadline=None, max_examples=scaled(40))
@given(graphs(), st.data())
def test_the_one_node_that_is_to_blame_is_found(
    graph: list[list[int]], data: st.DataObject
) -> None:
    reach = dependency_sets(graph)
    culprit = data.draw(st.integers(0, len(graph) - 1))
    test = Part(reach, lambda nodes: Outcome.BAD if nodes >> culprit & 1 else Outcome.GOOD)
    for search in (first_bad_part, first_bad_part_in_order):
        test.asked.clear()
        found = search(reach, test)
        assert found.part == reach[culprit]
        assert found.suspects == 1 << culprit
        assert found.ends in ((culprit,), ())
        assert len(test.asked) <= len(graph)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 700])
@pytest.mark.parametrize("width", [1, 2, 7, 10_000])
def test_the_number_of_tests_is_logarithmic_in_chains_and_in_wide_graphs(
    count: int, width: int
) -> None:
    graph = [[node - width] if node >= width else [] for node in range(count)]
    graph.append(list(range(max(0, count - width), count)))
    reach = dependency_sets(graph)
    for culprit in {0, count // 3, count // 2, count - 1}:
        test = Part(
            reach, lambda nodes, bad=culprit: Outcome("bad" if nodes >> bad & 1 else "good")
        )
        assert first_bad_part(reach, test).part == reach[culprit]
        assert len(test.asked) <= 2.41 * log2(count + 1) + 3


@settings(deadline=None, max_examples=scaled(40))
@given(graphs(), st.data())
def test_with_several_culprits_one_is_found_first(
    graph: list[list[int]], data: st.DataObject
) -> None:
    reach = dependency_sets(graph)
    culprits = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1, max_size=4))
    bits = sum(1 << each for each in culprits)
    test = Part(reach, lambda nodes: Outcome.BAD if nodes & bits else Outcome.GOOD)
    for search in (first_bad_part, first_bad_part_in_order):
        test.asked.clear()
        found = search(reach, test)
        [culprit] = members(found.part & bits)
        assert found.part == reach[culprit]


@settings(deadline=None, max_examples=scaled(40))
@given(graphs(12), st.data())
def test_whatever_the_answers_the_part_is_the_whole_or_was_bad(
    graph: list[list[int]], data: st.DataObject
) -> None:
    reach = dependency_sets(graph)
    answers: dict[int, Outcome] = {}

    def rule(nodes: int) -> Outcome:
        if nodes not in answers:
            answers[nodes] = data.draw(st.sampled_from(Outcome))
        return answers[nodes]

    for search in (first_bad_part, first_bad_part_in_order):
        test = Part(reach, rule)
        found = search(reach, test)
        if not found.ends:
            assert found.part == (1 << len(graph)) - 1
        else:
            assert answers[found.part] is Outcome.BAD
            assert found.part == test.nodes(found.ends)
        assert found.suspects & ~found.part == 0


@settings(deadline=None, max_examples=scaled(40))
@given(graphs(12), st.data())
def test_in_order_every_smaller_part_of_one_node_was_tried(
    graph: list[list[int]], data: st.DataObject
) -> None:
    reach = dependency_sets(graph)
    answers = [data.draw(st.sampled_from(Outcome)) for _ in graph]
    found = first_bad_part_in_order(reach, lambda ends: answers[ends[0]])
    for node in members(found.part):
        if reach[node] != found.part and found.ends:
            assert answers[node] is not Outcome.BAD


def test_a_failure_that_takes_two_branches_keeps_both() -> None:
    reach = dependency_sets([[], [], [0], [1], [2, 3]])
    test = Part(reach, lambda nodes: Outcome("bad" if nodes & 0b1100 == 0b1100 else "good"))
    assert first_bad_part(reach, test).part == 0b11111 or first_bad_part(reach, test).part == 0b1111
