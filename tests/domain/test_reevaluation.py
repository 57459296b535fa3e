"""Verdicts are held to other thresholds, iterate as in a dictionary, and say what they found."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from polygraphy.comparator import (
    AccuracyResult,
    AccuracyResults,
    CosineSimilarityThreshold,
    L2Result,
    L2Threshold,
    OutputCompareResult,
    PsnrThreshold,
    SimpleThreshold,
    Threshold,
)
from polygraphy.domain.compare.result import UncomparedResult
from polygraphy.exception import PolygraphyException

AB, BC = ("a", "b"), ("b", "c")


def norms(*values: float) -> AccuracyResult:
    """Return a result with an L2 norm per iteration of the outputs y and z."""
    iterations = [
        {name: L2Result(value, L2Threshold(1.0)) for name in ("y", "z")} for value in values
    ]
    return AccuracyResult([(AB, iterations), (BC, iterations[:1])])


def difference(size: float, statistic: str = "max") -> OutputCompareResult:
    fields = [size] * 8
    return OutputCompareResult(*fields, thresholds=SimpleThreshold(statistic, 1.0, 0.0))


def test_iterating_yields_pairs_as_a_dictionary_does() -> None:
    result = norms(0.5)
    assert list(result) == [AB, BC] == list(result.keys())
    assert dict(result.items()).keys() == {AB, BC}
    assert [len(result[pair]) for pair in result] == [1, 1]
    assert AB in result
    assert ("x", "y") not in result


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_hold_the_same(copied: Callable[[Any], Any]) -> None:
    result = norms(0.5)
    result.label = "l2"
    again = copied(result)
    assert type(again) is AccuracyResult
    assert again.label == "l2"
    assert again[AB][0]["y"].l2_norm == 0.5


def test_one_threshold_is_for_all_outputs() -> None:
    result = norms(5.0)
    assert not result
    assert result.reevaluate(L2Threshold(5.0)) is result
    assert result
    assert result.reevaluate({"": L2Threshold(5.0), "z": L2Threshold(4.9)}) is result
    assert [bool(result[AB][0][name]) for name in ("y", "z")] == [True, False]


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"y": L2Threshold(9)}, "Output 'z' has no threshold"),
        ({}, "Output 'y' has no threshold"),
        (None, "Output 'y' has no threshold"),
        ({"": 3.0}, "Output 'y' has no threshold"),
        (
            PsnrThreshold(1),
            "'y' lack psnr, which a PsnrThreshold checks. They contain: l2_norm",
        ),
        (SimpleThreshold("max", 1, 1), "lack max_absdiff, max_reldiff"),
    ],
)
def test_thresholds_that_do_not_fit_change_nothing(thresholds: Any, message: str) -> None:
    result = norms(0.5)
    with pytest.raises(PolygraphyException, match=message) as raised:
        result.reevaluate(thresholds, aggregation="average")
    assert raised.value.exit_code == 2
    assert result
    assert result.aggregation == "per_sample"


def test_how_verdicts_are_aggregated_can_change() -> None:
    result = norms(0.5, 1.2)
    assert not result
    assert result.reevaluate(L2Threshold(1.0), aggregation="average")
    assert result.stats(AB) == (2, 0, 2)
    with pytest.raises(PolygraphyException, match="'median' is not an aggregation"):
        result.reevaluate(L2Threshold(1.0), aggregation="median")


def test_what_could_not_be_compared_keeps_failing() -> None:
    result = AccuracyResult([(AB, [{"y": UncomparedResult("the shapes differ")}])])
    assert not result.reevaluate({})


def test_a_verdict_alone_cannot_be_judged_anew() -> None:
    result = AccuracyResult([(AB, [{"y": False}])])
    with pytest.raises(PolygraphyException, match="They contain: a verdict only"):
        result.reevaluate(L2Threshold(1))


def test_differences_can_be_judged_anew() -> None:
    result = AccuracyResult([(AB, [{"y": difference(2.0)}])])
    assert not result
    assert result.reevaluate(SimpleThreshold("mean", 2.0, 0.0))
    assert not result.reevaluate(SimpleThreshold("mean", 1.9, 0.0))


def test_averages_are_described() -> None:
    described = norms(0.5, 1.7).describe_average(AB)
    assert described["y"] == ("L2 Norm: 1.1 (tolerance: 1) | FAILED", False)
    passed = ("L2 Norm: 0.5 (tolerance: 1) | PASSED", True)
    assert norms(0.5).describe_average() == {"y": passed, "z": passed}
    elementwise = AccuracyResult([(AB, [{"y": difference(0.5, "elemwise")}])])
    assert elementwise.describe_average() == {}
    maxima = AccuracyResult([(AB, [{"y": difference(0.5)}])]).describe_average()
    assert maxima["y"] == (
        "Difference | max: abs=0.5, rel=0.5 (tolerance: abs=1, rel=0) | PASSED", True
    )  # fmt: skip


def test_all_functions_are_judged_anew_at_once() -> None:
    results = AccuracyResults([norms(5.0), AccuracyResult([(AB, [{"x": difference(2.0)}])])])
    assert not results
    assert results.output_names() == ["y", "z", "x"]
    assert results.reevaluate([L2Threshold(5.0), {"x": SimpleThreshold("max", 2.0, 0.0)}])
    with pytest.raises(PolygraphyException, match="2 comparison functions, but thresholds for 1"):
        results.reevaluate(L2Threshold(5.0))
    alone = AccuracyResults([norms(5.0)])
    assert alone.reevaluate(L2Threshold(5.0))


@pytest.mark.parametrize(
    ("threshold", "value", "line", "passed"),
    [
        (L2Threshold(1e-5), 1.0, "L2 Norm: 1 (tolerance: 1e-05) | FAILED", False),
        (CosineSimilarityThreshold(0.9), 1.0, "Cosine Similarity: 1 (min required: 0.9) | PASSED", True),
        (PsnrThreshold(30), 1.0, "PSNR: 1 dB (min required: 30 dB) | FAILED", False),
        (L2Threshold(1.0), float("nan"), "L2 Norm: nan (tolerance: 1) | FAILED", False),
    ],
)  # fmt: skip
def test_thresholds_judge_and_describe_metrics(
    threshold: Any, value: float, line: str, passed: bool
) -> None:
    assert isinstance(threshold, Threshold)
    (field,) = threshold.metric_fields()
    assert threshold.describe({field: value}) == (line, passed)
    assert threshold.passed({field: value}) is passed
    assert threshold.describe({field: None}) is None
    assert threshold.passed({}) is False


def test_a_threshold_of_ones_own_says_what_it_lacks() -> None:
    with pytest.raises(NotImplementedError, match="Threshold does not implement metric_fields"):
        Threshold().metric_fields()
    with pytest.raises(NotImplementedError, match="Threshold does not implement passed"):
        Threshold().passed({})
    assert Threshold().describe({}) is None
