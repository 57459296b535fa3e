"""How the lines about an iteration are written."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from polygraphy.comparator import Comparator, IterationResult, RunResults


class Stream(io.StringIO):
    """A stream that counts what is handed to the system."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0

    def flush(self) -> None:
        super().flush()
        self.flushes += 1


@pytest.mark.parametrize(("size", "together"), [(16, True), (1 << 13, False)])
def test_lines_about_small_outputs_are_written_together(
    monkeypatch: pytest.MonkeyPatch, size: int, together: bool
) -> None:
    out = Stream()
    monkeypatch.setattr(sys, "stdout", out)
    outputs = [IterationResult({"y": np.ones(size)}, runner_name="r")] * 10
    assert Comparator.compare_accuracy(RunResults([("a", outputs), ("b", outputs)]))
    lines = out.getvalue().splitlines()
    assert sum("Comparing Output" in line for line in lines) == 10
    assert len(lines) > 100
    assert (out.flushes < 20) == together
