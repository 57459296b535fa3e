from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from polygraphy.comparator import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import (
    BiasCompareFunc,
    ErrorDistributionCompareFunc,
    NonFiniteCompareFunc,
    TopKCompareFunc,
    UlpCompareFunc,
    UncomparedResult,
)
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.tensors.facts import ModelFacts

ONE = np.float32(1)
EVERY = [
    UlpCompareFunc,
    TopKCompareFunc,
    BiasCompareFunc,
    NonFiniteCompareFunc,
    ErrorDistributionCompareFunc,
]


def run(array: Any, computed_in: str = "") -> IterationResult:
    facts = ModelFacts({"": computed_in} if computed_in else {})
    return IterationResult({"y": np.asarray(array)}, runner_name="a", facts=facts)


def compare(function: Any, value: Any, reference: Any, computed_in: str = "") -> Any:
    return function(run(value, computed_in), run(reference))["y"]


@pytest.mark.parametrize(
    ("kind", "value", "reference", "expected"),
    [
        (UlpCompareFunc, [1 + 2**-20, 2.0], [1.0, 2.0], 8.0),
        (TopKCompareFunc, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [1.0, 2.0]], 0.5),
        (BiasCompareFunc, [2.0, 4.0], [3.0, 4.0], -0.5 / math.sqrt(12.5)),
        (NonFiniteCompareFunc, [math.nan, math.inf, 1.0], [math.nan, -math.inf, 2.0], 1.0),
        (ErrorDistributionCompareFunc, [0.0, 1.0], [0.0, 0.0], 0.99),
    ],
)
def test_values_and_thresholds(kind: Any, value: Any, reference: Any, expected: float) -> None:
    arrays = np.array(value, np.float32), np.array(reference, np.float32)
    result = compare(kind(), *arrays)
    assert result.value == pytest.approx(expected)
    similarity = result.metric.scale == "similarity"
    for step, passes in ((0.1, not similarity), (-0.1, similarity), (0.0, True)):
        judged = compare(kind(abs(result.value) + step), *arrays)
        assert bool(judged) is passes
        assert (judged.excess <= 1) is passes


@pytest.mark.parametrize("kind", EVERY)
def test_equal_outputs_pass_and_text_fails(kind: Any) -> None:
    same = np.array([[1.0, 2.0, 3.0]], np.float32)
    assert compare(kind(), same, same)
    assert isinstance(compare(kind(), np.array(["a", "b"]), np.array(["a", "b"])), UncomparedResult)


@pytest.mark.parametrize("kind", [UlpCompareFunc, BiasCompareFunc, ErrorDistributionCompareFunc])
def test_nan_never_passes(kind: Any) -> None:
    result = compare(kind(1e30), [math.nan, 1.0], [1.0, 1.0])
    assert math.isnan(result.value)
    assert not result


@pytest.mark.parametrize("kind", [NonFiniteCompareFunc, BiasCompareFunc, UlpCompareFunc])
def test_outputs_without_elements_and_without_dimensions(kind: Any) -> None:
    assert compare(kind(), np.zeros((0, 3)), np.zeros((0, 3)))
    assert compare(kind(), np.array(2.0), np.array(2.0))


def test_ulps_are_those_of_the_type_in_which_it_was_computed() -> None:
    value, reference = np.array([1 + 2**-10], np.float32), np.array([1.0], np.float32)
    half = compare(UlpCompareFunc(), value, reference, "float16")
    assert (half.value, half.details["computed_in"]) == (1, "float16")
    full = compare(UlpCompareFunc(), value, reference)
    assert (full.value, full.details["computed_in"]) == (2**13, "float32")
    whole = compare(UlpCompareFunc(), np.array([5]), np.array([3]), "float16")
    assert (whole.value, whole.details["computed_in"]) == (2, "int64")


def test_settings_of_top_k_may_differ_from_output_to_output() -> None:
    value, reference = [1.0, 3.0, 2.0], [1.0, 2.9, 3.0]
    assert not compare(TopKCompareFunc(), value, reference)
    assert compare(TopKCompareFunc(k={"y": 2}), value, reference)
    assert compare(TopKCompareFunc(margin={"": 0.0, "y": 0.11}), value, reference)
    too_many = compare(TopKCompareFunc(k=3), value, reference)
    assert "nothing would be compared" in too_many.reason
    for wrong in ({"k": 0}, {"k": {"y": 1.5}}, {"margin": -1}, {"margin": math.nan}):
        with pytest.raises(UsageError):
            TopKCompareFunc(**wrong)


def test_the_distribution_has_a_histogram_of_all_errors() -> None:
    result = compare(ErrorDistributionCompareFunc(), np.arange(100.0), np.zeros(100))
    drawn = result.details["histogram"]
    assert sum(drawn["counts"]) == 100
    assert (drawn["bin_edges"][0], drawn["bin_edges"][-1]) == (0, 99)
    assert result.details["median"] == 49.5


@pytest.mark.parametrize("kind", EVERY)
def test_results_are_saved_with_their_facts_and_judged_anew(kind: Any) -> None:
    result = compare(kind(), np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]]))
    results = AccuracyResults([AccuracyResult([(("a", "b"), [{"y": result}])])])
    text = results.to_json()
    assert json.loads(text)["lst"][0]["lst"][0][1][0]["y"]["polygraphy_class"]
    loaded: Any = AccuracyResults.from_json(text)[0][0][1][0]["y"]
    assert type(loaded) is type(result)
    assert loaded.value == result.value
    assert loaded.details == result.details
    assert loaded.thresholds == result.thresholds
    assert bool(loaded) is bool(result)
