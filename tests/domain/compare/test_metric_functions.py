from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.fake import MeanDistance
from polygraphy.binding import bind
from polygraphy.domain.compare import (
    CosineSimilarityCompareFunc,
    L2CompareFunc,
    L2Result,
    L2Threshold,
    MetricResult,
    NormalizedL2CompareFunc,
    PerceptualMetricsCompareFunc,
    PsnrCompareFunc,
    PsnrResult,
    PsnrThreshold,
    SnrCompareFunc,
    SqnrCompareFunc,
    UncomparedResult,
)
from polygraphy.domain.compare.measures import PerceptualDistance
from polygraphy.domain.compare.metric import MetricCompareFunc
from polygraphy.domain.errors import BackendError, UnknownNameError, UsageError
from polygraphy.domain.results.results import IterationResult

FUNCTIONS: dict[str, tuple[type[MetricCompareFunc], float, float]] = {
    "l2": (L2CompareFunc, 0.0, 1e-5),
    "normalized_l2": (NormalizedL2CompareFunc, 0.0, 1e-5),
    "cosine_similarity": (CosineSimilarityCompareFunc, 1.0, 0.997),
    "psnr": (PsnrCompareFunc, math.inf, 30.0),
    "snr": (SnrCompareFunc, math.inf, 20.0),
    "sqnr": (SqnrCompareFunc, math.inf, 20.0),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def run(runner: str = "a", **outputs: Any) -> IterationResult:
    return IterationResult({k: np.asarray(v) for k, v in outputs.items()}, runner_name=runner)


def compare(kind: Any, value: Any, reference: Any, **settings: Any) -> Any:
    return kind(**settings)(run("a", y=value), run("b", y=reference))["y"]


@every_function
def test_equal_outputs_pass_by_the_best_value_and_the_default_threshold(name: str) -> None:
    kind, best, default = FUNCTIONS[name]
    result = compare(kind, [1.0, -2.0], [1.0, -2.0])
    assert result
    assert result.metric_values() == {result.metric.field: best}
    assert getattr(result, result.metric.field) == best
    assert result.thresholds.threshold == default
    assert result.thresholds.reason == "the default"
    assert kind().label == name
    assert result.excess <= 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("l2", 0.5),
        ("normalized_l2", 0.5 / math.sqrt(1 + 6.25)),
        ("cosine_similarity", 6 / math.sqrt(5 * 7.25)),
        ("psnr", 20 * math.log10(2) - 10 * math.log10(0.125)),
        ("snr", 10 * math.log10(5 / 0.25)),
        ("sqnr", 10 * math.log10(7.25 / 0.25)),
    ],
)
def test_values_are_those_of_the_formulas(name: str, expected: float) -> None:
    kind = FUNCTIONS[name][0]
    result = compare(kind, [1.0, 2.0], [1.0, 2.5])
    assert result.value == pytest.approx(expected, rel=1e-12)
    higher, lower = (expected + 0.1, expected - 0.1)
    loose, strict = (higher, lower) if result.metric.scale == "error" else (lower, higher)
    for threshold, passes in ((loose, True), (strict, False), (result.value, True)):
        judged: Any = kind(threshold)(run(y=[1.0, 2.0]), run(y=[1.0, 2.5]))["y"]
        assert bool(judged) is passes
        assert (judged.excess <= 1) is passes
        assert judged.thresholds.reason == "as given"


@every_function
@pytest.mark.parametrize(
    ("value", "reference"), [([math.nan], [1.0]), ([1.0], [math.nan]), ([math.inf], [math.inf])]
)
def test_nan_never_passes(name: str, value: Any, reference: Any) -> None:
    least = 1e300 if "l2" in name else -1.0
    result: Any = FUNCTIONS[name][0](least)(run(y=value), run(y=reference))["y"]
    assert math.isnan(result.value)
    assert not result
    assert result.excess == math.inf


@every_function
@pytest.mark.parametrize("dtype", [np.uint64, np.int8, np.float16, np.bool_, ml_dtypes.bfloat16])
def test_any_numbers_are_taken(name: str, dtype: Any) -> None:
    kind = FUNCTIONS[name][0]
    value = np.array([0, 1, 1], dtype)
    assert compare(kind, value, value)
    assert not compare(kind, value, np.array([1, 0, 0], dtype))


