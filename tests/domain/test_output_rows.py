"""Rows per output over all iterations, against what NumPy says of all arrays at once."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult, first_failure
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRows
from polygraphy.domain.compare.indices import IndicesCompareFunc
from polygraphy.domain.compare.metrics import L2CompareFunc
from polygraphy.domain.compare.result import UncomparedResult
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.results.results import IterationResult
from tests.support.examples import scaled

NAMES = ("onnxrt-runner-N0", "trt-runner-N0")


def outputs(**values: Any) -> IterationResult:
    return IterationResult({name: np.asarray(value) for name, value in values.items()})


def folded(function: Any, *steps: tuple[IterationResult, IterationResult]) -> OutputRows:
    rows = OutputRows(NAMES)
    for index, (first, second) in enumerate(steps):
        answers = function(first, second)
        rows.add(index, answers)
        for answer in answers.values():
            answer.settle()
    return rows


@settings(max_examples=scaled(60), deadline=None)
@given(
    st.lists(
        st.tuples(*[arrays(np.float32, 6, elements=st.floats(-9, 9, width=32))] * 2),
        min_size=1,
        max_size=5,
    )
)
def test_maxima_counts_and_worst_iteration_are_those_of_all_iterations(pairs: Any) -> None:
    [row] = folded(
        SimpleCompareFunc(atol=0.5, rtol=0.1),
        *((outputs(y=a), outputs(y=b)) for a, b in pairs),
    ).rows()
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs]
    absolute = [np.abs(a - b) for a, b in wide]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = [(d > 0.5) & ~(d <= 0.1 * np.abs(b)) for d, (_, b) in zip(absolute, wide)]
    assert row.absolute == pytest.approx(max(d.max() for d in absolute), rel=1e-6)
    assert row.total == len(pairs)
    assert row.matched == sum(not far.any() for far in over)
    worst = row.worst
    assert worst.iteration is not None
    assert worst.mismatched == over[worst.iteration].sum()
    assert row.passed == (worst.element is None)
    if worst.element is not None:
        [place] = worst.element.index
        assert over[worst.iteration][place]


def test_a_row_says_which_criterion_passed() -> None:
    function = SimpleCompareFunc(atol=1e-3, rtol=1e-3)
    by_abs = outputs(y=[1e-4, 1.0]), outputs(y=[2e-4, 1.0])
    by_rel = outputs(y=[1000.5]), outputs(y=[1000.0])
    equal = outputs(y=[1.0]), outputs(y=[1.0])
    kept = [
        folded(function, *steps).rows()[0].kept
        for steps in ([equal], [by_abs], [by_rel], [by_abs, by_rel], [by_abs, equal])
    ]
    assert kept == [{"abs", "rel"}, {"abs"}, {"rel"}, set(), {"abs"}]


def test_nan_and_infinity_are_counted_on_each_side() -> None:
    [row] = folded(
        SimpleCompareFunc(),
        (outputs(y=[1.0, 2.0]), outputs(y=[1.0, 2.0])),
        (outputs(y=[np.nan, np.inf]), outputs(y=[1.0, 2.0])),
    ).rows()
    assert row.absolute is not None and isnan(row.absolute)
    assert (row.worst.iteration, row.worst.excess) == (1, inf)
    assert row.worst.non_finite == ((1, 1), (0, 0))


def test_of_other_metrics_the_worst_value_is_reported() -> None:
    steps = [(outputs(y=[0.0, size]), outputs(y=[0.0, 0.0])) for size in (1.0, 3.0, 2.0)]
    [row] = folded(L2CompareFunc(0.5), *steps).rows()
    assert (row.value, row.metric, row.matched, row.total) == (3.0, "L2 Norm", 0, 3)
    [row] = folded(IndicesCompareFunc(), (outputs(y=[1, 2]), outputs(y=[2, 1]))).rows()
    assert (row.worst.mismatched, row.worst.size) == (2, 2)


def test_what_was_not_compared_is_worst_and_says_why() -> None:
    rows = folded(SimpleCompareFunc(), (outputs(y=[0.0]), outputs(y=[9.0])))
    rows.add(1, {"y": UncomparedResult("it is missing")})
    rows.add(2, {})
    [row] = rows.rows()
    assert (row.worst.iteration, row.worst.reason) == (1, "it is missing")
    assert (rows.iterations, rows.empty) == (3, [2])


def test_parts_of_an_iteration_count_once_and_averages_are_rows_of_their_own() -> None:
    table, result = AccuracyTable(), AccuracyResult(aggregation="average")
    function = SimpleCompareFunc(check_error_stat="max", atol=2.5)
    log = result.start(NAMES)
    for index, size in enumerate((1.0, 3.0)):
        for name in ("a", "b"):
            sides = outputs(**{name: [size]}), outputs(**{name: [0.0]})
            answers = function(*sides)
            table.add(PairResult(NAMES, index, "simple", answers, sides, is_judged=False))
            if name == "a":
                log.add(answers)
            else:
                log.extend_last(answers)
    [rows] = table.tables(result)
    assert rows.iterations == 2
    assert [(row.name, row.absolute, row.passed, row.worst.iteration) for row in rows.rows()] == [
        ("a", 2.0, True, None),
        ("b", 2.0, True, None),
    ]
    assert [row.absolute for row in AccuracyTable.of(result)[0].rows()] == [2.0, 2.0]


def apart(**differences: float) -> dict[str, Any]:
    ones = outputs(**{name: np.ones(2, np.float32) for name in differences})
    others = {name: np.array([1, 1 + each], np.float64) for name, each in differences.items()}
    return dict(SimpleCompareFunc(atol=0.4)(ones, outputs(**others)))


def test_the_largest_difference_of_all_iterations_counts() -> None:
    rows = OutputRows(NAMES)
    rows.add(0, apart(a=0.25, b=0.0))
    rows.add(1, apart(a=0.5))
    a, b = rows.rows()
    assert (a.name, a.absolute, a.relative, a.passed) == ("a", 0.5, 0.5 / 1.5, False)
    assert (a.dtypes, a.shapes) == (("float32", "float64"), ((2,),))
    assert (b.name, b.absolute, b.relative, b.passed) == ("b", 0.0, 0.0, True)


def test_nan_is_larger_than_any_number() -> None:
    rows = OutputRows(NAMES)
    rows.add(0, apart(a=nan))
    rows.add(1, apart(a=1e30))
    [row] = rows.rows()
    assert row.absolute is not None and isnan(row.absolute)


def test_what_has_no_metric_has_no_number() -> None:
    rows = OutputRows(NAMES)
    rows.add(0, {"a": True, "b": UncomparedResult("missing")})
    a, b = rows.rows()
    assert (a.dtypes, a.shapes, a.absolute, a.relative, a.passed) == ((), (), None, None, True)
    assert (b.dtypes, b.shapes, b.absolute, b.relative, b.passed) == ((), (), None, None, False)


def test_the_differences_of_anybodys_answers_count() -> None:
    class Answer:
        max_absdiff, max_reldiff = 0.5, 0.25

    rows = OutputRows(NAMES)
    rows.add(0, {"a": Answer()})
    [row] = rows.rows()
    assert (row.absolute, row.relative) == (0.5, 0.25)


def test_the_first_failure_is_that_of_the_first_iteration_that_has_one() -> None:
    passing, failing = apart(a=0.0, b=0.0), apart(a=0.0, b=1.0)
    assert first_failure([passing, failing]) == (1, "b")
    assert first_failure([passing, {}, failing]) == (1, None)
    assert first_failure([passing]) is None
