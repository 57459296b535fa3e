"""Differences of small arrays, which outlive the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Difference, difference
from polygraphy.domain.arithmetic.difference import MOST_KEPT, KeptDifferences
from polygraphy.domain.arithmetic.passes import streams
from polygraphy.domain.arithmetic.passes.together import form_together
from tests.domain.arithmetic.strategies import NUMBERS, arrays, shapes
from tests.support.examples import scaled

LATER = ("mean_abs", "mean_rel", "median_abs", "median_rel")
AT_ONCE = ("max_abs", "max_rel")


def metrics(of: Any, names: tuple[str, ...]) -> str:
    """Return metrics to the last bit, as text: NaN equals NaN."""
    return str([getattr(of, name)() for name in names])


@st.composite
def operands(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    shape = draw(shapes(min_size=1))
    one, other = (draw(arrays(draw(st.sampled_from(NUMBERS)), shape)) for _ in range(2))
    return one, draw(st.sampled_from([one, other]))


@settings(max_examples=scaled(60), deadline=None)
@given(st.lists(operands(), min_size=1, max_size=6), st.booleans())
def test_later_metrics_are_those_of_the_arrays(many: Any, together: bool) -> None:
    kept = []
    for one, other in many:
        alone = Difference(one, other)
        alone.mismatches(1e-5, 1e-5)
        each = alone.without_operands()
        assert each is not None
        kept.append(each)
    if together:
        KeptDifferences.find_medians(kept)
    for each, operand in zip(kept, many):
        assert metrics(each, LATER) == metrics(Difference(*operand), LATER)


@st.composite
def operands_of_one_shape(draw: st.DrawFn) -> list[tuple[np.ndarray[Any, Any], ...]]:
    shape = draw(shapes(min_size=1))
    dtypes = draw(st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=2))
    count = draw(st.integers(1, 7))
    return [tuple(draw(arrays(dtype, shape)) for dtype in dtypes) for _ in range(count)]


@settings(max_examples=scaled(60), deadline=None)
@given(operands_of_one_shape(), st.booleans(), st.booleans(), st.sampled_from([0.0, 1e-5, 0.5]))
def test_differences_formed_together_are_those_of_each(
    many: Any, infinities_equal: bool, with_medians: bool, limit: float
) -> None:
    together = [
        Difference(*each, infinities_equal=infinities_equal, formed=formed)
        for each, formed in zip(many, form_together(many))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difference, "MOST_KEPT", 0)
        if with_medians:
            Difference.find_medians(together)
    for operand, each in zip(many, together):
        alone = Difference(*operand, infinities_equal=infinities_equal)
        known = each.metrics_without_pass()
        assert str(each.mismatches(limit, limit)) == str(alone.mismatches(limit, limit))
        expected = metrics(alone, (*AT_ONCE, *LATER))
        assert metrics(each, (*AT_ONCE, *LATER)) == expected
        if known is not None:
            order = (0, 2, 4, 1, 3, 5)
            names = ("max_abs", "mean_abs", "median_abs", "max_rel", "mean_rel", "median_rel")
            assert str([known[at] for at in order]) == metrics(alone, names)


def test_many_small_arrays_need_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(np.full((2, 200), 1.0, "f"), np.full((2, 200), 2.0, "f")) for _ in range(5)]
    together = [Difference(*each, formed=formed) for each, formed in zip(both, form_together(both))]
    monkeypatch.setattr(streams.Kernel, "load", None)  # Whoever passes over an array fails.
    assert [each.metrics_without_pass() for each in together] == [
        (1.0, 0.5, 1.0, 0.5, 1.0, 0.5)
    ] * 5
    assert [each.mismatches(1e-5, 1e-5).count for each in together] == [400] * 5


@pytest.mark.parametrize(("size", "is_formed"), [(200, False), (512, True)])
def test_an_array_of_some_size_is_formed_alone(size: int, is_formed: bool) -> None:
    [formed] = form_together([(np.full(size, 1.0, "f"), np.full(size, 2.0, "f"))])
    assert (formed is not None) == is_formed


@settings(max_examples=scaled(60), deadline=None)
@given(operands(), st.sampled_from([0.0, 1e-5, 0.5]), st.sampled_from(["either", "sum"]))
def test_small_arrays_have_the_verdict_of_large_ones(both: Any, limit: float, formula: Any) -> None:
    small, large = Difference(*both), Difference(*both)
    found = small.mismatches(limit, limit, formula)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "KEPT", 0)
        assert str(found) == str(large.mismatches(limit, limit, formula))
        expected = metrics(large, (*AT_ONCE, *LATER))
    assert metrics(small, (*AT_ONCE, *LATER)) == expected


def test_only_a_few_differences_are_kept() -> None:
    array = np.zeros(MOST_KEPT + 1)
    assert Difference(array, array).without_operands() is None
    assert Difference(array[1:], array[1:]).without_operands() is not None
    assert Difference(array[:0], array[:0]).without_operands() is None


def test_what_is_known_is_not_computed_later() -> None:
    """A summary adds in another order: a metric stays what it was when it was first shown."""
    difference = Difference(np.ones(3), np.zeros(3))
    difference.measure(0, 0)
    assert difference.without_operands() is None
