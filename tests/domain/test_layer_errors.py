"""What is said about each output of a model."""

from __future__ import annotations

import math

import numpy as np

from polygraphy.domain.accuracy.layer_errors import LayerError, first_failure, layer_errors
from polygraphy.domain.compare import SimpleCompareFunc, UncomparedResult
from polygraphy.domain.results.results import IterationResult


def answers(**differences: float) -> dict[str, object]:
    ones = {name: np.ones(2, np.float32) for name in differences}
    others = {name: np.array([1, 1 + d], np.float64) for name, d in differences.items()}
    return dict(SimpleCompareFunc(atol=0.4)(IterationResult(ones), IterationResult(others)))


def test_the_largest_difference_of_all_iterations_counts() -> None:
    a, b = layer_errors([answers(a=0.25, b=0.0), answers(a=0.5)])
    assert a == LayerError("a", ("float32", "float64"), ((2,),), 0.5, 0.5 / 1.5, False)
    assert (b.name, b.absolute, b.relative, b.passed) == ("b", 0.0, 0.0, True)


def test_nan_is_larger_than_any_number() -> None:
    [error] = layer_errors([answers(a=math.nan), answers(a=1e30)])
    assert error.absolute is not None and math.isnan(error.absolute)


def test_what_has_no_metric_has_no_number() -> None:
    [a, b] = layer_errors([{"a": True, "b": UncomparedResult("missing")}])
    assert a == LayerError("a", (), (), None, None, True)
    assert b == LayerError("b", (), (), None, None, False)


def test_the_first_failure_is_that_of_the_first_iteration_that_has_one() -> None:
    passing, failing = answers(a=0.0, b=0.0), answers(a=0.0, b=1.0)
    assert first_failure([passing, failing]) == (1, "b")
    assert first_failure([passing]) is None