@every_function
def test_arrays_without_elements_and_without_dimensions(name: str) -> None:
    kind = FUNCTIONS[name][0]
    assert compare(kind, np.zeros((0, 3)), np.zeros((0, 3)))
    assert compare(kind, np.array(2.0), np.array(2.0))


@every_function
def test_text_fails_with_a_reason(name: str) -> None:
    result = compare(FUNCTIONS[name][0], ["a"], ["a"])
    assert isinstance(result, UncomparedResult)
    assert "requires numbers: 'y' (dtype=<U1" in result.reason


@every_function
def test_shapes_and_missing_outputs_are_dealt_with(name: str) -> None:
    kind = FUNCTIONS[name][0]
    row, column = np.ones((1, 3)), np.ones((3, 1))
    assert isinstance(compare(kind, row, column), UncomparedResult)
    assert compare(kind, row, column, check_shapes=False)
    results = kind()(run(a=[1.0], y=[1.0]), run(y=[1.0]))
    assert results["a"].is_missing
    assert results["y"]
    stopped = kind(fail_fast=True)(run(a=[np.nan], b=[1.0]), run(a=[1.0], b=[1.0]))
    assert list(stopped) == ["a"]
    found = kind(find_output_func=lambda name, index, other: "z")(
        run(y=[1.0]), run(x=[2.0], z=[1.0])
    )
    assert found["y"]


def test_thresholds_differ_from_output_to_output() -> None:
    function = L2CompareFunc({"": 1.0, "y": 0.1})
    results = function(run(x=[0.0], y=[0.0]), run(x=[0.5], y=[0.5]))
    assert {name: bool(result) for name, result in results.items()} == {"x": True, "y": False}
    assert function.thresholds_for("y") == L2Threshold(0.1)
    with pytest.raises(UnknownNameError, match="'z' does not exist"):
        L2CompareFunc({"z": 1})(run(y=[0]), run(y=[0]))


@pytest.mark.parametrize("bad", ["much", math.nan, [1]])
def test_a_threshold_is_a_number(bad: Any) -> None:
    with pytest.raises(UsageError, match="A threshold must "):
        L2CompareFunc(bad)
    with pytest.raises(UsageError, match="A threshold must "):
        L2CompareFunc({"y": bad})


@given(
    st.floats(allow_nan=True), st.floats(allow_nan=False), st.sampled_from(["error", "decibels"])
)
def test_excess_agrees_with_the_verdict(value: float, limit: float, scale: str) -> None:
    if scale == "error":
        result: MetricResult = L2Result(abs(value), L2Threshold(abs(limit)))
    else:
        result = PsnrResult(value, PsnrThreshold(limit))
    assert not math.isnan(result.excess)
    assert result.excess <= 1 if result else result.excess >= 1


def test_what_is_not_held_to_anything_does_not_pass() -> None:
    for result in (L2Result(0.0), L2Result(None, L2Threshold(1.0)), L2Result()):
        assert not result
        assert result.excess == math.inf
    assert compare(CosineSimilarityCompareFunc, [1.0], [1.0]).excess == 0
    unreachable: Any = CosineSimilarityCompareFunc(1.5)(run(y=[1.0]), run(y=[1.0]))["y"]
    assert unreachable.excess == math.inf
    result = L2Result(0.5, L2Threshold(0.1))
    result.set_thresholds(L2Threshold(1.0))
    assert result


# Perceptual metrics.


def test_perceptual_metrics_are_never_guessed() -> None:
    unavailable = MeanDistance(is_available=False)
    with (
        bind(PerceptualDistance, unavailable),
        pytest.raises(BackendError, match="The perceptual distance is not available"),
    ):
        PerceptualMetricsCompareFunc()


def test_perceptual_metrics_are_those_of_the_port() -> None:
    with bind(PerceptualDistance, MeanDistance()):
        result = compare(PerceptualMetricsCompareFunc, [0.0, 1.0], [0.0, 0.5])
        assert result.lpips == 0.25
        assert not result
        assert compare(PerceptualMetricsCompareFunc, [0.0], [0.5], lpips_threshold=0.5)
