"""What the log says at the end of a comparison is what everything else says of it, and is true."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.console.numbers import format_number
from polygraphy.adapters.console.verdicts import log_iteration, log_output, log_summary
from polygraphy.adapters.fake import RecordingConsole
from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.verification import verify
from polygraphy.binding import bind
from polygraphy.comparator import IterationResult, RunResults
from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.accuracy.summarizing import comparisons_of
from polygraphy.domain.compare import L2CompareFunc, SimpleCompareFunc
from polygraphy.domain.report.summary import passing_threshold
from polygraphy.ports.reporting import Console
from tests.support.models import identity

Runs = list[tuple[dict[str, list[float]], dict[str, list[float]]]]


def compared(runs: Runs, function: Any = None, **how: Any) -> AccuracyResult:
    made = RunResults(
        (
            str(side),
            [
                IterationResult(
                    {n: np.array(values, np.float32) for n, values in step[side].items()}
                )
                for step in runs
            ],
        )
        for side in (0, 1)
    )
    with bind(Console, RecordingConsole()):
        [verdict] = compare_accuracy(made, compare_func=function or SimpleCompareFunc(**how))
    return verdict


@given(value=st.floats(2**-12, 2**12, width=32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_threshold_that_is_said_to_pass_passes(value: float) -> None:
    runs: Runs = [({"y": [value]}, {"y": [0.0]})]
    verdict = compared(runs, L2CompareFunc(1e-5))
    limit = passing_threshold(comparisons_of([verdict]))
    assert compared(runs, L2CompareFunc(float(limit)))


def said(capsys: pytest.CaptureFixture[str], verdict: AccuracyResult) -> str:
    capsys.readouterr()
    log_summary(verdict)
    return capsys.readouterr().out


def test_the_worst_and_the_tolerance_are_named_and_no_wider_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, compared([({"y": [1.0, 1.01], "z": [2.0, 2.0]},
                                   {"y": [1.0, 1.0], "z": [2.0, 2.0]})]))  # fmt: skip
    assert "1 of 2 outputs differs" in text
    assert "'y' at [1]: 1.01, expected 1, " in text
    assert "max abs 0.01, max rel 0.01, allowed (rel=1e-05, abs=1e-05) (the default)" in text
    assert "1 of 2 elements" in text
    assert "Is it rounding? No: float32 rounding explains" in text
    assert "passes" not in text


def test_what_passed_is_reported_of_all_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    """Iteration 0 was reported to differ by at most 1.049e-05, and iteration 2 by more."""
    runs: Runs = [
        ({"y": [1.00001049]}, {"y": [1.0]}),
        ({"y": [1.0]}, {"y": [1.0]}),
        ({"y": [3.000015]}, {"y": [3.0]}),
    ]
    text = said(capsys, compared(runs, rtol=1.1e-5))
    assert "1 output matched in 3 iterations; largest error: 95% of the tolerance ('y')" in text
    assert "; allowed (rel=1.1e-05, abs=1e-05) (abs the default, rel as given)." in text
    assert "that passes" not in text


def test_nan_has_no_size(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, compared([({"y": [1.0, np.nan]}, {"y": [1.0, 2.0]})]))
    assert "'y': NaN in 1 of 2 elements of 0, none in 1" in text
    assert "No tolerance can pass" in text and "passes" not in text


def test_many_outputs_have_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"t{number}" for number in range(30)]
    one: dict[str, list[float]] = {name: [1.0] for name in names}
    text = said(capsys, compared([({**one, "t7": [1.5]}, one)]))
    assert all(re.search(rf"^ +(x )?{name} +\[1\] ", text, re.M) for name in names)
    assert re.search(r"^ +x t7 +\[1\] +5\.0e-01 +5\.0e-01 .*0/1", text, re.M)
    assert "1 of 30 outputs differs; first to fail: 't7'" in text
    assert "max abs" not in said(capsys, compared([({"t1": [1.0]}, {"t1": [1.0]})]))


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
        assert iteration["y"].thresholds.reason == "default of the verification"
    assert given.thresholds_for("y").reason == "as given"


@pytest.mark.parametrize(
    ("answer", "is_judged", "lines"),
    [
        (
            True,
            True,
            ["PASSED | Output: 'y'", "PASSED | mine | All outputs matched | Outputs: ['y']"],
        ),
        (0, True, ["FAILED | Output: 'y' | 0", "FAILED | mine | Mismatched outputs: ['y']"]),
        (0, False, ["FAILED | Output: 'y' | 0"]),
    ],
)
def test_answers_of_functions_of_users_are_passed_or_failed(
    capsys: pytest.CaptureFixture[str], answer: Any, is_judged: bool, lines: list[str]
) -> None:
    outputs = IterationResult({"y": np.zeros(1)})
    pair = PairResult(("0", "1"), 0, "mine", {"y": answer}, (outputs, outputs), is_judged)
    log_output(pair, "y", answer)
    log_iteration(pair)
    assert [
        line.partition("] ")[2].strip() for line in capsys.readouterr().out.splitlines()
    ] == lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.12346"),
        (np.float32(1.5), "1.5"),
        (1234567, "1.2346e+06"),
        (1 + 2j, "1+2j"),
        (True, "True"),
        (None, "None"),
        ("a", "a"),
        ([1], "[1]"),
    ],
)
def test_numbers_have_five_digits(value: Any, text: str) -> None:
    assert format_number(value) == text
