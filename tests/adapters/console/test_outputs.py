"""The table of outputs, and the first that fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polygraphy.adapters.console.outputs import log_outputs
from polygraphy.comparator import Comparator, IterationResult, RunResults
from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.logger import G_LOGGER

NAMES = ["f", "e", "d", "c", "b", "a"]


def judged(*differences: dict[str, float], names: list[str] = NAMES) -> AccuracyResult:
    """Compare two runs; each dictionary holds what is added to the outputs of an iteration."""

    def iteration(runner: str, added: dict[str, float]) -> IterationResult:
        outputs = {name: np.array([1.0 + added.get(name, 0)], np.float32) for name in names}
        return IterationResult(outputs, runner_name=runner)

    runs = RunResults(
        [
            ("x", [iteration("x", d) for d in differences]),
            ("y", [iteration("y", {})] * len(differences)),
        ]
    )
    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        [verdict] = Comparator.compare_accuracy(runs)
    return verdict


def test_many_outputs_make_a_table_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    log_outputs(judged({"d": 0.5, "b": 0.25}))
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [row[0].strip() for row in rows[1:]] == NAMES
    assert [cell.strip() for cell in rows[3]] == ["d", "float32", "(1,)", "0.5", "0.5", "FAILED"]
    assert [cell.strip() for cell in rows[4]] == ["c", "float32", "(1,)", "0", "0", "PASSED"]


def test_the_first_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    log_outputs(judged({"d": 0.5, "b": 0.75}))
    assert (
        "First output that fails, in the order of the model: 'd'; 2 of 6 outputs fail."
        in capsys.readouterr().out
    )
    log_outputs(judged({}))
    assert "First output" not in capsys.readouterr().out


def test_iterations_are_taken_together(capsys: pytest.CaptureFixture[str]) -> None:
    log_outputs(judged({}, {"c": 0.25, "a": math.nan}, {"f": 0.5, "c": 0.125}))
    out = capsys.readouterr().out
    assert "'c' in iteration 1; 3 of 6 outputs fail." in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.endswith("FAILED")}
    assert [rows[name][-5] for name in "fca"] == ["0.5", "0.25", "nan"]


def test_few_outputs_make_none(capsys: pytest.CaptureFixture[str]) -> None:
    log_outputs(judged({"f": 1}, names=NAMES[:5]))
    out = capsys.readouterr().out
    assert "---- Outputs ----" not in out
    assert "1 of 5 outputs fail" in out
    log_outputs(judged({"f": 1}, names=["f"]))
    assert capsys.readouterr().out == ""


def test_answers_without_metrics_have_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    result = AccuracyResult([(("x", "y"), [dict.fromkeys(NAMES, True)])])
    log_outputs(result)
    assert capsys.readouterr().out.count("| -    | -     |") == 6


def test_nothing_is_shown_of_averages(capsys: pytest.CaptureFixture[str]) -> None:
    result = judged({"f": 1})
    result.aggregation = "average"
    log_outputs(result)
    assert capsys.readouterr().out == ""
