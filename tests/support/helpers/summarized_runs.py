"""What the tests of `domain/test_summarizing.py` and others share."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.binding import bind
from polygraphy.comparator import Comparator, IterationResult, RunResults, SimpleCompareFunc
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.ports.reporting import Console


def compare_runs(*differences: float, function: Any = None, iterations: int = 1) -> AccuracyResults:
    """Return the comparison of two runs whose outputs y0, y1, ... differ by given errors.

    They differ in the last iteration.
    """
    runs = RunResults()
    for name, sign in (
        ("onnxrt-runner-N0-11/22/26-18:31:49", 1),
        ("onnx-runner-N0-11/22/26-18:31:49", 0),
    ):
        steps = []
        for index in range(iterations):
            last = index == iterations - 1
            steps.append(
                IterationResult(
                    {
                        f"y{number}": np.array([1.0, 2.0 + sign * last * difference], np.float32)
                        for number, difference in enumerate(differences)
                    }
                )
            )
        runs.append((name, steps))
    with bind(Console, RecordingConsole()):
        return Comparator.compare_accuracy(runs, compare_func=function or SimpleCompareFunc())
