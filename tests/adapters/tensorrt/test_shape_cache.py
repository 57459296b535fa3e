"""Which keys are held, for any order of uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.runtime.contexts import ShapeCache

KEYS = st.lists(st.integers(0, 12), max_size=300)


class Owner:
    """Does what the owner of a cache does."""

    def __init__(self, capacity: int) -> None:
        self.held: set[object] = set()
        self.admitted = 0
        self.cache = ShapeCache(capacity, self.held.remove)

    def admits(self, key: int) -> bool:
        is_held = self.cache.admits(key)
        if is_held and key not in self.held:
            self.held.add(key)
            self.admitted += 1
        return is_held


@given(KEYS, st.integers(1, 5))
def test_the_capacity_is_kept_and_what_is_held_is_known(keys: list[int], capacity: int) -> None:
    owner = Owner(capacity)
    for key in keys:
        assert owner.admits(key) is (key in owner.held)
        assert len(owner.held) <= capacity


@given(st.permutations(range(4)))
def test_a_few_that_take_turns_are_all_held_from_the_second_use(order: list[int]) -> None:
    owner = Owner(4)
    assert not any(owner.admits(key) for key in order)
    assert all(owner.admits(key) for key in order * 50)
    assert owner.admitted == 4


@pytest.mark.parametrize("count", [5, 9, 40, 200])
def test_more_keys_than_fit_do_not_evict_each_other(count: int) -> None:
    owner = Owner(4)
    for _ in range(100):
        for key in range(count):
            owner.admits(key)
    assert owner.admitted <= 8


def test_what_is_used_no_more_is_evicted() -> None:
    owner = Owner(2)
    for key in (0, 1) * 1000:
        owner.admits(key)
    answers = [owner.admits(key) for key in (2, 3) * 500]
    assert all(answers[-100:])


def test_what_is_used_once_is_forgotten() -> None:
    owner = Owner(2)
    for key in range(10_000):
        assert not owner.admits(key)
    assert len(owner.cache._uses) <= 128
