"""Histograms against `np.histogram`."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Difference, histogram, joint_range
from tests.domain.arithmetic.strategies import NUMBERS, arrays, shapes, tiny_blocks
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]


@settings(max_examples=scaled(200), deadline=None)
@given(
    st.data(),
    st.sampled_from([1, 2, 10, 30]),
    st.sampled_from([None, (0.0, 1.0), (-2.0, 3.0), (1.0, 1.0)]),
    st.booleans(),
)
def test_counts_are_those_of_numpy(
    data: st.DataObject, bins: int, bounds: tuple[float, float] | None, tiny: bool
) -> None:
    array = data.draw(arrays(data.draw(st.sampled_from(NUMBERS)), data.draw(shapes())))
    values = array.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    # Beyond that numpy's edges are not finite, or not apart.
    assume(not finite.size or float(np.abs(finite).max()) < 1e15)
    with tiny_blocks() if tiny else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = histogram(array, bins, bounds)
    counts, edges = np.histogram(finite, bins, bounds)
    assert found.edges == tuple(edges.tolist())
    assert found.nonfinite == values.size - finite.size
    assert sum(found.counts) + found.outside == finite.size
    # An index computed by numpy may be off by one beside an edge before it is corrected, and after.
    expected = [np.count_nonzero(finite < edge) for edge in edges[:-1]]
    expected.append(np.count_nonzero(finite <= edges[-1]))
    assert found.counts == tuple(np.diff(expected).tolist())
    assert np.abs(np.subtract(found.counts, counts)).sum() <= 2


@pytest.mark.parametrize("bins", [10, 50])
def test_huge_and_tiny_ranges(bins: int) -> None:
    top = np.finfo(np.float64).max
    found = histogram(np.array([-top, 0.0, top, math.inf, -math.inf, math.nan]), bins)
    assert sum(found.counts) == 3 and found.nonfinite == 3
    assert found.edges[0] == -top and found.edges[-1] == top
    assert sum(histogram(np.array([1e300, 1e300]), bins).counts) == 2
    assert sum(histogram(np.array([5e-324, 0.0]), bins).counts) == 2


def test_nothing_finite() -> None:
    found = histogram(np.array([math.nan, math.inf]), 4)
    assert (found.counts, found.nonfinite) == ((0, 0, 0, 0), 2)
    assert found.edges == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert histogram(np.array([]), 2).counts == (0, 0)
    assert histogram(np.array(["a"]), 2).nonfinite == 1


@pytest.mark.parametrize("bins", [10, 50])
def test_edges_are_not_rounded_to_float32(bins: int) -> None:
    # As float32, 0.7 is less than 0.7.
    found = histogram(np.array([0.7], np.float32), bins, (0.0, 1.0))
    assert found.counts.index(1) == 7 * bins // 10 - 1


def test_joint_range() -> None:
    a, b = np.array([1.0, math.inf, 3.0]), np.array([[7], [-2]], np.int8)
    assert joint_range(a, b) == (-2.0, 7.0)
    assert joint_range(np.array([math.nan]), b) == (-2.0, 7.0)
    assert joint_range(np.array([]), np.array(["a"])) is None


def test_histograms_of_differences() -> None:
    a = np.array([1.0, 2.0, 4.0, 8.0, math.nan])
    b = np.array([1.0, 1.0, 2.0, 0.0, 1.0])
    for blocks in (nullcontext(), tiny_blocks(block=2, sample=2)):
        with blocks:
            absolute = Difference(a, b).absolute_histogram(4)
            relative = Difference(a, b).relative_histogram(2)
        assert absolute.edges == (0.0, 2.0, 4.0, 6.0, 8.0)
        assert (absolute.counts, absolute.nonfinite) == ((2, 1, 0, 1), 1)
        assert (relative.counts, relative.nonfinite) == ((1, 2), 2)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_ranges_must_be_finite_and_ascending(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="finite, ascending"):
        histogram(np.zeros(2), 3, bounds)


def test_bins_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least one bin"):
        histogram(np.zeros(2), 0)
