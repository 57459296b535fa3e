"""Differences and mismatches against element-by-element arithmetic on exact numbers."""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Difference
from tests.domain.arithmetic import oracle
from tests.domain.arithmetic.strategies import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    arrays,
    relaid,
    shapes,
    tiny_blocks,
)
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]
TOLERANCES = st.sampled_from([0.0, 1e-5, 0.5, 1.0, 3.0, 255.0, 2.0**53, 2.0**63, 2.0**64])


@st.composite
def pairs(draw: st.DrawFn, dtypes: list[np.dtype[Any]]) -> tuple[Array, Array]:
    shape = draw(shapes())
    a = draw(arrays(draw(st.sampled_from(dtypes)), shape))
    b = draw(arrays(draw(st.sampled_from(dtypes)), shape))
    if draw(st.booleans()) and a.dtype == b.dtype:
        # Nearly equal arrays, as in practice.
        same = draw(st.lists(st.booleans(), min_size=a.size, max_size=a.size))
        b = np.where(np.array(same, bool).reshape(shape), a, b)
    return a, b


def same(found: float, expected: float) -> bool:
    return found == expected or (math.isnan(found) and math.isnan(expected))


def check_elements(difference: Difference, expected: oracle.Differences) -> None:
    for i, (absolute, relative) in enumerate(
        zip(expected.absolute, expected.relative, strict=True)
    ):
        element = difference.element(i)
        assert same(element.absolute, absolute), element
        assert same(element.relative, relative), element


def check_mismatches(difference: Difference, expected: oracle.Differences, limits: Any) -> None:
    atol, rtol = limits
    found = difference.mismatches(atol, rtol)
    positions = expected.mismatches(atol, rtol)
    assert found.count == len(positions)
    assert found.size == len(expected.exact)
    assert found.nan == sum(map(math.isnan, expected.absolute))
    if not positions:
        assert found.first is None and found.worst is None
        return
    assert found.first is not None
    assert found.first.index == np.unravel_index(positions[0], difference.shape)


def check_metrics(difference: Difference, expected: oracle.Differences) -> None:
    for name, values in (("abs", expected.absolute), ("rel", expected.relative)):
        metrics = {
            statistic: getattr(difference, f"{statistic}_{name}")()
            for statistic in ("max", "mean", "median")
        }
        metrics["quantile"] = getattr(difference, f"quantile_{name}")(0.9)
        if not values:
            assert set(metrics.values()) == {0.0}
        elif any(map(math.isnan, values)):
            assert all(map(math.isnan, metrics.values())), metrics
        else:
            assert metrics["max"] == max(values)
            assert same(metrics["median"], oracle.quantile(values, 0.5)) or (
                len(values) % 2 == 0
                and oracle.close(metrics["median"], oracle.quantile(values, 0.5), 1)
            )
            assert same(metrics["quantile"], oracle.quantile(values, 0.9))
            if math.inf in values:
                assert metrics["mean"] == math.inf
            else:
                assert oracle.close(metrics["mean"], oracle.mean(values))


@settings(max_examples=scaled(250), deadline=None)
@given(pairs(NUMBERS), st.booleans(), TOLERANCES, TOLERANCES, st.booleans())
def test_every_pair_of_dtypes(
    operands: tuple[Array, Array], equal: bool, atol: float, rtol: float, tiny: bool
) -> None:
    a, b = operands
    expected = oracle.differences(a, b, equal)
    with tiny_blocks() if tiny else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("error")
        difference = Difference(a, b, infinities_equal=equal)
        check_mismatches(difference, expected, (atol, rtol))
        check_metrics(difference, expected)
        if not tiny:
            check_elements(difference, expected)


@settings(max_examples=scaled(150), deadline=None)
@given(pairs(INTEGERS), st.integers(0, 2**65), st.booleans())
def test_integers_are_compared_exactly(
    operands: tuple[Array, Array], atol: int, tiny: bool
) -> None:
    a, b = operands
    exact = [abs(x - y) for x, y in zip(oracle.elements(a), oracle.elements(b), strict=True)]
    with tiny_blocks() if tiny else nullcontext():
        difference = Difference(a, b)
        for limit in (atol, *exact[:2], *(d - 1 for d in exact[:2] if d)):
            # No relative difference but 0 is within a relative tolerance of 0.
            assert difference.mismatches(limit, 0).count == sum(d > limit for d in exact)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (np.uint64(1), np.uint64(2), 1),
        (np.uint64(2**64 - 1), np.uint64(0), 2**64 - 1),
        (np.int64(-(2**63)), np.int64(2**63 - 1), 2**64 - 1),
        (np.int64(-(2**63)), np.uint64(2**64 - 1), 2**64 + 2**63 - 1),
        (np.uint64(2**64 - 1), np.int64(-1), 2**64),
        (np.uint64(5), np.int8(-3), 8),
        (np.bool_(True), np.uint64(2**64 - 1), 2**64 - 2),
        (np.bool_(True), np.int64(-(2**63)), 2**63 + 1),
        (np.uint32(2**32 - 1), np.int64(-1), 2**32),
        (np.int64(2**53 + 1), np.int64(0), 2**53 + 1),
    ],
)
def test_wide_integers_do_not_wrap(a: Any, b: Any, distance: int) -> None:
    difference = Difference(np.array([a, a]), np.array([b, b]))
    assert difference.max_abs() == float(distance)
    assert difference.mismatches(distance, 0).count == 0
    assert difference.mismatches(distance - 1, 0).count == 2


