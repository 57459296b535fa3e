from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.application.compare.comparator import Comparator
from polygraphy.application.compare.validation import validate, validate_stream
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import CheckFailedError
from polygraphy.domain.results.results import RunResults
from tests.application.runs import iteration, results

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "how", "valid"),
    [
        ([1.0], {}, True),
        ([NAN], {}, False),
        ([INF], {}, True),
        ([-INF], {"check_inf": True}, False),
        ([NAN], {"check_nan": False}, True),
        ([NAN], {"check_nan": False, "check_inf": True}, True),
        ([NAN, INF], {"check_inf": True}, False),
        ([[1, 2]], {"check_inf": True}, True),
        ([], {}, True),
    ],
)
def test_results_are_valid_without_what_is_looked_for(
    value: Any, how: dict[str, bool], valid: bool
) -> None:
    assert validate(results(a=[value]), **how) is valid
    assert validate(results(a=[[1.0], value], b=[[1.0]]), **how) is valid
    assert validate(results(a=[[1.0]], b=[value, [1.0]]), **how) is valid


def test_no_results_hold_no_nan() -> None:
    assert validate(RunResults())


def test_everything_is_reported_in_order(console: RecordingConsole) -> None:
    runs = RunResults([("a", [iteration("a", y=[NAN], z=[1.0])]), ("b", [iteration("b", y=[INF])])])
    assert not validate(runs)
    reported = [
        (event, (arguments[0], arguments[1].name) if event == "output_validated" else arguments)
        for event, arguments in console.events
    ]
    assert reported == [
        ("validation_starting", (["a", "b"],)),
        ("output_validated", ("a", "y")),
        ("output_validated", ("a", "z")),
        ("output_validated", ("b", "y")),
        ("validation_finished", (False,)),
    ]


def test_the_first_failure_may_be_the_last_check(console: RecordingConsole) -> None:
    assert not validate(results(a=[[1.0], [NAN], [1.0]], b=[[1.0]]), fail_fast=True)
    assert len(console.arguments_of("output_validated")) == 2
    assert console.arguments_of("validation_finished") == [(False,)]


def test_a_stream_passes_through(console: RecordingConsole) -> None:
    runs = results(a=[[1.0], [2.0]])
    passed = list(validate_stream(runs.split()))
    assert RunResults.concat(passed) == runs
    assert console.arguments_of("validation_finished") == [(True,), (True,)]


def test_a_stream_is_checked_one_iteration_at_a_time() -> None:
    taken = []

    def counted() -> Iterator[RunResults]:
        for index, step in enumerate(results(a=[[1.0], [2.0]]).split()):
            taken.append(index)
            yield step

    stream = validate_stream(counted())
    assert taken == []
    next(stream)
    assert taken == [0]


def test_a_stream_fails_at_its_end() -> None:
    stream = validate_stream(results(a=[[NAN], [1.0], [NAN]]).split())
    assert len([next(stream) for _ in range(3)]) == 3
    with pytest.raises(CheckFailedError, match=r"iterations 0, 2"):
        next(stream)


def test_a_stream_may_end_at_the_first_failure() -> None:
    stream = validate_stream(results(a=[[1.0], [NAN], [1.0]]).split(), fail_fast=True)
    next(stream)
    with pytest.raises(CheckFailedError, match=r"iteration 1"):
        next(stream)


def test_settings_reach_every_iteration() -> None:
    runs = results(a=[[1.0], [INF]])
    assert len(list(validate_stream(runs.split()))) == 2
    with pytest.raises(CheckFailedError):
        list(validate_stream(runs.split(), check_inf=True))
    assert len(list(validate_stream(results(a=[[NAN]]).split(), check_nan=False))) == 1


@pytest.mark.parametrize("fail_fast", [False, True])
def test_the_first_output_that_fails_is_named(fail_fast: bool) -> None:
    """Only the iterations were."""
    runner = "onnxrt-runner-N0-11/22/26-19:09:01.123456"
    steps = [
        RunResults([(runner, [iteration(runner, a=[1.0], b=[INF], c=[[1.0], [NAN]], d=[NAN])])]),
        RunResults([(runner, [iteration(runner, a=[NAN], b=[1.0], c=[1.0], d=[1.0])])]),
    ]
    with pytest.raises(CheckFailedError) as failed:
        list(validate_stream(iter(steps), fail_fast=fail_fast))
    assert str(failed.value) == (
        f"Output validation failed in {'iteration 0' if fail_fast else 'iterations 0, 1'}. First"
        " failure, in order of computation: in iteration 0 'c' of onnxrt-runner-N0-11/22/26-19:09:01:"
        " 1 of 2 elements are NaN, the first at (1, 0)."
    )
    with pytest.raises(CheckFailedError, match=r"'b' of .* 1 of 1 elements are infinite"):
        list(validate_stream(iter(steps[:1]), check_inf=True))


@pytest.mark.parametrize(("fail_fast", "kept"), [(False, 3), (True, 1)])
def test_verdicts_are_saved_before_invalid_outputs_fail(
    fail_fast: bool, kept: int, tmp_path: Path
) -> None:
    """They were lost: the failure was raised while the program compared."""
    runs = results(a=[[1.0], [NAN], [1.0]], b=[[1.0], [NAN], [2.0]])
    path = tmp_path / "accuracy.json"
    with pytest.raises(CheckFailedError, match="Output validation failed"):
        Comparator.compare_accuracy(
            Comparator.validate(runs.split(), fail_fast=fail_fast), save_accuracy_path=str(path)
        )
    (saved,) = AccuracyResults.load(str(path))
    (verdicts,) = saved.values()
    assert [bool(each["y"]) for each in verdicts] == [True, False, False][:kept]


def test_verdicts_of_valid_outputs_are_saved_and_returned(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    runs = results(a=[[1.0], [2.0]], b=[[1.0], [2.0]])
    found = Comparator.compare_accuracy(
        Comparator.validate(runs.split()), save_accuracy_path=str(path)
    )
    assert found
    assert AccuracyResults.load(str(path))
    assert len(AccuracyResults.load(str(path))[0].values()[0]) == 2
