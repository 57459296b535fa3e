from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain.compare import SimpleCompareFunc, UncomparedResult
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.rounding import rounding_between
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.parts import Layout

AUTO = {"rtol": "auto", "atol": "auto"}


def run(array: Any, computed_in: str | None = None) -> IterationResult:
    facts = ModelFacts({"": computed_in} if computed_in else {})
    return IterationResult({"y": np.asarray(array)}, runner_name="a", facts=facts)


def compare(first: IterationResult, second: IterationResult, **settings: Any) -> Any:
    return SimpleCompareFunc(**(settings or AUTO))(first, second)["y"]


VALUES = np.linspace(1, 2, 64, dtype=np.float32)


def test_the_reported_data_type_decides_not_that_of_the_output() -> None:
    off = VALUES * np.float32(1.005)
    assert not compare(run(off), run(VALUES))
    passed = compare(run(off, "float16"), run(VALUES))
    assert passed
    assert "float16, in which it was computed" in passed.thresholds.reason
    assert passed.thresholds.rtol == pytest.approx(16 * 2.0**-10, rel=5e-3)
    assert compare(run(off), run(VALUES, "tf32"))


def test_without_a_report_it_is_the_data_type_of_the_output_and_it_says_so() -> None:
    result = compare(run(VALUES), run(VALUES, "float32"))
    assert "because the type of the computation is unknown" in result.thresholds.reason
    half = compare(run(VALUES.astype("f2"), "float32"), run(VALUES, "float32"))
    assert half.thresholds.rtol == pytest.approx(16 * 2.0**-10, rel=5e-3)


def test_the_absolute_tolerance_follows_the_magnitude_of_the_reference() -> None:
    small, large = (compare(run(VALUES), run(VALUES * scale)) for scale in (1, 1000))
    assert large.thresholds.atol == pytest.approx(1000 * small.thresholds.atol, rel=1e-2)


def test_integers_are_compared_exactly() -> None:
    whole = np.array([1, 2, 3])
    assert compare(run(whole, "float16"), run(whole, "float16"))
    result = compare(run(whole, "float16"), run(whole + 1, "float16"))
    assert not result
    assert (result.thresholds.rtol, result.thresholds.atol) == (0, 0)


def test_one_of_the_two_may_be_a_number_and_outputs_may_differ() -> None:
    function = SimpleCompareFunc(rtol={"": 0.5, "y": "auto"}, atol=0.25)
    result: Any = function(run(VALUES), run(VALUES))["y"]
    assert result.thresholds.atol == 0.25
    assert result.thresholds.rtol < 1e-5
    assert function.tolerance_for("z").rtol == 0.5
    with pytest.raises(UsageError, match="depends on its values"):
        function.thresholds_for("y")


@pytest.mark.parametrize("word", ["sloppy", "Auto", ""])
def test_other_words_are_no_tolerance(word: str) -> None:
    with pytest.raises(UsageError, match="A tolerance must be a number"):
        SimpleCompareFunc(rtol=word)


def test_what_has_no_precision_needs_a_tolerance() -> None:
    result = compare(run(np.array([1 + 2j])), run(np.array([1 + 2j])))
    assert isinstance(result, UncomparedResult)
    assert "set its tolerance" in result.reason


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("factor", "explained"), [(1.005, True), (1.5, False)])
def test_a_failure_knows_what_rounding_explains(
    factor: float, explained: bool, settled: bool
) -> None:
    off = VALUES * np.float32(factor)
    result = compare(run(off, "float16"), run(VALUES, "float16"), rtol=1e-5)
    assert not result
    if settled:
        result.settle()
    assert result.rounding.dtype == "float16"
    assert result.is_rounding is explained


def test_the_mean_may_be_explained_where_the_largest_difference_is_not() -> None:
    off = VALUES.copy()
    off[0] += 0.5
    one = compare(run(off, "float16"), run(VALUES), rtol=1e-5, check_error_stat="mean")
    assert not one
    assert one.is_rounding
    assert not compare(run(off, "float16"), run(VALUES), rtol=1e-5).is_rounding