def test_bool_difference_is_exclusive_or() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    difference = Difference(a, b)
    assert [difference.element(i).absolute for i in range(4)] == [0, 1, 1, 0]
    assert [difference.element(i).relative for i in range(4)] == [0, math.inf, 1, 0]


@settings(max_examples=scaled(80), deadline=None)
@given(st.data())
def test_complex_numbers_differ_by_the_modulus(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    parts = [data.draw(arrays(np.dtype("f4"), shape)).astype("f8") for _ in range(4)]
    a, b = (np.empty(shape, data.draw(st.sampled_from(["c8", "c16"]))) for _ in range(2))
    a.real, a.imag, b.real, b.imag = parts
    equal = data.draw(st.booleans())
    expected = oracle.differences(a, b, equal)
    difference = Difference(a, b, infinities_equal=equal)
    for i in range(a.size):
        element = difference.element(i)
        assert same(element.absolute, expected.absolute[i]) or oracle.close(
            element.absolute, expected.absolute[i], 2
        )
        assert same(element.relative, expected.relative[i]) or oracle.close(
            element.relative, expected.relative[i], 4
        )


def test_a_complex_number_with_a_nan_part_is_nan() -> None:
    odd, one = np.array([complex(math.inf, math.nan)]), np.array([1.0])
    for a, b in ((odd, one), (one, odd), (odd, odd)):
        for equal in (False, True):
            difference = Difference(a, b, infinities_equal=equal)
            assert math.isnan(difference.max_abs()) and math.isnan(difference.max_rel())
    infinite = np.array([complex(math.inf, 1)])
    assert math.isnan(Difference(infinite, infinite).max_abs())
    assert Difference(infinite, infinite, infinities_equal=True).max_abs() == 0


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="longdouble is float64 here")
def test_longdouble_is_compared_as_such() -> None:
    one = np.longdouble(1)
    step = np.spacing(one)
    a, b = np.array([one + step, one, np.inf]), np.array([one, one, np.inf], np.float32)
    difference = Difference(a, b, infinities_equal=True)
    assert difference.max_abs() == float(step)
    assert difference.max_rel() == float(step)
    assert difference.mismatches(float(step), 0).count == 0
    assert difference.mismatches(float(step) / 2, 0).count == 1
    assert math.isnan(Difference(a, b).max_abs())
    tiny = np.array([np.longdouble("1e-4000")] * 2)
    # Too small for float64, and yet different.
    assert Difference(tiny, tiny * 2).mismatches(0, 0.4).count == 2
    assert Difference(tiny, tiny * 2).max_rel() == 0.5


@settings(max_examples=scaled(60), deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "", "ab", "é"]), max_size=40), st.data())
def test_strings_are_equal_or_not(words: list[str], data: st.DataObject) -> None:
    other = [data.draw(st.sampled_from([word, "z"])) for word in words]
    a, b = np.array(words, "U5"), np.array(other, "U3")
    count = sum(x != y for x, y in zip(words, other, strict=True))
    for left, right in ((a, b), (a.astype(object), b), (a.astype("O"), b.astype("O"))):
        with tiny_blocks():
            difference = Difference(left, right)
            assert difference.mismatches(0.5, 0.5).count == count
            assert difference.max_abs() == float(count > 0)
            assert difference.max_rel() == float(count > 0)


def test_strings_differ_from_numbers() -> None:
    assert Difference(np.array(["1", "2"]), np.array([1, 2])).mismatches(0, 0).count == 2


def test_objects_and_dates_are_equal_or_not() -> None:
    a = np.array([None, 1, "x", float("nan")], object)
    assert Difference(a, a.copy()).mismatches(0, 0).count == 1, "NaN is not equal to itself"
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    assert Difference(days, days[::-1]).mismatches(0.5, 0.5).count == 2


