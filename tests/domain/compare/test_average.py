from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polygraphy.domain.compare import (
    L2Result,
    L2Threshold,
    OutputCompareResult,
    PsnrResult,
    PsnrThreshold,
    SimpleCompareFunc,
    SnrResult,
    SnrThreshold,
    SqnrResult,
    SqnrThreshold,
    UncomparedResult,
)
from polygraphy.domain.compare.averages import average_of
from polygraphy.domain.compare.indices import IndicesCompareFunc
from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits import Tolerance


def l2(*values: float | None, limit: float = 1.0) -> Any:
    return average_of([L2Result(value, L2Threshold(limit)) for value in values])


@pytest.mark.parametrize(
    ("values", "mean", "passes"),
    [
        ([0.0, 2.0], 1.0, True),
        ([0.5, 2.0], 1.25, False),
        ([None, 0.5], 0.5, True),
        ([None], None, False),
        ([1.0, math.nan], math.nan, False),
        ([1.0, math.inf], math.inf, False),
        ([1.7e308, 1.7e308], 1.7e308, False),
    ],
)
def test_the_mean_is_judged(values: Any, mean: Any, passes: bool) -> None:
    average = l2(*values)
    assert average.value == pytest.approx(mean, nan_ok=True)
    assert bool(average) is passes


def test_the_thresholds_are_those_of_the_first_iteration() -> None:
    answers = [L2Result(0.5, L2Threshold(1.0)), L2Result(0.5, L2Threshold(0.1))]
    assert average_of(answers)
    assert not average_of(answers[::-1])


def test_differences_are_averaged_field_by_field() -> None:
    limits = Tolerance("max", atol=1.0, rtol=0.0)
    answers = [
        OutputCompareResult(max_absdiff=a, max_reldiff=r, mean_absdiff=a / 2, thresholds=limits)
        for a, r in ((0.0, 1.0), (2.0, 3.0))
    ]
    average = average_of(answers)
    metrics = average.metric_values()
    assert (metrics["max_absdiff"], metrics["max_reldiff"], metrics["mean_absdiff"]) == (1, 2, 0.5)
    assert metrics["quantile_absdiff"] is None
    assert average
    assert not answers[1]


def test_an_iteration_without_metrics_fails_the_output() -> None:
    failed = UncomparedResult("Shape mismatch")
    assert average_of([L2Result(0.0, L2Threshold(1.0)), failed]) is failed


@pytest.mark.parametrize("answer", [True, "yes"])
def test_there_is_no_average_of_bare_verdicts(answer: Any) -> None:
    with pytest.raises(UsageError, match="Verdicts without metrics have no average"):
        average_of([answer])


@pytest.mark.parametrize(
    "function",
    [
        SimpleCompareFunc(),
        SimpleCompareFunc(check_error_stat=["max", "elemwise"]),
        SimpleCompareFunc(check_error_stat={"y": "elemwise", "": "max"}),
        IndicesCompareFunc(),
    ],
    ids=repr,
)
def test_what_has_no_average_is_refused(function: Any) -> None:
    with pytest.raises(UsageError, match="average"):
        function.check_averages()


@pytest.mark.parametrize("statistic", ["max", ["mean", "median"], {"y": "max"}])
def test_statistics_have_averages(statistic: Any) -> None:
    SimpleCompareFunc(check_error_stat=statistic).check_averages()


DECIBELS = st.one_of(
    st.floats(-200, 200), st.sampled_from([math.inf, -math.inf, 1e5, -1e5, 6000.0])
)


@given(values=st.lists(DECIBELS, min_size=1, max_size=6))
@example(values=[math.inf, -33.8, -36.8])
def test_no_iteration_makes_up_for_the_noise_of_another(values: list[float]) -> None:
    for kind, threshold in (
        (PsnrResult, PsnrThreshold),
        (SnrResult, SnrThreshold),
        (SqnrResult, SqnrThreshold),
    ):
        average: Any = average_of([kind(value, threshold(30.0)) for value in values])
        worst, count = min(values), len(values)
        if math.isinf(worst):
            assert average.value == worst
        else:
            spread = 10 * math.log10(count)
            assert worst - 1e-9 <= average.value <= worst + spread + 1e-9
        if worst < 30.0 - 10 * math.log10(count) - 1e-9:
            assert not average
        if min(values) >= 30.0:
            assert average.value >= 30.0 - 1e-9
