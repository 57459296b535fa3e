"""What a use case may ask of what takes reports."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from polygraphy.adapters.console.reports import LogReports, sweep_lines
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport, Detail, IterationReport, RunReport
from polygraphy.domain.compare import L2Result, L2Threshold
from polygraphy.domain.environment import Environment, Section
from polygraphy.domain.sweep.outcome import Row as SweepRow
from polygraphy.domain.sweep.outcome import SweepOutcome
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


def test_a_sweep_shows_failures_first_and_fits_the_terminal() -> None:
    models = [f"models/m{number:02}.onnx" for number in range(30)]
    labels = ["onnxrt/fp32/small", "onnxrt/fp16/small", "openvino/fp32/large"]
    rows = [
        SweepRow(f"{model} {label}", model, label, "k", state="passed")
        for model in models
        for label in labels
    ]
    rows[-1] = evolve(rows[-1], state="failed")
    rows[1] = evolve(rows[1], state="inconclusive")
    for width in (60, 100):
        lines = list(sweep_lines(SweepOutcome(rows), width))
        assert max(map(len, lines)) <= width
        bad, odd = ([at for at, line in enumerate(lines) if name in line]
                    for name in (models[-1], models[0]))  # fmt: skip
        assert len(bad) == len(odd) == 1
        assert bad < odd
        assert "FAILED" in lines[bad[0]]
        assert "  28 models passed everywhere" in lines
