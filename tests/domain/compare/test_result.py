from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits import STATISTICS, Tolerance

FIELDS = (
    "max_absdiff", "max_reldiff", "mean_absdiff", "mean_reldiff",
    "median_absdiff", "median_reldiff", "quantile_absdiff", "quantile_reldiff",
)  # fmt: skip
DEFAULT = Tolerance()
NAMED = [statistic for statistic in STATISTICS if statistic != "elemwise"]

TENSORS = ComparedTensor("a", "float64", (2,)), ComparedTensor("b", "float64", (2,))


def judge(
    value: Any, reference: Any, tolerance: Tolerance = DEFAULT, quantile: float = 0.99
) -> OutputCompareResult:
    arrays = np.asarray(value), np.asarray(reference)
    tensors = ComparedTensor.of("a", arrays[0]), ComparedTensor.of("b", arrays[1])
    return OutputCompareResult.of(tensors, arrays, tolerance, quantile)


pairs = hnp.array_shapes(max_dims=2, max_side=4).flatmap(
    lambda shape: st.tuples(
        *(hnp.arrays(np.float32, shape, elements=st.floats(-9, 9, width=32)) for _ in range(2))
    )
)
limits = st.floats(0, 2)


class Counting(Difference):
    """A difference that counts which of its metrics are asked for."""

    def __init__(self, value: Any, reference: Any) -> None:
        super().__init__(value, reference)
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.endswith(("_abs", "_rel")) or name == "mismatches":
            self.asked.append(name)
        return super().__getattribute__(name)


# Metrics.


@given(pairs)
def test_metrics_are_those_of_numpy(arrays: Any) -> None:
    value, reference = (array.astype(np.float64) for array in arrays)
    found = judge(*arrays).metric_values()
    absolute = np.abs(value - reference)
    assert found["max_absdiff"] == pytest.approx(absolute.max())
    assert found["mean_absdiff"] == pytest.approx(absolute.mean())
    assert found["median_absdiff"] == pytest.approx(np.median(absolute))
    if (reference != 0).all():
        relative = absolute / np.abs(reference)
        assert found["max_reldiff"] == pytest.approx(relative.max())
        assert found["mean_reldiff"] == pytest.approx(relative.mean())
        assert found["median_reldiff"] == pytest.approx(np.median(relative))


def test_metrics_are_published_under_these_names() -> None:
    result = judge([1.0, 2.0], [1.0, 2.1])
    assert result.metric_fields() == FIELDS
    assert tuple(result.metric_values()) == FIELDS
    for field in FIELDS:
        assert getattr(result, field) == result.metric_values()[field]
    assert result.max_absdiff == pytest.approx(0.1)
    assert result.max_reldiff == pytest.approx(0.1 / 2.1)
    assert all(type(result.metric_values()[field]) is float for field in FIELDS[:6])


def test_a_quantile_is_there_if_it_is_checked() -> None:
    value, zeros = np.arange(101.0), np.zeros(101)
    assert judge(value, zeros).quantile_absdiff is None
    assert judge(value, zeros, Tolerance("quantile"), 0.25).quantile_absdiff == pytest.approx(25)
    both = judge(value, zeros, Tolerance(["elemwise", "quantile"]), 0.5)
    assert both.quantile_absdiff == pytest.approx(50)


def test_a_metric_is_computed_when_it_is_first_read() -> None:
    difference = Counting(np.ones(2), np.zeros(2))
    result = OutputCompareResult.of(TENSORS, difference.arrays, Tolerance("max"), 0.99)
    result._difference = difference
    assert difference.asked == []
    for _ in range(2):
        assert not result
        assert result.max_absdiff == 1
    assert sorted(difference.asked) == ["max_abs", "max_rel"]


def test_every_element_is_asked_once() -> None:
    difference = Counting(np.ones(2), np.zeros(2))
    result = OutputCompareResult.of(TENSORS, difference.arrays, Tolerance(), 0.99)
    result._difference = difference
    for _ in range(2):
        assert not result
        assert result.mismatches is not None
        assert result.mismatches.count == 2
    assert difference.asked == ["mismatches"]


# Verdicts.


