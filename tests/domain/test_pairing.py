from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tensors.pairing import OutputPair, find_by_name, pair_outputs
from tests.domain.strategies import names

name_lists = st.lists(names, unique=True, max_size=6)


@given(name_lists, name_lists)
def test_every_output_appears_exactly_once(first: list[str], second: list[str]) -> None:
    pairs = pair_outputs(first, second)
    assert sorted(pair.name0 for pair in pairs if pair.name0 is not None) == sorted(first)
    assert sorted(pair.name1 for pair in pairs if pair.name1 is not None) == sorted(second)


@given(name_lists, name_lists)
def test_exact_names_are_always_paired(first: list[str], second: list[str]) -> None:
    exact = {pair.name0 for pair in pair_outputs(first, second) if pair.is_exact}
    assert exact == set(first) & set(second)


@given(name_lists)
def test_the_same_outputs_are_paired_with_themselves(outputs: list[str]) -> None:
    shuffled = outputs[::-1]
    assert pair_outputs(outputs, shuffled) == [OutputPair(name, name) for name in outputs]


@given(name_lists, name_lists)
def test_pairs_come_in_order_and_leftovers_last(first: list[str], second: list[str]) -> None:
    pairs = pair_outputs(first, second)
    complete = [pair for pair in pairs if pair.is_complete]
    left = [pair for pair in pairs if pair.name1 is None]
    right = [pair for pair in pairs if pair.name0 is None]
    assert pairs == complete + left + right
    for group, order in ((complete, first), (left, first)):
        assert [p.name0 for p in group] == [n for n in order if n in {p.name0 for p in group}]
    assert [p.name1 for p in right] == [n for n in second if n in {p.name1 for p in right}]


@given(name_lists, name_lists)
def test_nothing_is_left_over_at_one_position_of_both(first: list[str], second: list[str]) -> None:
    pairs = pair_outputs(first, second)
    left = {first.index(pair.name0) for pair in pairs if pair.name1 is None and pair.name0}
    right = {second.index(pair.name1) for pair in pairs if pair.name0 is None and pair.name1}
    assert not left & right


@given(names, names)
def test_one_output_of_each_run_is_always_paired(one: str, other: str) -> None:
    assert pair_outputs([one], [other]) == [OutputPair(one, other)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([], [], []),
        (["y"], [], [("y", None)]),
        ([], ["y"], [(None, "y")]),
        (["a"], ["b"], [("a", "b")]),
        (["out"], ["aux", "my_OUT_0"], [("out", "my_OUT_0"), (None, "aux")]),
        (["my_out_0", "aux"], ["Out", "x"], [("my_out_0", "Out"), ("aux", "x")]),
        (["a", "b"], ["b", "c"], [("b", "b"), ("a", None), (None, "c")]),
        (["a", "b"], ["c", "b"], [("a", "c"), ("b", "b")]),
        (["a", "b"], ["c"], [("a", "c"), ("b", None)]),
        (["out", "out_1"], ["out_1_x", "p"], [("out", "out_1_x"), ("out_1", "p")]),
        (["x", "out", "out_1"], ["out_1"], [("out_1", "out_1"), ("x", None), ("out", None)]),
        (["out"], ["out_0", "out_1"], [("out", "out_0"), (None, "out_1")]),
    ],
)
def test_examples(
    first: list[str], second: list[str], expected: list[tuple[str | None, str | None]]
) -> None:
    assert pair_outputs(first, second) == [OutputPair(*pair) for pair in expected]


@given(names, name_lists, st.one_of(st.none(), st.integers(-2, 8)))
def test_what_is_found_is_there(name: str, among: list[str], index: int | None) -> None:
    found = find_by_name(name, among, index)
    assert found is None or found in among
    if name in among:
        assert found == name


@pytest.mark.parametrize(
    ("name", "among", "index", "expected"),
    [
        ("x", ["X"], None, "X"),
        ("data", ["input.data", "mask"], None, "input.data"),
        ("input.data", ["mask", "Data"], None, "Data"),
        ("x", ["x1", "x2"], None, None),
        ("x", ["x1", "x2"], 1, "x2"),
        ("x", ["x1", "x2"], 2, None),
        ("x", ["x1", "x2"], -1, None),
        ("x", ["a", "b"], 0, "a"),
        ("x", ["a", "b"], None, None),
        ("x", [], 0, None),
    ],
)
def test_the_partner_that_is_found(
    name: str, among: list[str], index: int | None, expected: str | None
) -> None:
    assert find_by_name(name, among, index) == expected


def test_pairs_know_what_they_are() -> None:
    assert OutputPair("a", "a").is_exact
    assert OutputPair("a", "b").is_complete
    assert not OutputPair("a", "b").is_exact
    assert not OutputPair("a", None).is_complete
    assert not OutputPair(None, "a").is_complete
    assert hash(OutputPair("a", "b")) == hash(OutputPair("a", "b"))
