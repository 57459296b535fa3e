"""Verdicts in a few lines, as records, and as an exception."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, IterationResult, RunResults, SimpleCompareFunc
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import L2CompareFunc
from polygraphy.domain.errors import CheckFailedError
from polygraphy.domain.ports import data_frame
from polygraphy.ports.reporting import Console
from tests.support.helpers.summarized_runs import compare_runs


def test_what_failed_is_listed_the_worst_first() -> None:
    lines = compare_runs(0.0, 0.5, 1.0, iterations=3).summary().splitlines()
    assert lines[0] == "FAILED: onnxrt vs. onnx: 2 of 3 outputs differ; first to fail: 'y1'"
    assert [line.split()[0] for line in lines[1:]] == ["'y2'", "'y1'"]
    assert "max abs 1, max rel 0.5, allowed " in lines[1]
    assert "'y2' at [1]: 3, expected 2 (iteration 2), " in lines[1]
    assert lines[1].endswith("1 of 2 elements, 1 of 3 iterations")


def test_many_failures_are_counted() -> None:
    lines = compare_runs(*[1.0] * 25).summary().splitlines()
    assert len(lines) == 12 and lines[-1] == "  and 15 more"


def test_what_passed_says_how_close_it_was() -> None:
    text = compare_runs(0.0, 1e-6, iterations=2).summary()
    assert text.startswith("PASSED: onnxrt vs. onnx: 2 outputs matched in 2 iterations")
    assert re.search(r"; largest error: [\d.]+% of the tolerance \('y1'\); allowed ", text)
    assert (
        compare_runs(0.0)
        .summary()
        .endswith(
            "1 output matched; every element is equal; allowed (rel=1e-05, abs=1e-05) (the default)."
        )
    )


def test_other_metrics_have_their_own_value() -> None:
    text = compare_runs(1.0, function=L2CompareFunc()).summary()
    assert "L2 Norm 1" in text and "allowed" in text


def test_nothing_compared_is_a_failure() -> None:
    assert AccuracyResults().summary() == "FAILED: nothing was compared."
    assert AccuracyResults([AccuracyResult([(("a", "b"), [{}])])]).summary() == (
        "FAILED: a vs. b: no output was compared in iteration 0"
    )


def test_an_iteration_without_outputs_is_named() -> None:
    verdict = AccuracyResult([(("a", "b"), [{"y": True}, {}])])
    assert AccuracyResults([verdict]).summary() == (
        "FAILED: a vs. b: no output was compared in iteration 1"
    )


def test_a_failure_can_be_raised() -> None:
    passed = compare_runs(0.0)
    assert passed.raise_for_failure() is passed
    with pytest.raises(CheckFailedError, match=r"'y0' at .*max abs 1"):
        compare_runs(1.0).raise_for_failure()


def test_loaded_results_have_the_same_rows() -> None:
    results = compare_runs(0.0, 1.0, function=SimpleCompareFunc(check_error_stat="max"))
    loaded = AccuracyResults.from_json(results.to_json())
    first, second = loaded.summary().splitlines()
    assert first == "FAILED: onnxrt vs. onnx: 1 of 2 outputs differs; first to fail: 'y1'"
    assert second.startswith("  'y1': max abs 1")


def test_a_table_has_a_row_per_output() -> None:
    with bind(data_frame, list):
        rows = compare_runs(0.0, 1.0, iterations=2).to_dataframe()
    assert [(row["output"], row["passed"], row["passed_iterations"]) for row in rows] == [
        ("y0", True, 2),
        ("y1", False, 1),
    ]
    assert rows[1]["max_absdiff"] == 1.0 and rows[1]["worst_iteration"] == 1
    assert (rows[1]["value_of"], rows[1]["reference"]) == ("onnxrt", "onnx")
    assert rows[0]["dtype"] == "float32" and rows[0]["shape"] == (2,)


def test_texts_for_a_prompt_hold_no_elements() -> None:
    outputs = {"y": np.arange(1e6)}
    runs = RunResults([("a", [IterationResult(outputs, runtime=1.0)] * 100)])
    assert repr(runs[0][1][0]) == (
        "IterationResult({'y': float64[1000000]}, runtime=1.0, runner_name='custom_runner')"
    )
    assert len(repr(runs)) < 400 and repr(runs).endswith("and 97 more])])")
    assert repr(compare_runs(1.0)) == "AccuracyResults(FAILED: 'simple')"


def test_saved_runs_are_called_by_their_file(tmp_path: Path) -> None:
    outputs = {"y": np.ones(3, np.float32)}
    RunResults([("onnxrt-runner-N0-11/24/26-13:24:12", [IterationResult(outputs)])]).save(
        str(tmp_path / "gold.json")
    )
    runs = RunResults([("onnxrt-runner-N0-11/25/26-13:24:12", [IterationResult(outputs)])])
    runs.extend(RunResults.load(str(tmp_path / "gold.json")))
    with bind(Console, RecordingConsole()):
        text = Comparator.compare_accuracy(runs).summary()
    assert text.startswith("PASSED: onnxrt vs. gold.json: 1 output matched")
