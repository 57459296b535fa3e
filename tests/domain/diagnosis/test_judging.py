"""What rounding explains, and what it does not; which nodes a fused one stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.diagnosis import judging
from polygraphy.domain.diagnosis.judging import deviation, moved, spread
from polygraphy.domain.diagnosis.regions import (
    GraphNode,
    around,
    read_by_region,
    region_before,
    replaced_nodes,
)
from polygraphy.domain.search.subsets import healing_alone, healing_passes

ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_are_moved_by_an_ulp_do_not_deviate(dtype: type, seed: int) -> None:
    array = np.random.default_rng(seed).normal(size=(5, 7)).astype(dtype)
    assert not deviation(moved(array, seed), array)
    assert (moved(array, seed) != array).any()
    assert deviation(array * dtype(1.1), array)


@pytest.mark.parametrize("shape", [(), (1,), (7, 5), (2, 3, 4)])
@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_in_how_many_blocks_a_tensor_is_looked_at_does_not_matter(
    shape: tuple[int, ...], value: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    right = np.asarray(rng.normal(size=shape), np.float32)
    wrong = np.asarray(right + rng.normal(size=shape) * 1e-6, np.float32)
    if value is not None:
        wrong.flat[-1] = value
    noise = np.abs(rng.normal(size=shape)) * 1e-8

    def judged() -> list[Any]:
        found = deviation(wrong, right, noise)
        return [found, moved(right, 3), spread([wrong, moved(right, 3)], right)]

    found, other, wide = judged()
    monkeypatch.setattr(judging, "_BLOCK", 3)
    in_blocks = judged()
    for name in ("excess", "share", "count", "largest", "relative", "where"):
        one, another = (getattr(each, name) for each in (found, in_blocks[0]))
        assert one == pytest.approx(another, rel=1e-12)
    np.testing.assert_array_equal(in_blocks[1], other)
    np.testing.assert_array_equal(in_blocks[2], wide)


def test_one_wrong_element_is_found() -> None:
    wrong = ONES.copy()
    wrong[1, 2] = 2
    found = deviation(wrong, ONES)
    assert (found.where, found.value, found.expected, found.count) == ((1, 2), 2, 1, 1)
    assert found.share == pytest.approx(1 / 6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_deviates_where_the_reference_is_one(value: float) -> None:
    broken = np.full((2, 3), value, np.float32)
    assert np.isinf(deviation(broken, ONES).excess)
    assert np.isinf(deviation(ONES, broken).excess)
    assert not deviation(broken, broken)


def test_other_shapes_and_kinds_deviate() -> None:
    assert deviation(ONES, ONES.reshape(3, 2))
    assert deviation(ONES.astype(np.int64), ONES)
    assert deviation(np.array([1, 3]), np.array([1, 2])).where == (1,)
    assert not deviation(np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_noise_explains_what_it_covers() -> None:
    noisy = spread([ONES * np.float32(1.001)], ONES)
    assert not deviation(ONES * np.float32(1.01), ONES, noisy)
    assert deviation(ONES * np.float32(1.2), ONES, noisy)


NAMES = [f"pass{number}" for number in range(30)]


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_the_passes_that_heal_together_are_found(guilty: set[str]) -> None:
    tried = []

    def heals(without: object) -> bool:
        tried.append(without)
        return guilty <= set(without)  # type: ignore[call-overload]

    assert set(healing_passes(NAMES, heals)) == guilty
    assert len(tried) < 150
    alone = healing_alone(NAMES, heals)
    assert alone == (sorted(guilty) if len(guilty) == 1 else [])


def test_nothing_heals_what_no_pass_does() -> None:
    assert healing_passes(NAMES, lambda without: False) == []
    assert healing_passes([], lambda without: True) == []


def chain(*ops: str) -> list[GraphNode]:
    return [
        GraphNode(f"n{at}", op, [f"t{at}"], [f"t{at + 1}"], settings=op)
        for at, op in enumerate(ops)
    ]


def test_a_region_goes_back_to_the_tensors_that_survive() -> None:
    nodes = chain("Conv", "Pad", "MaxPool", "Relu")
    assert region_before(nodes, "t3", {"t0", "t1"}) == [1, 2]
    assert region_before(nodes, "t3", {"t0", "t1", "t2"}) == [2]


def test_a_node_that_is_still_there_took_no_part() -> None:
    nodes = chain("Conv", "Cast", "Cast", "Relu")
    executed = [nodes[0], GraphNode("n3", "Relu", ["t1"], ["t4"], settings="Relu")]
    assert replaced_nodes(nodes, [1, 2, 3], executed, "t4") == [1, 2]
    fused = [nodes[0], GraphNode("f", "FusedRelu", ["t1"], ["t4"])]
    assert replaced_nodes(nodes, [1, 2, 3], fused, "t4") == [1, 2, 3]


def test_a_node_whose_output_was_only_renamed_took_no_part() -> None:
    """As before a quantisation that is moved up."""
    nodes = [GraphNode("g", "Gemm", ["t0"], ["t1"]), *chain("A", "B", "C")[1:]]
    moved_up = [GraphNode("g", "Gemm", ["t0"], ["t1/q"], "alpha"), GraphNode("f", "F", [], ["t3"])]
    assert replaced_nodes(nodes, [0, 1, 2], moved_up, "t3") == [1, 2]
    other = [GraphNode("g", "Gemm", ["t9"], ["t1/q"]), *moved_up[1:]]
    assert replaced_nodes(nodes, [0, 1, 2], other, "t3") == [0, 1, 2]


def test_a_copy_is_read_instead_of_what_survives() -> None:
    executed = [
        GraphNode("a", "A", ["t0"], ["t1"]),
        GraphNode("copy", "B", ["t1"], ["t2/copy"]),
        GraphNode("b", "B", ["t1"], ["t2"]),
        GraphNode("c", "C", ["t2/copy"], ["t3"]),
    ]
    assert read_by_region(executed, "t3", {"t0", "t1", "t2"}) == {"t1"}


def test_what_lies_between_two_nodes_is_taken_with_them() -> None:
    nodes = [*chain("A", "B", "C", "D"), GraphNode("join", "Add", ["t1", "t4"], ["y"])]
    assert around(nodes, [0], 1) == [0, 1, 2, 3, 4]
    assert around(nodes, [2], 1) == [1, 2, 3]
