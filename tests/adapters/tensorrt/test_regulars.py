"""Who is given a place, for any order of visitors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.runtime.regulars import Regulars

VISITORS = st.lists(st.integers(0, 12), max_size=300)


class Seats:
    """Does what the owner of places does."""

    def __init__(self, places: int) -> None:
        self.taken: set[object] = set()
        self.moves = 0
        self.regulars = Regulars(places, self.taken.remove)

    def came(self, visitor: int) -> bool:
        has_place = self.regulars.came(visitor)
        if has_place and visitor not in self.taken:
            self.taken.add(visitor)
            self.moves += 1
        return has_place


@given(VISITORS, st.integers(1, 5))
def test_places_are_bounded_and_reported_as_they_are(visitors: list[int], places: int) -> None:
    seats = Seats(places)
    for visitor in visitors:
        assert seats.came(visitor) is (visitor in seats.taken)
        assert len(seats.taken) <= places


@given(st.permutations(range(4)))
def test_a_few_that_take_turns_all_have_a_place_from_the_second_visit(order: list[int]) -> None:
    seats = Seats(4)
    assert not any(seats.came(visitor) for visitor in order)
    assert all(seats.came(visitor) for visitor in order * 50)
    assert seats.moves == 4


@pytest.mark.parametrize("count", [5, 9, 40, 200])
def test_more_than_there_are_places_do_not_turn_each_other_out(count: int) -> None:
    seats = Seats(4)
    for _ in range(100):
        for visitor in range(count):
            seats.came(visitor)
    assert seats.moves <= 8


def test_who_comes_no_more_yields_to_who_does() -> None:
    seats = Seats(2)
    for visitor in (0, 1) * 1000:
        seats.came(visitor)
    answers = [seats.came(visitor) for visitor in (2, 3) * 500]
    assert all(answers[-100:])


def test_those_who_come_once_are_forgotten() -> None:
    seats = Seats(2)
    for visitor in range(10_000):
        assert not seats.came(visitor)
    assert len(seats.regulars._visits) <= 128
