"""What other readers find in saved accuracy results."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.comparator import AccuracyResults, Comparator, IterationResult, RunResults
from polygraphy.domain.accuracy import answer_log
from polygraphy.logger import G_LOGGER


def saved(path: Path, *iterations: dict[str, Any]) -> dict[str, Any]:
    """Compare outputs with zeros of float32, and return the summary of the saved results."""

    def runs(runner: str, zeros: bool) -> list[IterationResult]:
        return [
            IterationResult(
                {n: np.zeros(a.shape, np.float32) if zeros else a for n, a in each.items()},
                runner_name=runner,
            )
            for each in iterations
        ]

    results = RunResults([("a", runs("a", False)), ("b", runs("b", True))])
    with G_LOGGER.verbosity():
        verdicts = Comparator.compare_accuracy(results.split())
    verdicts.save(str(path))
    [verdict] = json.loads(path.read_text())["lst"]
    [summary] = verdict["summary"]
    return dict(summary)


def test_every_output_with_its_type_shape_and_largest_differences(tmp_path: Path) -> None:
    summary = saved(
        tmp_path / "a.json",
        {"first": np.zeros((2, 3), np.float16), "second": np.array([0.5], np.float32)},
        {"first": np.zeros((2, 3), np.float16), "second": np.array([2.0], np.float32)},
    )
    assert summary["runners"] == ["a", "b"]
    assert summary["first_failure"] == {"iteration": 0, "output": "second"}
    first, second = summary["outputs"]
    assert first == {
        "name": "first",
        "dtypes": ["float16", "float32"],
        "shapes": [[2, 3]],
        "max_absdiff": 0.0,
        "max_reldiff": 0.0,
        "passed": True,
    }
    assert (second["dtypes"], second["shapes"], second["passed"]) == (["float32"], [[1]], False)
    assert (second["max_absdiff"], second["max_reldiff"]) == (2.0, math.inf)


def test_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert saved(path, {"y": np.zeros(1, np.float32)})["first_failure"] is None
    loaded = AccuracyResults.load(str(path))
    assert loaded
    loaded.save(str(path))  # What a file does not hold is not made up.
    [again] = json.loads(path.read_text())["lst"]
    assert "summary" not in again


def test_of_many_iterations_all_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MOST", 8)  # The others are packed away.
    path, count = tmp_path / "a.json", 100
    steps = [{"y": np.array([float(i == count - 2)], np.float32)} for i in range(count)]
    assert saved(path, *steps)["first_failure"] == {"iteration": count - 2, "output": "y"}
    [loaded] = AccuracyResults.load(str(path))
    assert loaded.stats() == (count - 1, 1, count)
