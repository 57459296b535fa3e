"""What log lines say about metrics and lists of indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from polygraphy.adapters.console.log import LogConsole
from polygraphy.adapters.console.verdicts import metric_line
from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.accuracy.output_rows import brief_pair
from polygraphy.domain.compare import (
    CosineSimilarityResult,
    CosineSimilarityThreshold,
    L2Result,
    L2Threshold,
    PsnrResult,
    PsnrThreshold,
    SimpleCompareFunc,
)
from polygraphy.domain.report.summary import round_up
from polygraphy.domain.results.results import IterationResult


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (L2Result(0.5, L2Threshold(1e-5)), "L2 Norm: 0.5 (tolerance: 1e-05)"),
        (PsnrResult(81.4829, PsnrThreshold(30)), "PSNR: 81.483 dB (min required: 30 dB)"),
        (PsnrResult(math.inf, PsnrThreshold(30)), "PSNR: inf dB (min required: 30 dB)"),
        (
            CosineSimilarityResult(0.9970001, CosineSimilarityThreshold(0.997)),
            "Cosine Similarity: 0.9970001 (min required: 0.997)",
        ),
        (L2Result(0.1), "L2 Norm: 0.1"),
        (L2Result(), "L2 Norm: None"),
    ],
)
def test_lines(result: Any, line: str) -> None:
    assert metric_line(result) == line


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_are_distinguished(value: float, limit: float) -> None:
    shown = brief_pair(value, limit, 5)
    assert value == limit or shown[0] != shown[1]
    assume(f"{value:.5g}" != f"{limit:.5g}")
    assert shown == (f"{value:.5g}", f"{limit:.5g}")


def test_neighbors_are_distinguished() -> None:
    assert brief_pair(1.0, 1.0 + 2**-52, 5) == ("1", "1.0000000000000002")
    assert brief_pair(0.9970001, 0.997, 5) == ("0.9970001", "0.997")


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_tolerance_that_is_proposed_would_pass(value: float) -> None:
    assert value <= float(round_up(value)) <= value * 1.11


def test_functions_are_named_unless_there_is_nothing_to_choose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = IterationResult({"y": np.ones(2)})
    for label, shown in (("simple", "PASSED | All"), ("l2", "PASSED | l2 | All")):
        results = SimpleCompareFunc()(outputs, outputs)
        pair = PairResult(("a", "b"), 0, label, results, (outputs, outputs))
        LogConsole().iteration_compared(pair)
        assert shown in capsys.readouterr().out
        verdict = AccuracyResult([(("a", "b"), [results])])
        verdict.label = label
        LogConsole().comparison_finished(verdict)
        named = "Accuracy Summary | l2 | a vs. b" in capsys.readouterr().out
        assert named is (label == "l2")
