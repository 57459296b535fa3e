"""What a use case may ask of what takes reports."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.adapters.console.reports import LogReports
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport, Detail, IterationReport, RunReport
from polygraphy.domain.compare import L2Result, L2Threshold
from polygraphy.domain.environment import Environment, Section
from polygraphy.ports.reporting import Reports

DETAIL = Detail(statistics=True, histogram=True, values=True)


@pytest.fixture
def reports() -> Reports:
    return LogReports()


def report(*arrays: np.ndarray) -> DataReport:
    run = RunReport(None, len(arrays))
    run.reports.extend(
        IterationReport.of(index, {"x [red]": array}, DETAIL) for index, array in enumerate(arrays)
    )
    return DataReport("inputs.json", (run,), DETAIL, True)


def test_the_adapter_is_bound() -> None:
    assert isinstance(resolve(Reports), LogReports)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan, np.inf], np.float32),
        np.zeros((0, 3), np.float16),
        np.array(7, np.int64),
        np.array([True, False]),
        np.array(["text"]),
    ],
)
@pytest.mark.parametrize(("num_items", "line_width"), [(-1, -1), (1, 40)])
def test_any_data_can_be_reported(
    reports: Reports, array: np.ndarray, num_items: int, line_width: int
) -> None:
    reports.source("inputs.json")
    reports.data(report(array, array), num_items=num_items, line_width=line_width)


def test_data_without_iterations_can_be_reported(reports: Reports) -> None:
    reports.data(report(), num_items=3, line_width=75)


def test_an_iteration_without_tensors_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run = RunReport(None, 1)
    run.reports.append(IterationReport.of(0, {}, DETAIL))
    LogReports().data(DataReport("inputs.json", (run,), DETAIL, True), num_items=3, line_width=75)
    assert "No tensors" in capsys.readouterr().out


@pytest.mark.parametrize("value", [0.5, 2.0, None, float("nan")])
def test_verdicts_can_be_reported(reports: Reports, value: float | None) -> None:
    answers = {"y": L2Result(value, L2Threshold(1)), "z": True}
    reports.accuracy(AccuracyResults([AccuracyResult([(("a", "b"), [answers, {}])])]))
    reports.accuracy(AccuracyResults())


def test_what_is_installed_can_be_reported(reports: Reports) -> None:
    reports.environment(Environment((Section("Packages", (("numpy", "2.0"),), ("Fine.",)),)))
    reports.environment(Environment(()))