@settings(max_examples=scaled(150), deadline=None)
@given(st.data())
def test_memory_layout_does_not_matter(data: st.DataObject) -> None:
    a, b = data.draw(pairs(NUMBERS))
    left, right = data.draw(relaid(a)), data.draw(relaid(b))
    before = left.tobytes(), right.tobytes()
    with tiny_blocks() if data.draw(st.booleans()) else nullcontext():
        plain, other = Difference(a, b), Difference(left, right)
        assert str(plain.mismatches(0.1, 0.1)) == str(other.mismatches(0.1, 0.1))
        assert str(plain.summaries()) == str(other.summaries())
    assert (left.tobytes(), right.tobytes()) == before


@pytest.mark.slow
@settings(max_examples=scaled(200), deadline=None)
@given(pairs(FLOATS), st.sampled_from([0.0, 1e-3, 1.0, math.inf]), TOLERANCES, st.booleans())
def test_sum_formula_is_that_of_numpy(
    operands: tuple[Array, Array], rtol: float, atol: float, tiny: bool
) -> None:
    a, b = (x.astype(np.float64) for x in operands)
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
        share = rtol * np.abs(b)
        useless = np.isnan(share) | (np.isinf(b) & (rtol < math.inf))
        allowed = np.where(useless, atol, atol + share)
        far = ~(distance <= allowed)
    with tiny_blocks() if tiny else nullcontext():
        found = Difference(a, b).mismatches(atol, rtol, "sum")
    assert found.count == np.count_nonzero(far)
    if found.first is not None:
        assert found.first.index == tuple(np.argwhere(far)[0])
    finite = np.isfinite(a) & np.isfinite(b)
    if rtol < math.inf and finite.all():
        assert found.count == np.count_nonzero(~np.isclose(a, b, rtol, atol))


@settings(max_examples=scaled(200), deadline=None)
@given(pairs(FLOATS), st.sampled_from(["either", "sum"]), TOLERANCES, TOLERANCES, st.booleans())
def test_worst_exceeds_its_tolerance_the_most(
    operands: tuple[Array, Array], formula: Any, atol: float, rtol: float, tiny: bool
) -> None:
    a, b = (x.astype(np.float64).ravel() for x in operands)
    with tiny_blocks() if tiny else nullcontext():
        difference = Difference(a, b)
        found = difference.mismatches(atol, rtol, formula)
        worst = Difference(a, b).mismatches(atol, rtol, formula).worst
    if worst is None:
        return
    with np.errstate(all="ignore"):
        distance, share = np.abs(a - b), rtol * np.abs(b)
        ratio = np.where(distance == 0, 0, np.where(np.isinf(distance), np.inf, distance / abs(b)))
        share[np.isnan(share) | np.isinf(b)] = 0
        if formula == "sum":
            excess = distance - (atol + share)
            far = ~(distance <= atol + share)
        else:
            excess = distance - np.maximum(atol, share)
            far = ~(distance <= atol) & ~(ratio <= rtol)
    excess[np.isnan(excess)] = np.inf
    excess[~far] = -np.inf
    assert worst.index == np.unravel_index(excess.argmax(), a.shape)
    assert found.count == np.count_nonzero(far)
    assert same(worst.value, a[worst.index]) and same(worst.reference, b[worst.index])


def test_rules_of_infinity_nan_and_zero() -> None:
    inf, nan = math.inf, math.nan
    a = np.array([inf, inf, -inf, 1.0, nan, 0.0, 1.0, 0.0, nan])
    b = np.array([inf, -inf, 1.0, inf, 1.0, 0.0, 0.0, 1.0, nan])
    absolute = [nan, inf, inf, inf, nan, 0, 1, 1, nan]
    relative = [nan, inf, inf, inf, nan, 0, inf, 1, nan]
    for equal in (False, True):
        difference = Difference(a, b, infinities_equal=equal)
        if equal:
            absolute[0] = relative[0] = 0
        for i in range(a.size):
            element = difference.element(i)
            assert same(element.absolute, absolute[i]), element
            assert same(element.relative, relative[i]), element


@pytest.mark.parametrize("formula", ["either", "sum"])
def test_an_infinite_reference_excuses_nothing_but_itself(formula: Any) -> None:
    a, b = np.array([1.0, math.inf, 5.0]), np.array([math.inf, math.inf, 5.0])
    assert Difference(a, b).mismatches(1, 1, formula).count == 2
    assert Difference(a, b, infinities_equal=True).mismatches(1, 1, formula).count == 1
    assert Difference(a, b, infinities_equal=True).mismatches(math.inf, 0, formula).count == 0


