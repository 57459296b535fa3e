"""What rounding explains of a difference, and what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain import part_limits
from polygraphy.domain import rounding as judging
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.rounding import (
    Deviation,
    Rounding,
    deviation,
    move_by_epsilons,
    rounding_between_runs,
    spread,
)
from polygraphy.domain.tensors.precision import precision_of

ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_are_moved_by_an_ulp_do_not_deviate(dtype: type, seed: int) -> None:
    array = np.random.default_rng(seed).normal(size=(5, 7)).astype(dtype)
    assert not deviation(move_by_epsilons(array, seed), array).is_wrong
    assert (move_by_epsilons(array, seed) != array).any()
    assert deviation(array * dtype(1.1), array).is_wrong


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
        return [
            found,
            move_by_epsilons(right, 3),
            spread([wrong, move_by_epsilons(right, 3)], right),
        ]

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
    assert not deviation(broken, broken).is_wrong


def test_other_shapes_and_kinds_deviate() -> None:
    assert deviation(ONES, ONES.reshape(3, 2)).is_wrong
    assert deviation(ONES.astype(np.int64), ONES).is_wrong
    assert deviation(np.array([1, 3]), np.array([1, 2])).where == (1,)
    assert not deviation(np.zeros(0, np.float32), np.zeros(0, np.float32)).is_wrong


def test_noise_explains_what_it_covers() -> None:
    noisy = spread([ONES * np.float32(1.001)], ONES)
    assert not deviation(ONES * np.float32(1.01), ONES, noisy).is_wrong
    assert deviation(ONES * np.float32(1.2), ONES, noisy).is_wrong


def half(array: Any, **kind: bool) -> Rounding:
    known = precision_of("float16")
    assert known is not None
    size = float(np.sqrt(np.mean(np.square(np.asarray(array, np.float64)))))
    return Rounding.of(known, size, "", **kind)


def test_errors_are_measured_against_the_size_of_an_output() -> None:
    large, small = np.array([100.0, 0.0]), np.array([1e-9, -1e-9])
    assert not deviation(np.array([100.0, 0.5]), large, rounding=half(large)).is_wrong
    assert deviation(np.zeros(2, np.float32), np.float32(small)).is_wrong
    assert deviation(np.float32([5e-8, 0]), np.float32([1e-8, 1e-8])).is_wrong
    assert not deviation(np.float32([5e-8, 0]), np.float32([1e-8, 1e-8]), is_bounded=True).is_wrong
    assert deviation(
        np.array([100.0, 0.5]), large, rounding=Rounding("float16", 0.01, 0.1, "")
    ).is_wrong


def test_few_whole_numbers_may_change_in_a_coarse_type_alone() -> None:
    classes = np.arange(1000)
    other = np.where(classes == 7, 8, classes)
    assert not deviation(other, classes, rounding=half(1.0)).is_wrong
    assert deviation(other, classes).is_wrong
    assert deviation(classes + 1, classes, rounding=half(1.0)).is_wrong
    assert deviation(np.array([3]), np.array([0]), rounding=half(1.0)).is_wrong


@pytest.mark.parametrize("made", [list, tuple])
def test_sequences_and_maps_are_judged_by_their_members(made: type) -> None:
    right = made([{"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5}])
    near = made([{"a": 0.25 + 2e-7, "b": 0.75}, {"a": 0.5, "b": 0.5 - 2e-7}])
    far = made([{"a": 0.25 + 2e-4, "b": 0.75}, {"a": 0.5, "b": 0.5}])
    assert not deviation(near, right).is_wrong
    assert deviation(far, right).is_wrong
    assert not deviation(far, right, rounding=half(1.0)).is_wrong
    assert deviation(made([{"a": 0.25}]), right).is_wrong
    assert deviation(made([{"a": 0.25, "c": 0.75}, {"a": 0.5, "b": 0.5}]), right).is_wrong
    unequal = made([ONES, ONES[0]])
    assert not deviation(
        made([move_by_epsilons(ONES, 1), move_by_epsilons(ONES[0], 2)]), unequal
    ).is_wrong
    assert deviation(made([ONES, ONES[0] * 2]), unequal).is_wrong
    assert deviation(made(["a", "b"]), made(["a", "c"])).is_wrong
    assert deviation(ONES, [ONES]).is_wrong


def test_rows_that_are_as_good_may_change_places_and_no_others() -> None:
    rng = np.random.default_rng(1)
    boxes = np.float32(rng.uniform(0, 100, (1, 64, 4)))
    swapped = boxes.copy()
    swapped[0, [3, 9]] = boxes[0, [9, 3]]
    assert deviation(swapped, boxes).is_wrong
    assert not deviation(swapped, boxes, is_sorted=True).is_wrong
    assert deviation(
        boxes[:, ::-1], boxes, is_sorted=True
    ).is_wrong  # In float32 few are nearly as good.
    assert not deviation(
        boxes[:, ::-1] * 1.001, boxes, rounding=half(boxes), is_sorted=True
    ).is_wrong
    wrong = swapped.copy()
    wrong[0, 9, 2] += 1
    found = deviation(wrong, boxes, is_sorted=True)
    assert found.is_wrong and found.count == 1


def test_what_adds_up_along_the_model_is_explained_up_to_a_limit() -> None:
    usual = half([1.0])
    assert usual.with_accumulation(0.5) == usual
    assert usual.with_accumulation(2).atol == pytest.approx(
        2 * judging.BESIDE * usual.atol, rel=1e-2
    )
    assert usual.with_accumulation(1e6).rtol == pytest.approx(judging.MOST * usual.rtol, rel=1e-2)
    assert usual.with_accumulation(np.inf) == usual
    fine = judging.rounding_between((ONES, ONES))
    assert fine is not None
    assert fine.with_accumulation(1e6).atol == pytest.approx(judging.LARGE, rel=1e-2)


@pytest.mark.parametrize(
    ("excess", "seen", "asked"),
    [(2.0, 2.0, 2), (4.0, 3.0, 3), (6.0, 4.0, 4), (8.9, 4.0, 4), (10.0, 2.0, 2)],
)
def test_more_pairs_are_looked_at_where_one_falls_little_short(
    excess: float, seen: float, asked: int
) -> None:
    """Between the first and the others lie 2, 3 and 4 times what is explained."""
    rounding = Rounding("float32", 1e-6, 0.0, "test")

    class Made(list[Any]):
        last = 0

        def __getitem__(self, index: Any) -> Any:
            self.last = max(self.last, index)
            return super().__getitem__(index)

    made = Made({"y": np.array([1 + 1e-6 * apart])} for apart in (0, 2, 3, 4))
    assert rounding_between_runs(made, "y", rounding, excess) == pytest.approx(seen, rel=1e-2)
    assert made.last + 1 == asked


def test_the_error_of_an_output_in_words() -> None:
    assert str(Deviation(0.5, off=0.1, part="y")) == "'y' has an error of 0.1, 50% of the tolerance"
    assert str(Deviation(0, part="y")) == "'y' matches exactly"
    assert str(Deviation(2, broken=1, part="y")) == "1 element of 'y' becomes infinite or NaN"
    assert str(Deviation(2, off=0.1, part="y")) == "'y' has an error of 0.1, 2 times the tolerance"
    assert str(Deviation(np.inf, broken=3, part="y")) == "3 elements of 'y' become infinite or NaN"
    assert str(Deviation(np.inf, part="y")) == "'y' has a different shape or data type"
    few = Deviation(77.8, 0.1, 7, 64.0, part="i")
    assert str(few) == "'i' differs in 7 elements, 77.8 times what rounding explains"


@pytest.mark.parametrize(("step", "is_lost"), [(640 / 255, True), (1 / 255, False), (0.0, False)])
def test_scores_that_one_quantization_step_covers_do_not_match_even_if_all_are_low(
    step: float, is_lost: bool
) -> None:
    rng = np.random.default_rng(4)
    boxes, scores = rng.uniform(20, 640, (1, 4, 64)), rng.uniform(0, 0.03, (1, 2, 64))
    right = np.concatenate([boxes, scores], 1).astype(np.float32)
    low = np.rint(scores / step) * step if step else scores
    quantized = np.concatenate([np.rint(boxes / 2.5) * 2.5, low], 1).astype(np.float32)
    arrays = quantized, right
    rounding = judging.rounding_between(arrays, ("int8", "float32"), name="y", layout=None)
    assert (deviation(*arrays, rounding=rounding).excess > 1) == is_lost
    assert judging.has_lost_part("y", arrays, None) == is_lost


def test_maps_of_classes_are_compared_number_by_number() -> None:
    """ZipMap computes them from the scores of a classifier."""
    right = [{0: 0.25, 1: 0.75}, {0: 0.5, 1: 0.5}]
    near = [{key: score * (1 + 1e-7) for key, score in row.items()} for row in right]
    far = [{0: 0.25, 1: 0.75}, {0: 0.4, 1: 0.6}]
    compare = SimpleCompareFunc(rtol="auto", atol="auto")
    for scores, expected in ((near, True), (far, False)):
        sides = [IterationResult({"y": each}, runner_name="a") for each in (scores, right)]
        assert bool(compare(*sides)["y"]) == expected


def test_the_size_of_a_tensor_that_is_equal_is_measured_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[Any] = []
    for module in (judging, part_limits):
        monkeypatch.setattr(
            module, "root_mean_square", lambda values, **_: measured.append(values) or 1.0
        )
    assert not deviation(ONES, ONES).is_wrong
    assert len(measured) == 1