@pytest.mark.parametrize("filled", [False, True])
def test_equal_nan_in_a_part_is_not_called_rounding(filled: bool) -> None:
    expected = np.stack([VALUES, VALUES * np.float32(1e6)], axis=-1)
    expected[0, 0] = np.nan if filled else 1
    result = compare(run(expected * np.float32(1 + 3e-7)), run(expected), rtol=1e-9)
    assert not result
    assert result.rounding.parts
    assert result.is_rounding is not filled


def test_steps_of_a_quantized_type_are_measured_in_the_output_and_not_in_ones() -> None:
    small = np.full(8, 0.01, np.float32)
    made = rounding_between((small, small), ("int8", "int8"))
    assert made is not None
    assert made.atol == pytest.approx(0.125 * 0.01)


def test_what_only_one_side_makes_zero_is_lost() -> None:
    tiny = np.full(8, 1e-9, np.float32)
    narrow = rounding_between((tiny, tiny), ("float16", "float16"))
    mixed = rounding_between((tiny, tiny), ("float16", "float32"))
    unknown = rounding_between((tiny, tiny), ("float16", None))
    assert narrow and mixed and unknown
    assert mixed.atol < 1e-9 < narrow.atol == unknown.atol


@pytest.mark.parametrize(("others", "passes"), [(1, True), (4, False)])
def test_a_coarse_type_decides_otherwise_between_a_few_whole_numbers(
    others: int, passes: bool
) -> None:
    right = np.arange(200)
    off = right.copy()
    off[:others] += 1
    assert bool(compare(run(off, "float16"), run(right, "float32"))) is passes


def test_rows_in_the_order_of_a_score_may_change_places() -> None:
    right = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    off = right.copy()
    off[[3, 4]] = right[[4, 3]]
    for ordered in ((), ("y",)):
        facts = ModelFacts({"y": "float32"}, ordered=ordered)
        first, second = (IterationResult({"y": made}, facts=facts) for made in (off, right))
        assert bool(compare(first, second)) is bool(ordered)


def test_exchanged_columns_of_ordered_rows_differ() -> None:
    """Boxes whose left and right ends changed places are not rows of nearly equal scores."""
    right = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    facts = ModelFacts({"y": "float32"}, ordered=("y",))
    made = (right[:, [2, 1, 0, 3]], right)
    first, second = (IterationResult({"y": array}, facts=facts) for array in made)
    assert not compare(first, second)


@pytest.mark.parametrize(("error", "passes"), [(0.0, True), (5e-4, False)])
def test_a_part_of_ordered_rows_is_judged_by_its_own_size(error: float, passes: bool) -> None:
    """Scores beside boxes in pixels, in two rows that changed places."""
    rng = np.random.default_rng(0)
    boxes, scores = rng.uniform(100, 600, (40, 4)), rng.uniform(0.5, 1, (40, 1))
    right = np.concatenate([boxes, scores], 1).astype(np.float32)
    off = right.copy()
    off[[3, 4]] = right[[4, 3]]
    off[7, 4] += error
    leaves = (Layout(name="boxes"), Layout(name="scores", is_bounded=True))
    layout = Layout("join", operands=leaves, numbers=(1,), shape=(4, 1))
    facts = ModelFacts({"y": "float32"}, ordered=("y",), layouts={"y": layout})
    first, second = (IterationResult({"y": array}, facts=facts) for array in (off, right))
    assert bool(compare(first, second)) is passes


def test_sequences_of_unequal_tensors_are_compared_member_by_member() -> None:
    right = [np.ones(3, np.float32), np.ones((2, 2), np.float32)]
    for off, passes in ((0.0, True), (1.0, False)):
        value = [right[0], right[1] + np.float32(off)]
        first, second = (IterationResult({"y": made}) for made in (value, right))
        assert bool(compare(first, second)) is passes