@given(pairs, limits, limits)
def test_every_element_must_be_within_one_tolerance(
    arrays: tuple[Any, Any], atol: float, rtol: float
) -> None:
    value, reference = (array.astype(np.float64) for array in arrays)
    absolute = np.abs(value - reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(absolute == 0, 0, absolute / np.abs(reference))
    clear = np.abs(absolute - atol) > 1e-12
    clear &= np.abs(relative - rtol) > 1e-12
    if clear.all():
        expected = ((absolute <= atol) | (relative <= rtol)).all()
        assert bool(judge(*arrays, Tolerance(atol=atol, rtol=rtol))) == expected


@given(pairs, limits, limits, st.sampled_from(NAMED))
def test_a_statistic_is_judged_like_its_metrics(
    arrays: tuple[Any, Any], atol: float, rtol: float, statistic: str
) -> None:
    tolerance = Tolerance(statistic, atol, rtol)
    result = judge(*arrays, tolerance)
    assert result.passed == tolerance.passed(result.metric_values())
    assert bool(result) == result.passed == result.allows(statistic)


def test_every_checked_statistic_must_pass() -> None:
    arrays = np.array([0.0, 0, 0, 4]), np.zeros(4)
    assert judge(*arrays, Tolerance("mean", atol=1))
    assert not judge(*arrays, Tolerance("max", atol=1))
    assert not judge(*arrays, Tolerance(["mean", "max"], atol=1))
    assert not judge(*arrays, Tolerance(["median", "elemwise"], atol=1))


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_never_passes(statistic: str, value: float) -> None:
    tolerance = Tolerance(statistic, atol=1e30, rtol=1e30)
    assert not judge([value, value, value], [1.0, 1, 1], tolerance)
    assert not judge([1.0, 1, 1], [np.nan, np.nan, np.nan], tolerance)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_nothing_differs_in_empty_outputs(statistic: str, shape: Any) -> None:
    result = judge(np.zeros(shape), np.zeros(shape), Tolerance(statistic, 0, 0))
    assert result
    assert result.max_absdiff == 0


def test_other_thresholds_are_judged_anew() -> None:
    result = judge([1.0], [2.0])
    assert not result
    result.set_thresholds(Tolerance(atol=1))
    assert result
    assert result.mismatches is not None
    assert result.mismatches.count == 0
    result.set_thresholds(Tolerance("max", rtol=0.1))
    assert not result


# After the arrays are gone.


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("reference", [1.0, 2.0])
def test_settling_keeps_the_metrics_and_the_verdict(statistic: str, reference: float) -> None:
    result = judge([1.0], [reference], Tolerance(statistic))
    again = judge([1.0], [reference], Tolerance(statistic))
    again.settle()
    assert again.arrays is None
    assert again.difference is None
    assert again.metric_values() == result.metric_values()
    assert bool(again) == bool(result) == (reference == 1)
    assert again.excess == result.excess
    assert str(again.tensor0) == "'a' (dtype=float64, shape=(1,))"


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("reference", [1.0, 2.0])
def test_what_is_saved_gives_the_same_result_again(statistic: str, reference: float) -> None:
    result = judge([1.0], [reference], Tolerance(statistic))
    fields = result.as_fields()
    assert (fields["passed"] is not None) == (statistic == "elemwise")
    loaded = OutputCompareResult(**fields)
    assert loaded.metric_values() == result.metric_values()
    assert bool(loaded) == bool(result)
    assert loaded.thresholds == result.thresholds
    assert loaded.excess == result.excess
    assert (loaded.output0_name, loaded.output1_name, loaded.mismatches) == (None, None, None)


def test_metrics_alone_can_be_held_to_another_statistic() -> None:
    loaded = OutputCompareResult(**judge([1.0], [2.0]).as_fields())
    loaded.set_thresholds(Tolerance("max", atol=1))
    assert loaded
    loaded.set_thresholds(Tolerance("quantile", atol=1))
    with pytest.raises(UsageError, match="do not contain the quantile"):
        bool(loaded)


def test_metrics_alone_cannot_be_held_to_every_element() -> None:
    loaded = OutputCompareResult(**judge([1.0], [2.0]).as_fields())
    loaded.set_thresholds(Tolerance(atol=5))
    with pytest.raises(UsageError):
        bool(loaded)


def test_nothing_is_known_without_metrics() -> None:
    assert OutputCompareResult().metric_values() == dict.fromkeys(FIELDS)
    with pytest.raises(UsageError, match="checked only while the outputs are in memory"):
        bool(OutputCompareResult())
    assert OutputCompareResult(passed=True)
    assert not OutputCompareResult(passed=False)


# How bad it is.


@pytest.mark.parametrize(
    ("value", "tolerance", "excess"),
    [
        (1.0, Tolerance("max", atol=0.5, rtol=0), 2),
        (1.0, Tolerance("max", atol=0, rtol=0.25), 2),
        (1.0, Tolerance("max", atol=0.5, rtol=0.05), 2),
        (1.0, Tolerance("max", atol=4, rtol=0), 0.25),
        (0.0, Tolerance("max", atol=0, rtol=0), 0),
        (1.0, Tolerance("max", atol=0, rtol=0), math.inf),
        (math.nan, Tolerance("max", atol=1, rtol=1), math.inf),
        (1.0, Tolerance(["max", "mean"], atol=0.5, rtol=0), 2),
    ],
)
def test_excess_is_a_multiple_of_the_tolerance(
    value: float, tolerance: Tolerance, excess: float
) -> None:
    assert judge([2 + value], [2.0], tolerance).excess == pytest.approx(excess)


@given(pairs, limits, limits, st.sampled_from(STATISTICS))
def test_what_exceeds_its_tolerance_fails_and_nothing_else(
    arrays: tuple[Any, Any], atol: float, rtol: float, statistic: str
) -> None:
    result = judge(*arrays, Tolerance(statistic, atol, rtol))
    assert bool(result) == (result.excess <= 1)


def test_what_passed_element_by_element_exceeds_nothing() -> None:
    result = judge([1e-6, 100.0009], [0.0, 100.0])
    assert result
    assert result.excess <= 1


def test_excess_is_never_nan() -> None:
    result = OutputCompareResult(
        math.inf, math.inf, thresholds=Tolerance("max", math.inf, math.inf), passed=True
    )
    assert not math.isnan(result.excess)


def test_what_would_be_required() -> None:
    result = judge([1.0, 3.0], [1.0, 2.0], Tolerance(["elemwise", "mean"]))
    assert result.required_tolerances("elemwise") == (1.0, 0.5)
    assert result.required_tolerances("mean") == (0.5, 0.25)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_metrics_read_after_the_arrays_have_changed(statistic: str) -> None:
    """Of small arrays, the metrics that nobody reads are computed when somebody does."""
    value, reference = np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.5, 4.0])
    tolerance = Tolerance([statistic], 0.1, 0.1)
    expected = judge(value.copy(), reference, tolerance).metric_values()
    result = judge(value, reference, tolerance)
    result.settle()
    value[:] = math.nan
    assert result.difference is None
    assert result.nbytes == 0
    assert result.metric_values() == expected


