"""Runners, data and results in few words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polygraphy.adapters.fake import FakeRunner
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.metadata import TensorMetadata

__all__ = ["INPUTS", "counting_up", "doubler", "feed", "iteration", "results", "values"]

INPUTS = TensorMetadata().add("x", np.float32, ["n"])


def feed(*numbers: float) -> dict[str, Any]:
    """Return data for `INPUTS`."""
    return {"x": np.array(numbers, dtype=np.float32)}


def doubler(name: str, **how: Any) -> FakeRunner:
    """Return a runner of y = 2 * x."""
    return FakeRunner(lambda given: {"y": given["x"] * 2}, INPUTS, name=name, **how)


def counting_up(count: int) -> Iterator[dict[str, Any]]:
    """Yield the data [0], [1], ... from a generator, which can be asked only once."""
    for index in range(count):
        yield feed(index)


def iteration(runner: str = "r", **outputs: Any) -> IterationResult:
    """Return one iteration; outputs may be given as lists."""
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    return IterationResult(arrays, 0.5, runner)


def results(**runs: list[Any]) -> RunResults:
    """Return results of several runners: for each the value of its output y per iteration."""
    return RunResults(
        (name, [iteration(name, y=value) for value in run]) for name, run in runs.items()
    )


def values(run_results: RunResults) -> dict[str, list[list[float]]]:
    """Return the values of y per runner and iteration."""
    return {name: [it["y"].tolist() for it in iterations] for name, iterations in run_results}
