"""What a program that is a check writes for the search."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from polygraphy.adapters.report.faults import write_faults
from polygraphy.comparator import Comparator, IterationResult, RunResults

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("found", "expected", "fault"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, 2.5], [1.0, 2.0], 0.5),
        ([1.0, NAN], [1.0, 2.0], NAN),
        ([1.0, NAN], [1.0, NAN], NAN),
        ([1.0, INF], [1.0, 2.0], INF),
    ],
)
def test_how_outputs_fail_is_written(
    tmp_path: Path, found: list[float], expected: list[float], fault: float | None
) -> None:
    """One side alone is infinite where an overflow is the fault: that is a difference, no NaN."""
    results = RunResults()
    for name, values in (("one", found), ("other", expected)):
        outputs = {"y": np.array(values, np.float32), "z": np.ones(2, np.float32)}
        results.add([IterationResult(outputs, runner_name=name)], runner_name=name)
    path = tmp_path / "faults"
    with write_faults(str(path)):
        Comparator.compare_accuracy(results)
    [written] = [json.loads(line) for line in path.read_text().splitlines()]
    assert written["z"] is None
    assert str(written["y"]) == str(fault)


def test_validation_and_nothing_at_all(tmp_path: Path) -> None:
    results = RunResults()
    outputs = {"y": np.array([1, INF], np.float32), "z": np.ones(2, np.float32)}
    results.add([IterationResult(outputs, runner_name="one")], runner_name="one")
    path = tmp_path / "faults"
    with write_faults(str(path)):
        assert not Comparator.validate(results, check_inf=True)
    [written] = [json.loads(line) for line in path.read_text().splitlines()]
    assert math.isnan(written["y"])
    assert written["z"] is None
    with write_faults(str(tmp_path / "none")):
        pass
    assert not (tmp_path / "none").exists()
