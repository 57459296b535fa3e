"""What is said of a comparison is true."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.console.conclusion import conclusion_of
from polygraphy.adapters.fake import RecordingConsole
from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.verification import verify
from polygraphy.binding import bind
from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.compare import L2CompareFunc, SimpleCompareFunc
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.ports.reporting import Console
from tests.support.models import identity

NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 1000.0, 1e-6, np.inf, -np.inf, np.nan]),
    st.floats(-10, 10, width=32),
)
STATISTICS = ("elemwise", "max", "mean", "median")
TOLERANCES = st.sampled_from([0.0, 1e-5, 1e-2, 0.5, 1e9])
Runs = list[tuple[dict[str, list[float]], dict[str, list[float]]]]
OUTPUTS = st.lists(
    st.tuples(
        *[st.fixed_dictionaries({n: st.lists(NUMBERS, min_size=2, max_size=2) for n in "yz"})] * 2
    ),
    min_size=1,
    max_size=3,
)


def compared(runs: Runs, **how: Any) -> AccuracyResult:
    made = RunResults(
        (
            str(side),
            [
                IterationResult({name: np.array(values) for name, values in step[side].items()})
                for step in runs
            ],
        )
        for side in (0, 1)
    )
    with bind(Console, RecordingConsole()):
        [verdict] = compare_accuracy(made, compare_func=SimpleCompareFunc(**how))
    return verdict


@given(
    runs=OUTPUTS,
    statistics=st.lists(st.sampled_from(STATISTICS), min_size=1, max_size=2, unique=True),
    atol=TOLERANCES,
    rtol=TOLERANCES,
)
def test_what_is_said_of_a_comparison_is_true(
    runs: Runs, statistics: list[str], atol: float, rtol: float
) -> None:
    how: dict[str, Any] = {"check_error_stat": statistics}
    verdict = compared(runs, **how, atol=atol, rtol=rtol)
    words = conclusion_of(verdict)
    assert not re.search(r"differs by (up to|at most) nan|(tolerance|one) of (inf|nan)", words)
    if verdict:
        answers = [answer for *_, answer in verdict.outputs()]
        if words.startswith("No difference at all"):
            assert all(answer.max_absdiff == 0 for answer in answers)
            return
        name, most = re.findall(r"'([yz])'.* differs by at most (\S+) \(", words)[0]
        of_output = [a.max_absdiff for *_, n, a in verdict.outputs() if n == name]
        assert float(most) == pytest.approx(max(of_output), rel=1e-4)
        relative = re.findall(r"\(relative (\S+)\)", words)[0]
        assert float(relative) >= max(
            a.max_reldiff for *_, n, a in verdict.outputs() if n == name
        ) * (1 - 1e-4)
        if ", by the relative one" in words:
            assert compared(runs, **how, atol=0, rtol=rtol)["0", "1"][0][name]
        if ", by the absolute one" in words:
            assert compared(runs, **how, atol=atol, rtol=0)["0", "1"][0][name]
        return
    advised = re.findall(r"(bsolute tolerance|elative (?:one|tolerance)) of (\S+)", words)
    if " would pass this output" in words:
        return
    for kind, limit in advised:
        assert np.isfinite(float(limit))
        given = (float(limit), 0.0) if kind.startswith("bsolute") else (0.0, float(limit))
        assert compared(runs, **how, atol=given[0], rtol=given[1])


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (([1.0, 1.0], [1.5, 1.5]), "(as given)."),
        (([0.0, 1.0], [0.001, 1.0]), "(as given), by the absolute one."),
        (([2000.0, 1000.0], [2001.0, 1000.0]), "(as given), by the relative one."),
        (([2000.0, 0.001], [2001.0, 0.0]), "(as given), by one or the other everywhere."),
    ],
)
def test_the_tolerance_that_was_kept_is_named(kept: Any, words: str) -> None:
    verdict = compared([({"y": kept[0]}, {"y": kept[1]})], atol=0.5, rtol=0.5)
    assert verdict
    assert conclusion_of(verdict).endswith(words)


def test_what_passed_is_reported_of_all_iterations() -> None:
    """Iteration 0 was reported to differ by at most 1.049e-05, and iteration 2 by more."""
    runs: Runs = [
        ({"y": [1.00001049]}, {"y": [1.0]}),
        ({"y": [1.0]}, {"y": [1.0]}),
        ({"y": [3.000015]}, {"y": [3.0]}),
    ]
    words = conclusion_of(compared(runs, rtol=1.1e-5))
    assert words.startswith("Worst output: 'y' in iteration 2 differs by at most 1.5e-05 (relative")
    assert words.endswith("(abs the default, rel as given), by the relative one.")


def test_a_large_tolerance_is_no_equality() -> None:
    words = conclusion_of(compared([({"y": [1.0]}, {"y": [2.0]})], atol=np.inf))
    assert "differs by at most 1 (relative 0.5)" in words


def test_nan_has_no_size() -> None:
    words = conclusion_of(compared([({"y": [1.0, np.nan]}, {"y": [1.0, 2.0]})]))
    assert words.startswith("Worst output: 'y' has differences that are NaN; that exceeds")
    assert "differs by" not in words
    assert words.endswith("No tolerance would pass: find where the NaN is born.")


def test_advice_is_for_all_that_failed() -> None:
    runs: Runs = [({"y": [1.1], "z": [5000.0]}, {"y": [1.0], "z": [4900.0]})]
    words = conclusion_of(compared(runs))
    assert "An absolute tolerance of 1e+02 or a relative one of 0.11 would pass." in words
    runs = [({"y": [1.1], "z": [5.0]}, {"y": [0.0], "z": [4.0]})]
    assert "An absolute tolerance of 1.1 would pass." in conclusion_of(compared(runs))
    runs = [({"y": [1.1], "z": [np.nan]}, {"y": [0.0], "z": [4.0]})]
    assert "would pass" not in conclusion_of(compared(runs)).replace("No tolerance would pass", "")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "the default"),
        ({"atol": 1, "rtol": 1}, "as given"),
        ({"atol": 1}, "abs as given, rel the default"),
        ({"rtol": {"z": 1.0}}, "the default"),
        ({"rtol": {"z": 1.0, "": 2.0}}, "abs the default, rel as given"),
    ],
)
def test_the_reason_says_who_gave_a_tolerance(settings: Any, reason: str) -> None:
    assert SimpleCompareFunc(**settings).tolerance_for("y").reason == reason


def test_nobody_gave_the_tolerances_of_a_verification() -> None:
    model = identity()
    given = SimpleCompareFunc(atol=1, rtol=1)
    for function in (given, L2CompareFunc(0.5)):
        [compared] = verify(model, model, compare_func=function)
        iteration = compared["edited", "original"][0]
        assert iteration["y"].thresholds.reason == "that of the verification"
    assert given.thresholds_for("y").reason == "as given"
