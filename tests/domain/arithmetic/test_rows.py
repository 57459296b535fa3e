"""Small arrays, which are described several at a time."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Difference, Summary, difference, summarize, summary
from polygraphy.domain.arithmetic.summary import describe_rows
from tests.domain.arithmetic.strategies import NUMBERS, arrays, shapes
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]


def assert_same(one: Summary, other: Summary) -> None:
    """Assert that two summaries agree, but for the last digits of sums."""
    sums = {"mean": 0.0, "std": 0.0, "var": 0.0, "avg_magnitude": 0.0}
    assert str(attrs.evolve(one, **sums)) == str(attrs.evolve(other, **sums))
    scale = max(abs(one.min), abs(one.max), 0.0) if one.size > one.nan else 0.0
    for name in sums:
        unit = scale * scale if name == "var" and math.isfinite(scale * scale) else scale
        found, expected = getattr(one, name), getattr(other, name)
        assert (
            str(found) == str(expected)  # NaN, too.
            or math.isclose(found, expected, rel_tol=1e-7, abs_tol=unit * 1e-12)
            or not math.isfinite(unit)
        ), name


@settings(max_examples=scaled(60), deadline=None)
@given(st.data())
def test_the_same_as_one_by_one(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_size=1))
    a, b = (data.draw(arrays(data.draw(st.sampled_from(NUMBERS)), shape)) for _ in range(2))
    together, alone = Difference(a, b), Difference(a, b)
    mismatches = together.measure(1e-3, 1e-3)
    found = [*together.summaries(), *together.operands()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "LONGEST", 0)
        patch.setattr(difference, "LONGEST", 0)
        assert str(mismatches) == str(alone.measure(1e-3, 1e-3))
        expected = [*alone.summaries(), *alone.operands()]
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_all_at_once() -> None:
    values = np.array([[3.0, -1.0, 0.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    described = describe_rows(values, (0.0, 0.25, 1.0))
    assert described is not None
    first, second = described
    assert first[:6] == (-1.0, 3.0, 1, 0, 0.8, pytest.approx(2.16))
    assert first[6:] == (1.2, 2, 0.0, {0.0: -1.0, 0.25: 0.0, 1.0: 3.0})
    assert second == (1.0, 1.0, 0, 0, 1.0, 0.0, 1.0, 0, 1.0, {0.0: 1.0, 0.25: 1.0, 1.0: 1.0})


def test_rows_without_zeros_have_none() -> None:
    described = describe_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), (0.5,))
    assert described is not None
    assert [row[7] for row in described] == [0, 0]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e200, 1.7e308])
def test_what_needs_more_care_is_left_to_others(odd: float) -> None:
    with np.errstate(all="ignore"):
        assert describe_rows(np.array([[1.0, 2.0], [odd, -odd]]), (0.5,)) is None
    assert summarize(np.array([1.0, 2.0, odd])).size == 3


def test_operands_of_every_size() -> None:
    for size in (1, 5000, 40000):
        a = np.arange(size, dtype=np.float32)
        pair = Difference(a, a + 1)
        pair.measure(0, 0)
        value, reference = pair.operands()
        assert (value.max, reference.max) == (size - 1, size)
        assert value.argmax == reference.argmax == (size - 1,)


def test_operands_that_are_no_numbers() -> None:
    pair = Difference(np.array(["a", "b"]), np.array(["a", "c"]))
    assert pair.measure(0, 0).count == 1
    assert [side.size for side in pair.operands()] == [2, 2]
    assert math.isnan(pair.operands()[0].mean)
