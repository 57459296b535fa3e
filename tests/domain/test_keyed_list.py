from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.errors import UnknownNameError
from polygraphy.domain.results.results import KeyedList

keys = st.sampled_from("abcd")
values = st.lists(st.integers(), max_size=3)
entries = st.lists(st.tuples(keys, values), max_size=5)
unique_entries = st.dictionaries(keys, values).map(lambda mapping: list(mapping.items()))


def by_key(pairs: list[tuple[str, list[int]]]) -> dict[str, list[int]]:
    """Return the first entry of each key."""
    return dict(reversed(pairs))


@given(entries)
def test_is_a_list_of_its_entries(pairs: list[tuple[str, list[int]]]) -> None:
    made = KeyedList(pairs)
    assert list(made) == list(made.items()) == pairs
    assert made == pairs
    assert len(made) == len(pairs)
    assert bool(made) == bool(pairs)
    assert made.keys() == [key for key, _ in pairs]
    assert made.values() == [value for _, value in pairs]


@given(entries)
def test_positions_and_slices_are_those_of_a_list(pairs: list[tuple[str, list[int]]]) -> None:
    made = KeyedList(pairs)
    for position in range(-len(pairs), len(pairs)):
        assert made[position] == pairs[position]
    assert made[1:] == pairs[1:]
    with pytest.raises(IndexError):
        made[len(pairs)]


@given(entries, keys)
def test_a_key_finds_its_first_entry(pairs: list[tuple[str, list[int]]], key: str) -> None:
    made: Any = KeyedList(pairs)
    known = by_key(pairs)
    assert (key in made) == (key in known)
    if key in known:
        assert made[key] == known[key]
        assert made.index_of(key) == made.keys().index(key)
    else:
        with pytest.raises(UnknownNameError, match=f"Key '{key}' does not exist"):
            made[key]


@given(entries, keys, values)
def test_setting_a_key_replaces_its_first_entry_or_appends(
    pairs: list[tuple[str, list[int]]], key: str, value: list[int]
) -> None:
    made: Any = KeyedList(pairs)
    others = [pair for position, pair in enumerate(pairs) if position != _first(pairs, key)]
    is_new = key not in made
    made[key] = value
    assert made[key] == value
    assert [pair for position, pair in enumerate(made) if position != _first(made, key)] == others
    assert len(made) == len(pairs) + is_new
    if is_new:
        assert made[-1] == (key, value)


def _first(pairs: list[tuple[str, list[int]]], key: str) -> int | None:
    return next((position for position, (own, _) in enumerate(pairs) if own == key), None)


@given(unique_entries, unique_entries)
def test_updating_is_that_of_a_dictionary(
    mine: list[tuple[str, list[int]]], theirs: list[tuple[str, list[int]]]
) -> None:
    expected = dict(mine)
    expected.update(theirs)
    for other in (KeyedList(theirs), dict(theirs)):
        made = KeyedList(mine)
        made.update(other)
        assert dict(made) == expected
        assert made.keys() == list(expected)


def test_setting_a_position_replaces_the_entry() -> None:
    made = KeyedList([("a", [1]), ("b", [2])])
    made[0] = ("c", [3])
    made[1:] = []
    assert made == [("c", [3])]


def test_the_lists_of_the_caller_are_left_alone() -> None:
    given_values = [1]
    made = KeyedList([("a", given_values)])
    made["b"] = given_values
    made["a"].append(2)
    made["b"].append(3)
    assert given_values == [1]
    assert made == [("a", [1, 2]), ("b", [1, 3])]


def test_an_entry_is_contained_too() -> None:
    made: Any = KeyedList([("a", [1])])
    assert ("a", [1]) in made
    assert ("a", [2]) not in made
    assert "b" not in made


def test_keys_may_be_pairs() -> None:
    made: Any = KeyedList([(("a", "b"), [1])])
    assert made["a", "b"] == [1]
    assert ("a", "b") in made
    with pytest.raises(UnknownNameError):
        made["b", "a"]


@given(entries)
def test_copies_are_equal(pairs: list[tuple[str, list[int]]]) -> None:
    made = KeyedList(pairs)
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made
        assert type(again) is KeyedList
    assert repr(made) == f"KeyedList({pairs!r})"


def test_a_misspelt_key_is_explained() -> None:
    class Tools(KeyedList[str, int]):
        key_description = "Tool"

    with pytest.raises(UnknownNameError, match=r"Tool 'hamer'.*'hammer'.*Did you mean 'hammer'"):
        Tools([("hammer", [1])])["hamer"]
