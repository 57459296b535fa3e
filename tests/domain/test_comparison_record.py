from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from polygraphy.domain.accuracy.accuracy import PairResult
from polygraphy.domain.accuracy.summarizing import ComparisonRecord
from polygraphy.domain.compare import L2CompareFunc, SimpleCompareFunc
from polygraphy.domain.results.results import IterationResult


def add(
    record: ComparisonRecord,
    value: Any,
    reference: Any,
    *,
    function: Any = None,
    iteration: int = 0,
) -> None:
    outputs = (
        IterationResult({"y": np.asarray(value)}, runner_name="a"),
        IterationResult({"y": np.asarray(reference)}, runner_name="b"),
    )
    compare = function or SimpleCompareFunc()
    results = compare(*outputs)
    record.add(PairResult(("a", "b"), iteration, compare.label, results, outputs))


@pytest.mark.parametrize("function", [SimpleCompareFunc(), L2CompareFunc()])
def test_one_comparison(function: Any) -> None:
    record = ComparisonRecord()
    add(record, [1.0, 2.0], [1.0, 4.0], function=function)
    [(name, found)] = record.as_dict().items()
    assert name == "y"
    assert (found["max_error"], found["mean_error"], found["passed"]) == (2, 1, False)
    assert found["error_distribution"]["max"] == 2
    assert sum(found["error_distribution"]["histogram"]["counts"]) == 2
    assert "pairs" not in found


def test_several_functions_must_all_pass() -> None:
    record = ComparisonRecord()
    add(record, [1.0], [1.5], function=L2CompareFunc(1))
    assert record.as_dict()["y"]["passed"]
    add(record, [1.0], [1.5], function=L2CompareFunc(0.1))
    assert not record.as_dict()["y"]["passed"]


def test_the_worst_iteration_stands_for_the_output() -> None:
    record = ComparisonRecord()
    for iteration, reference in enumerate([1.0, 3.0, 2.0]):
        add(record, [1.0], [reference], iteration=iteration)
    found = record.as_dict()["y"]
    assert found["max_error"] == 2
    assert [pair["max_error"] for pair in found["pairs"]] == [0, 2, 1]
    assert [pair["iteration"] for pair in found["pairs"]] == [0, 1, 2]
    add(record, [math.nan], [1.0], iteration=3)
    assert math.isnan(record.as_dict()["y"]["max_error"])


def test_what_cannot_be_compared_is_the_worst() -> None:
    record = ComparisonRecord()
    add(record, [1.0], [9.0])
    add(record, [1.0], [1.0, 2.0], iteration=1)
    found = record.as_dict()["y"]
    assert (found["max_error"], found["error_distribution"], found["passed"]) == (None, None, False)
