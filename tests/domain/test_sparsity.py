"""2:4 sparsity, against counting by hand."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from polygraphy.domain.model import Attribute, Graph, Node, Weight
from polygraphy.domain.model.sparsity import dense_groups, prunable_weights

Array = npt.NDArray[np.generic]


def counted(array: Array, axis: int) -> int:
    """Count dense groups element by element."""
    rows = np.moveaxis(array, axis, -1).reshape(-1, 4)
    return sum(sum(float(value) != 0 for value in row) > 2 for row in rows)


@given(st.data())
def test_groups_are_counted(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    axis = data.draw(st.integers(0, rank - 1))
    shape = [data.draw(st.integers(0, 5)) for _ in range(rank)]
    shape[axis] *= 4
    dtype = data.draw(st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]))
    values = data.draw(
        arrays.arrays(np.float32, tuple(shape), elements=st.sampled_from([0.0, -0.0, 1.0, np.nan]))
    )
    array = values.astype(dtype)
    assert dense_groups(array, axis) == counted(array, axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    array = np.random.RandomState(0).randint(0, 2, (64, 72)).astype(np.float32)
    expected = counted(array, axis)
    for block in (4, 20, 64, 1 << 18):
        monkeypatch.setattr("polygraphy.domain.model.sparsity._BLOCK", block)
        assert dense_groups(array, axis) == expected


def test_every_pattern_of_four() -> None:
    for flags in product([0, 1], repeat=4):
        array = np.array(flags, np.float32)
        assert dense_groups(array, 0) == (sum(flags) > 2), flags


def weight(*shape: int, dtype: str = "float32") -> Weight:
    return Weight("w", dtype, shape)


@pytest.mark.parametrize(
    ("node", "shape", "axis"),
    [
        (Node("n", "MatMul", inputs=("x", "w")), (8, 3), 0),
        (Node("n", "MatMul", inputs=("x", "w")), (2, 8, 3), 1),
        (Node("n", "MatMul", inputs=("w", "x")), (3, 8), 1),
        (Node("n", "Conv", inputs=("x", "w")), (3, 8, 1, 1), 1),
        (Node("n", "Gemm", inputs=("x", "w")), (8, 3), 0),
        (
            Node("n", "Gemm", inputs=("x", "w"), attributes=(Attribute("transB", "int", 1),)),
            (3, 8),
            1,
        ),
    ],
)
def test_the_axis_over_which_products_sum(node: Node, shape: tuple[int, ...], axis: int) -> None:
    [found] = prunable_weights(Graph(weights=(weight(*shape),), nodes=(node,)))
    assert found.axis == axis


@pytest.mark.parametrize(
    "left_out", [weight(6, 3), weight(8, 3, dtype="int8"), weight(8), weight(0, 3)]
)
def test_other_weights_are_left_out(left_out: Weight) -> None:
    node = Node("n", "MatMul", inputs=("x", "w"))
    assert prunable_weights(Graph(weights=(left_out,), nodes=(node,))) == []


def test_a_transposed_weight_is_followed_back() -> None:
    nodes = (
        Node("c", "Cast", inputs=("w",), outputs=("c",)),
        Node(
            "t", "Transpose", inputs=("c",), outputs=("t",),
            attributes=(Attribute("perm", "ints", (1, 0)),),
        ),
        Node("m", "MatMul", inputs=("x", "t"), outputs=("y",)),
    )  # fmt: skip
    [found] = prunable_weights(Graph(weights=(weight(3, 8),), nodes=nodes))
    assert (found.axis, found.node) == (1, "m")


def test_a_cycle_of_casts_ends() -> None:
    nodes = (
        Node("a", "Cast", inputs=("b",), outputs=("a",)),
        Node("b", "Cast", inputs=("a",), outputs=("b",)),
        Node("m", "MatMul", inputs=("x", "a"), outputs=("y",)),
    )
    assert prunable_weights(Graph(nodes=nodes)) == []
