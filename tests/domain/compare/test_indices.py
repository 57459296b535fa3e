from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.compare import IndicesCompareFunc, IndicesResult, UncomparedResult
from polygraphy.domain.compare.indices import Misplaced
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.results.results import IterationResult


def compare(value: Any, reference: Any, tolerance: Any = None) -> Any:
    function = IndicesCompareFunc(tolerance)
    results = function(
        IterationResult({"y": np.asarray(value)}), IterationResult({"y": np.asarray(reference)})
    )
    return results["y"]


@pytest.mark.parametrize(
    ("value", "reference", "tolerance", "passed"),
    [
        ([3, 1, 2], [3, 1, 2], 0, True),
        ([3, 1, 2], [1, 3, 2], 0, False),
        ([3, 1, 2], [1, 3, 2], 1, True),
        ([1, 2, 3, 4], [3, 2, 1, 4], 1, False),
        ([1, 2, 3, 4], [3, 2, 1, 4], 2, True),
        ([1, 2, 3], [1, 2, 9], 1, True),  # The last entry may have been pushed out.
        ([1, 2, 3], [1, 9, 2], 1, True),
        ([1, 2, 3], [9, 2, 3], 1, False),
        ([[1, 2], [3, 4]], [[1, 2], [4, 3]], 0, False),
        ([[1, 2], [3, 4]], [[1, 2], [4, 3]], 1, True),
        ([[1, 2], [3, 4]], [[3, 4], [1, 2]], 1, False),
        (7, 7, 0, True),
        (7, 8, 0, False),
        ([5, 5, 5, 3], [5, 5, 3, 5], 1, True),  # The nearest of equal entries counts.
        (["a", "b"], ["a", "b"], 0, True),
        ([np.nan], [np.nan], 0, False),
        (np.zeros((2, 0)), np.zeros((2, 0)), 0, True),
    ],
)
def test_entries_may_be_a_few_places_away(
    value: Any, reference: Any, tolerance: int, passed: bool
) -> None:
    result = compare(value, reference, tolerance)
    assert isinstance(result, IndicesResult)
    assert bool(result) is passed


def test_the_first_misplaced_entry_is_reported() -> None:
    result = compare([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 9, 5]])
    assert (result.size, result.count) == (6, 2)
    assert result.first == Misplaced((1, 1), 5, 2)
    assert compare([1, 2], [3, 4]).first == Misplaced((0,), 1, None)
    assert compare(1, 2).first == Misplaced((), 1, None)


def test_a_tolerance_that_leaves_nothing_to_compare_fails() -> None:
    result = compare([1, 2, 3], [4, 5, 6], 3)
    assert isinstance(result, UncomparedResult)
    assert "is too large for lists of 3 entries" in result.reason


def test_shapes_must_match() -> None:
    assert isinstance(compare([1, 2], [[1, 2]]), UncomparedResult)


@pytest.mark.parametrize("bad", [-1, 0.5, True, "1", {"y": -1}])
def test_a_tolerance_is_a_whole_number(bad: Any) -> None:
    with pytest.raises(UsageError, match="An index tolerance must be a whole number of at least 0"):
        IndicesCompareFunc(bad)


def test_tolerances_differ_from_output_to_output() -> None:
    one = IterationResult({"x": np.array([1, 2]), "y": np.array([1, 2])})
    other = IterationResult({"x": np.array([2, 1]), "y": np.array([2, 1])})
    results = IndicesCompareFunc({"x": 1})(one, other)
    assert {name: bool(result) for name, result in results.items()} == {"x": True, "y": False}
    assert list(IndicesCompareFunc(fail_fast=True)(one, other)) == ["x"]
    with pytest.raises(UnknownNameError):
        IndicesCompareFunc({"z": 1})(one, other)


def test_signed_and_unsigned_are_compared_exactly() -> None:
    large = 2**63 - 1
    assert compare(np.array([large], np.int64), np.array([large], np.uint64))
    assert not compare(np.array([large], np.int64), np.array([large + 1], np.uint64))
    assert not compare(np.array([-1], np.int64), np.array([2**64 - 1], np.uint64))
    assert compare(np.array([1, -2], ml_dtypes.int4), np.array([1, -2], np.int64))


def naive(value: Any, reference: Any, tolerance: int) -> bool:
    """The same, element by element."""
    for left, right in zip(value, reference):
        for place, entry in enumerate(left[: len(left) - tolerance]):
            nearby = right[max(place - tolerance, 0) : place + tolerance + 1]
            if entry not in nearby:
                return False
    return True


@given(st.data(), st.integers(1, 6), st.integers(0, 5))
def test_it_does_what_a_loop_does(data: st.DataObject, length: int, tolerance: int) -> None:
    tolerance = min(tolerance, length - 1)
    arrays = hnp.arrays(np.int64, (2, length), elements=st.integers(0, 3))
    value, reference = data.draw(arrays), data.draw(arrays)
    assert bool(compare(value, reference, tolerance)) is naive(value, reference, tolerance)
