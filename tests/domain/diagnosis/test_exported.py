"""Tensors of a model are found in the program that it was exported from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.diagnosis.exported import (
    Print,
    layout_of,
    near,
    operations,
    print_of,
    same_tensors,
    same_weight,
    without_counterpart,
)
from polygraphy.domain.diagnosis.regions import GraphNode
from tests.support.examples import scaled


def prints(**arrays: np.ndarray) -> dict[str, Print]:
    found = {name: print_of(array) for name, array in arrays.items()}
    return {name: each for name, each in found.items() if each is not None}


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@settings(max_examples=scaled(40))
@given(st.permutations(range(6)), st.integers(0, 1000))
def test_tensors_are_found_by_value_whatever_they_are_called(order: list[int], seed: int) -> None:
    arrays = {f"t{index}": drawn(seed + index, 3, 4) for index in range(6)}
    names = [f"t{index}" for index in order]
    theirs = prints(**{f"p{name}": arrays[name] for name in names})
    mine = prints(**{name: array * np.float32(1 + 1e-6) for name, array in arrays.items()})
    assert same_tensors(mine, theirs, {}, {}) == {name: f"p{name}" for name in mine}


def test_of_equal_tensors_the_recorded_or_the_next_in_order_is_taken() -> None:
    one, two = drawn(1, 4), drawn(2, 4)
    theirs = prints(first=one, middle=two, second=one)
    mine = prints(a=one, b=two, c=one)
    assert same_tensors(mine, theirs, {}, {}) == {"a": "first", "b": "middle", "c": "second"}
    assert same_tensors(mine, theirs, {"a": "second"}, {})["a"] == "second"


def test_equal_tensors_are_told_apart_by_what_is_around_them() -> None:
    def nodes(**reads: str) -> list[GraphNode]:
        return [GraphNode(name, "op", each.split(), [name]) for name, each in reads.items()]

    same, one, two = drawn(1, 4), drawn(2, 4), drawn(3, 4)
    theirs = prints(first=same, second=same, one=one, two=two)
    program = nodes(first="", second="", one="first", two="second")
    for reads in ({"p": "a", "q": "b"}, {"p": "b", "q": "a"}):
        model = nodes(a="", b="", **reads)
        found = same_tensors(prints(a=same, b=same, p=one, q=two), theirs, {}, {}, (model, program))
        assert {found[reads["p"]], found[reads["q"]]} == {"first", "second"}
        assert found[reads["p"]] == "first"


def test_a_tensor_of_one_number_is_only_found_by_its_name() -> None:
    theirs, mine = prints(zeros=np.zeros(4)), prints(a=np.zeros(4), b=np.zeros(4))
    assert same_tensors(mine, theirs, {"b": "zeros"}, {}) == {"b": "zeros"}


@pytest.mark.parametrize(
    "other",
    [drawn(1, 3, 4) * 1.01, drawn(1, 4, 3), np.ones((3, 4), np.int64), np.full((3, 4), np.nan)],
)
def test_other_numbers_shapes_and_kinds_are_no_counterpart(other: np.ndarray) -> None:
    assert same_tensors(prints(a=other), prints(b=drawn(1, 3, 4)), {}, {}) == {}


def chain(*ops: str) -> list[GraphNode]:
    return [
        GraphNode(
            f"n{index}",
            op,
            [f"t{index}"],
            [f"t{index + 1}"],
            origin=f"net.py:{index}" if index else None,
        )
        for index, op in enumerate(ops)
    ]


def test_where_they_part_nothing_behind_has_a_counterpart() -> None:
    assert without_counterpart(chain("A", "B", "C"), {"t2"}) == ["t3"]
    assert without_counterpart(chain("A", "B", "C"), set()) == ["t1", "t2", "t3"]


def test_operations_go_back_to_what_has_a_counterpart() -> None:
    nodes = chain("conv", "norm", "getitem")
    assert [node.op for node in operations(nodes, "t3", {"t1"})] == ["getitem", "norm"]
    assert [node.op for node in operations(nodes, "t3", set())] == ["getitem", "norm", "conv"]


def test_the_nearest_line_is_told_where_the_own_is_lost() -> None:
    nodes = chain("conv", "norm")
    assert near(nodes, nodes[1]) == "net.py:1"
    assert near(nodes, nodes[0]) == "near net.py:1, of norm"


def test_another_order_of_axes_is_seen() -> None:
    right = drawn(3, 2, 3, 4)
    assert layout_of(right.transpose(0, 2, 1), right) == (0, 2, 1)
    assert layout_of(right, right) is None
    assert layout_of(drawn(4, 2, 4, 3), right) is None


def test_a_transposed_weight_is_the_same_and_reversed_rows_are_not() -> None:
    weight = drawn(5, 3, 4)
    assert same_weight(weight.T, weight)
    assert same_weight(weight[None], weight)
    assert not same_weight(weight[::-1], weight)
    assert same_weight(weight[::-1], weight, reordered=True)
    assert not same_weight(weight * 1.01, weight)
