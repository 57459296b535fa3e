"""Tensors of a model are found in the program that it was exported from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.diagnosis.exported import (
    Fingerprint,
    arrangements,
    fingerprint_of,
    layout_of,
    nearest_origin,
    operations,
    same_tensors,
    same_weight,
    stack_weights,
    tensors_without_counterpart,
    weight_relation,
)
from polygraphy.domain.diagnosis.words import program_evidence
from polygraphy.domain.model.graph import Node, Origin
from tests.support.examples import scaled


def prints(**arrays: np.ndarray) -> dict[str, Fingerprint]:
    found = {name: fingerprint_of(array) for name, array in arrays.items()}
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
    def nodes(**reads: str) -> list[Node]:
        return [Node(name, "op", "", tuple(each.split()), (name,)) for name, each in reads.items()]

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


def chain(*ops: str) -> list[Node]:
    return [
        Node(
            f"n{index}",
            op,
            inputs=(f"t{index}",),
            outputs=(f"t{index + 1}",),
            origin=Origin("net.py", index) if index else None,
        )
        for index, op in enumerate(ops)
    ]


def test_where_they_part_nothing_behind_has_a_counterpart() -> None:
    assert tensors_without_counterpart(chain("A", "B", "C"), {"t2"}) == ["t3"]
    assert tensors_without_counterpart(chain("A", "B", "C"), set()) == ["t1", "t2", "t3"]


def test_operations_go_back_to_what_has_a_counterpart() -> None:
    nodes = chain("conv", "norm", "getitem")
    assert [node.op for node in operations(nodes, "t3", {"t1"})] == ["getitem", "norm"]
    assert [node.op for node in operations(nodes, "t3", set())] == ["getitem", "norm", "conv"]


def test_the_nearest_line_is_told_where_the_own_is_lost() -> None:
    nodes = chain("conv", "norm")
    assert nearest_origin(nodes, nodes[1]) == "net.py:1"
    assert nearest_origin(nodes, nodes[0]) == "near net.py:1, of norm"


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
    assert same_weight(weight[::-1], weight, in_any_order=True)
    assert not same_weight(weight * 1.01, weight)


@given(st.permutations(range(4)), st.lists(st.integers(1, 3), min_size=4, max_size=4))
@settings(max_examples=scaled(60))
def test_a_weight_is_tried_with_its_axes_in_every_order_that_fits(
    order: list[int], shape: list[int]
) -> None:
    weight = drawn(6, *shape)
    turned = weight.transpose(order)
    made = [*arrangements(weight, turned.shape)]
    assert {each.shape for each in made} == {turned.shape}
    assert any((each == turned).all() for each in made)


def test_a_weight_of_another_size_is_not_tried() -> None:
    assert not [*arrangements(drawn(6, 2, 3), (2, 4))]
    assert [each.shape for each in arrangements(drawn(6, 2, 3), (6,))] == [(6,)]


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("op", "order"), [("LSTM", "iofc"), ("GRU", "zrh"), ("RNN", "i")])
def test_gates_biases_and_directions_are_stacked_as_in_onnx(
    op: str, order: str, biased: bool, directions: int
) -> None:
    torch = {"LSTM": "ifco", "GRU": "rzh", "RNN": "i"}[op]  # PyTorch calls c "g", and h "n".
    layers, size = 2, 3

    def weight(kind: int, cell: int, letters: str, *shape: int) -> np.ndarray:
        return np.concatenate(
            [np.full((size, *shape), 100 * cell + 10 * kind + ord(each)) for each in letters]
        ).astype(np.float32)

    shapes: list[tuple[int, ...]] = [(4,), (3,), *([(), ()] if biased else [])]
    weights = {
        f"{cell}/{kind}": weight(kind, cell, torch, *shape)
        for cell in range(layers * directions)
        for kind, shape in enumerate(shapes)
    }
    for layer in range(layers):
        cells = range(layer * directions, (layer + 1) * directions)
        for kind, shape in enumerate(shapes[:2]):
            right = np.stack([weight(kind, cell, order, *shape) for cell in cells])
            made = [*stack_weights(weights, op, right.shape)]
            names = [f"{cell}/{kind}" for cell in cells]
            assert any(own == names and (each == right).all() for own, each in made)
        right = np.stack(
            [np.concatenate([weight(kind, cell, order) for kind in (2, 3)]) for cell in cells]
        )
        made = [*stack_weights(weights, op, right.shape)]
        assert any((each == right).all() for _, each in made) == biased


def test_what_a_weight_is_of_another_is_said() -> None:
    weight = drawn(7, 3, 3)
    assert weight_relation(weight.T, weight) == program_evidence.transposition()
    assert weight_relation(weight[::-1], weight) == program_evidence.axis_reversal(0)
    assert str(weight_relation(weight * np.float32(-0.5), weight)) == "scaled by -0.5"
    assert (
        weight_relation(drawn(8, 3, 3), weight) is weight_relation(drawn(7, 3, 2), weight) is None
    )
    kernel = drawn(9, 2, 2, 3, 3)
    assert weight_relation(kernel.swapaxes(2, 3), kernel) == program_evidence.other_axis_order(
        (0, 1, 3, 2)
    )