def test_copies_of_settled_results_hold_numbers_alone() -> None:
    result = judge([1.0, 2.0, 5.0], [1.0, 2.5, 4.0])
    result.settle()
    copied = pickle.loads(pickle.dumps(result))
    assert copied.__dict__.get("_kept") is None
    assert copied.metric_values() == result.metric_values()
    assert len(pickle.dumps(copied)) == len(pickle.dumps(result))


# The other answers.


def test_a_failure_without_metrics() -> None:
    failed = UncomparedResult("why", is_missing=True)
    assert not failed
    assert (failed.reason, failed.is_missing) == ("why", True)
    assert failed.metric_fields() == ()
    assert failed.metric_values() == {}
    failed.settle()
    assert repr(failed) == "UncomparedResult('why')"
    assert not UncomparedResult("why").is_missing


def test_a_result_of_ones_own_says_whether_it_passed() -> None:
    with pytest.raises(NotImplementedError):
        bool(CompareResult())
    assert CompareResult(Tolerance()).thresholds == Tolerance()


def test_tensors_are_described() -> None:
    tensor = ComparedTensor.of("y", np.zeros((1, 2), np.float16))
    assert tensor == ComparedTensor("y", "float16", (1, 2))
    assert str(tensor) == "'y' (dtype=float16, shape=(1, 2))"
    result = judge([1.0], [1.0])
    assert (result.output0_name, result.output1_name) == ("a", "b")


def test_as_code() -> None:
    text = repr(judge([1.0], [1.0]))
    assert text.startswith("OutputCompareResult(max_absdiff=0.0, max_reldiff=0.0")
    assert text.endswith("passed=True)")
