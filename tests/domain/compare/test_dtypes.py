"""Every comparison function on every data type and layout: its metrics are those of the same
numbers as float64, which holds all of the narrow ones exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.compare import (
    BiasCompareFunc,
    CosineSimilarityCompareFunc,
    L2CompareFunc,
    NonFiniteCompareFunc,
    NormalizedL2CompareFunc,
    OutputCompareResult,
    PsnrCompareFunc,
    SimpleCompareFunc,
    SnrCompareFunc,
    SqnrCompareFunc,
)
from polygraphy.domain.results.results import IterationResult
from tests.domain.arithmetic.strategies import FLOATS, NUMBERS, arrays, relaid, shapes
from tests.support.examples import scaled

FUNCTIONS = [
    SimpleCompareFunc(check_error_stat=["max", "mean", "median", "quantile"]),
    BiasCompareFunc(),
    CosineSimilarityCompareFunc(),
    L2CompareFunc(),
    NonFiniteCompareFunc(),
    NormalizedL2CompareFunc(),
    PsnrCompareFunc(),
    SnrCompareFunc(),
    SqnrCompareFunc(),
]
NARROW = [dtype for dtype in NUMBERS if dtype.name not in ("int64", "uint64")]
WITH_NAN = [dtype for dtype in FLOATS if np.isnan(np.array([np.nan]).astype(dtype).astype("f8"))[0]]


def compared(function: Any, a: Any, b: Any) -> Any:
    (result,) = function(IterationResult({"y": a}), IterationResult({"y": b})).values()
    return result


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return (math.isnan(one) and math.isnan(other)) or one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_metrics_are_those_of_the_same_numbers_in_float64(
    function: Any, data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from(NARROW))
    shape = data.draw(shapes())
    a, b = (data.draw(arrays(dtype, shape)) for _ in range(2))
    wide = compared(function, a.astype(np.float64), b.astype(np.float64))
    found = compared(function, data.draw(relaid(a)), data.draw(relaid(b)))
    metrics, expected = found.metric_values(), wide.metric_values()
    assert list(metrics) == list(expected)
    for name, metric in metrics.items():
        assert same(metric, expected[name]), (name, metric, expected[name])
    if not any(math.isnan(metric) for metric in metrics.values() if metric is not None):
        return
    if isinstance(found, OutputCompareResult) and not any(
        map(math.isnan, found.required_tolerances("max"))
    ):
        return  # Of a NaN without a finite neighbor, say, the median alone is none.
    assert not found, "a NaN metric never passes"


@pytest.mark.parametrize("dtype", WITH_NAN, ids=str)
def test_nan_never_passes(dtype: np.dtype[Any]) -> None:
    a = np.array([1, np.nan]).astype(dtype)
    b = np.array([1, 1]).astype(dtype)
    for function in (*FUNCTIONS, SimpleCompareFunc(atol=math.inf, rtol=math.inf)):
        for pair in ((a, b), (b, a)):
            assert not compared(function, *pair), type(function).__name__


@settings(max_examples=scaled(100), deadline=None)
@given(data=st.data())
def test_the_worst_element_is_where_an_exact_search_finds_it(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMBERS))
    shape = data.draw(shapes(min_size=1))
    a, b = (data.draw(arrays(dtype, shape)) for _ in range(2))
    result = compared(SimpleCompareFunc(rtol=0, atol=0), data.draw(relaid(a)), data.draw(relaid(b)))
    is_whole = dtype.kind in "biu" or dtype.name.startswith(("int", "uint"))
    # Python's integers are of any size; floats are compared by what they are.
    convert: Any = int if is_whole else float
    values = [(convert(x), convert(y)) for x, y in zip(a.reshape(-1), b.reshape(-1))]
    differing = [i for i, (x, y) in enumerate(values) if x != y or math.isinf(x)]
    assert result.mismatches.count == len(differing)
    if not differing:
        assert result.mismatches.worst is None and result
        return
    index = np.ravel_multi_index(result.mismatches.worst.index, shape) if shape else 0
    assert index in differing
    if is_whole:
        assert result.max_absdiff == float(max(abs(x - y) for x, y in values))