def test_empty_arrays_have_no_mismatch_and_metrics_of_zero() -> None:
    empty = np.empty((0, 3), np.float32)
    difference = Difference(empty, empty)
    found = difference.mismatches(0, 0)
    assert (found.count, found.size, found.first, found.worst) == (0, 0, None, None)
    assert difference.max_abs() == difference.mean_rel() == difference.median_abs() == 0
    assert difference.quantile_rel(0.99) == 0
    absolute, relative = difference.summaries()
    assert absolute.size == 0 and math.isnan(absolute.mean) and relative.argmax is None


def test_a_scalar_array_has_an_empty_index() -> None:
    difference = Difference(np.array(3.0), np.array(1.0))
    found = difference.mismatches(0, 0)
    assert found.first is not None and found.first.index == ()
    assert difference.absolute().argmax == ()


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) and \(1, 2\)"):
        Difference(np.zeros(2), np.zeros((1, 2)))


@pytest.mark.parametrize("limits", [(-1, 0), (0, -1), (math.nan, 0), (0, math.nan)])
def test_tolerances_must_not_be_negative(limits: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="tol must be"):
        Difference(np.zeros(2), np.zeros(2)).mismatches(*limits)


def test_unknown_formula_is_refused() -> None:
    with pytest.raises(ValueError, match="neither"):
        Difference(np.zeros(2), np.zeros(2)).mismatches(0, 0, "neither")  # type: ignore[arg-type]


def test_probabilities_must_be_probabilities() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Difference(np.zeros(2), np.zeros(2)).quantile_abs(1.5)
    with pytest.raises(ValueError, match="from 0 to 1"):
        Difference(np.zeros(2), np.zeros(2)).absolute([math.nan])


def test_ml_dtypes_is_not_imported_for_plain_arrays() -> None:
    import subprocess

    code = (
        "import sys, numpy as np\n"
        "from polygraphy.domain.arithmetic import Difference, summarize\n"
        "Difference(np.ones(3, 'f4'), np.ones(3, 'i8')).summaries(); summarize(np.ones(3))\n"
        "print('ml_dtypes' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.longdouble])
@pytest.mark.parametrize("size", [1, 100_000])
def test_what_is_apart_by_more_than_float64_holds_has_a_ratio(dtype: Any, size: int) -> None:
    value = np.full(size, 1.75e308, dtype)
    reference = -value
    value[-1] = reference[-1] = 1
    difference = Difference(value, reference)
    if size > 1:
        assert difference.max_rel() == 2
        assert not difference.mismatches(0.0, 2.0).count
        assert difference.mismatches(0.0, 1.9).count == size - 1
    infinite = Difference(np.array([np.inf], dtype), np.array([1.0], dtype))
    assert infinite.max_rel() == math.inf


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64, np.bool_, "U1"])
def test_there_is_nothing_in_an_empty_array_that_fails(shape: Any, dtype: Any) -> None:
    empty = np.zeros(shape, dtype)
    difference = Difference(empty, empty)
    for drawn in (difference.absolute_histogram(), difference.relative_histogram()):
        assert sum(drawn.counts) == 0
    assert difference.measure(1.0, 1.0).count == 0
    assert [summary.size for summary in difference.summaries()] == [0, 0]
    difference.operands()


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="longdouble is as wide as float64")
@given(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([np.float16, np.float32, np.float64, ml_dtypes.bfloat16]),
    st.booleans(),
)
def test_wide_integers_beside_floats_differ_by_what_they_do(
    whole: int, dtype: Any, swapped: bool
) -> None:
    value = np.array([whole], np.uint64 if whole > 2**63 - 1 else np.int64)
    with np.errstate(over="ignore"):
        reference = value.astype(dtype)
    assume(np.isfinite(reference.astype(np.float64)).all())
    exact = abs(whole - int(reference.astype(np.float64)[0]))
    sides = (reference, value) if swapped else (value, reference)
    found = Difference(*sides).max_abs()
    assert same(found, float(exact)) and (found == 0) == (exact == 0)


@pytest.mark.parametrize("wide", [np.int64(5), np.uint64(5), np.longdouble(5)])
@pytest.mark.parametrize("infinity", [-np.inf, np.inf])
def test_an_infinity_beside_a_wide_number_never_matches(wide: Any, infinity: float) -> None:
    for pair in ((np.float32(infinity), wide), (wide, np.float32(infinity))):
        found = Difference(*map(np.array, pair)).mismatches(1e-3, 1e-3)
        assert found.count == 1
