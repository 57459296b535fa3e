"""Summaries against exact means, variances and order statistics."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import Summary, summarize
from tests.domain.arithmetic import oracle
from tests.domain.arithmetic.strategies import NUMBERS, arrays, relaid, shapes, tiny_blocks
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]
PROBABILITIES = (0.0, 0.25, 0.9, 0.99, 1.0)


@st.composite
def any_array(draw: st.DrawFn) -> Array:
    return draw(arrays(draw(st.sampled_from(NUMBERS)), draw(shapes())))


def check(summary: Summary, values: list[Any], shape: tuple[int, ...]) -> None:
    floats = [float(x) for x in values]
    assert summary.size == len(values)
    assert summary.nan == sum(map(math.isnan, floats))
    assert summary.posinf == floats.count(math.inf)
    assert summary.neginf == floats.count(-math.inf)
    assert summary.zeros == floats.count(0.0)
    check_moments(summary, values)
    for sign, found, where in (
        (-1, summary.min, summary.argmin),
        (1, summary.max, summary.argmax),
    ):
        expected = oracle.first_extreme(values, sign)
        if expected is None:
            assert math.isnan(found) and where is None
        else:
            assert found == expected[0] and type(found) is type(expected[0])
            assert where == tuple(map(int, np.unravel_index(expected[1], shape)))
    for probability, quantile in summary.quantiles.items():
        expected_quantile = oracle.quantile(floats, probability)
        assert quantile == expected_quantile or (
            math.isnan(quantile) and math.isnan(expected_quantile)
        )


def check_moments(summary: Summary, values: list[Any]) -> None:
    finite = [x for x in values if math.isfinite(x)]
    scale = max((abs(float(x)) for x in finite), default=0.0)
    mean, var = oracle.mean(values), oracle.variance(values)
    # A sum of both signs may cancel; its error is that of its largest terms.
    assert (
        abs(summary.mean - float(mean)) <= 8 * math.ulp(scale)
        if mean is not None
        else (math.isnan(summary.mean))
    )
    assert oracle.close(summary.avg_magnitude, oracle.mean(map(abs, values)))
    if var is None:
        assert math.isnan(summary.var) and math.isnan(summary.std)
    elif scale < 1e150:
        spread = max(float(x) for x in finite) - min(float(x) for x in finite)
        slack = 8 * len(finite) * (math.ulp(scale) ** 2 + math.ulp(scale) * math.ulp(spread))
        assert abs(Fraction(summary.var) - var) <= Fraction(slack) + var / 10**13
        assert summary.std == math.sqrt(summary.var)


@settings(max_examples=scaled(300), deadline=None)
@given(any_array(), st.booleans())
def test_every_dtype(array: Array, tiny: bool) -> None:
    values = oracle.elements(array)
    with tiny_blocks() if tiny else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = summarize(array, quantiles=PROBABILITIES)
    check(summary, values, array.shape)


@settings(max_examples=scaled(100), deadline=None)
@given(st.data())
def test_memory_layout_does_not_matter(data: st.DataObject) -> None:
    array = data.draw(any_array())
    other = data.draw(relaid(array))
    before = other.tobytes()
    with tiny_blocks() if data.draw(st.booleans()) else nullcontext():
        assert str(summarize(array)) == str(summarize(other))
    assert other.tobytes() == before


@pytest.mark.parametrize(
    ("values", "median"),
    [
        ([3.0, 1.0, 2.0], 2.0),
        ([4.0, 1.0, 2.0, 3.0], 2.5),
        ([math.nan, 5.0], 5.0),
        ([math.inf, 1.0, 2.0], 2.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([1.7e308, 1.6e308], 1.65e308),
        ([1.7e308], 1.7e308),
        ([2**62, 2**62 + 2], float(2**62 + 1)),
    ],
)
def test_median(values: list[float], median: float) -> None:
    assert oracle.close(summarize(np.array(values)).median, median, 1)
    with tiny_blocks(block=2, sample=2):
        assert oracle.close(summarize(np.array(values)).median, median, 1)


def test_median_of_opposite_infinities_is_undefined() -> None:
    assert math.isnan(summarize(np.array([-math.inf, math.inf])).median)


@pytest.mark.parametrize("array", [np.array([]), np.full((2, 3), np.nan), np.empty((0, 4), "i4")])
def test_nothing_to_summarize(array: Array) -> None:
    summary = summarize(array)
    numbers = [
        summary.mean,
        summary.std,
        summary.var,
        summary.median,
        summary.min,
        summary.max,
        summary.avg_magnitude,
        *summary.quantiles.values(),
    ]
    assert all(map(math.isnan, numbers))
    assert summary.argmin is None and summary.argmax is None
    assert summary.nan == summary.size


def test_infinities_are_kept_out_of_the_moments_only() -> None:
    summary = summarize(np.array([1.0, -3.0, math.inf, math.inf, -math.inf, math.nan]))
    assert (summary.mean, summary.var, summary.avg_magnitude) == (-1.0, 4.0, 2.0)
    assert (summary.min, summary.argmin) == (-math.inf, (4,))
    assert (summary.max, summary.argmax) == (math.inf, (2,))
    assert summary.median == 1.0
    assert (summary.nan, summary.posinf, summary.neginf) == (1, 2, 1)


def test_zeros_have_no_sign() -> None:
    summary = summarize(np.array([-0.0, -0.0]))
    for value in (summary.median, summary.min, summary.max, summary.quantiles[0.9]):
        assert math.copysign(1, value) == 1


def test_wide_integers_keep_their_digits() -> None:
    base = 2**62
    values = np.array([base + 3, base + 1, base + 2, base + 2], np.int64)
    summary = summarize(values)
    assert (summary.min, summary.argmin) == (base + 1, (1,))
    assert (summary.max, summary.argmax) == (base + 3, (0,))
    # In float64 all of these are equal.
    assert summary.var == 0.5
    with tiny_blocks(block=2, sample=2):
        assert summarize(np.arange(base, base + 8)).var == 5.25
        assert summarize(values).var == 0.5
        assert summarize(values).argmax == (0,)


def test_extremes_of_uint64() -> None:
    summary = summarize(np.array([2**64 - 1, 2**64 - 2, 0, 1], np.uint64))
    assert (summary.max, summary.argmax, summary.min) == (2**64 - 1, (0,), 0)


def test_means_do_not_drift() -> None:
    # A running sum in float32 would stop at 2^24, one of 0.1 in float64 lose half of its digits.
    ones = np.ones(3_000_000, np.float32)
    assert summarize(ones).mean == 1.0
    assert summarize(ones).var == 0.0
    tenths = np.full(3_000_000, 0.1)
    assert oracle.close(summarize(tenths).mean, 0.1, 2)
    offset = np.tile(np.array([1e8 - 1, 1e8 + 1]), 1_500_000)
    assert summarize(offset).var == 1.0


def test_sums_beyond_float64_do_not_make_the_mean_infinite() -> None:
    huge = np.full(100, 1.5e308)
    assert oracle.close(summarize(huge).mean, 1.5e308)
    assert oracle.close(summarize(np.concatenate([huge, -huge])).avg_magnitude, 1.5e308)
    with tiny_blocks():
        assert oracle.close(summarize(huge).mean, 1.5e308)


def test_complex_numbers_are_summarized_by_their_modulus() -> None:
    array = np.array([3 + 4j, 0, complex(math.nan, 1), complex(math.inf, math.nan), 1j])
    for dtype in (np.complex64, np.complex128):
        summary = summarize(array.astype(dtype))
        assert (summary.max, summary.argmax, summary.min, summary.nan) == (5.0, (0,), 0.0, 2)
        assert summary.mean == 2.0
    with tiny_blocks(block=2, sample=2):
        assert summarize(array).median == 1.0


@pytest.mark.skipif(not hasattr(ml_dtypes, "bcomplex32"), reason="this ml_dtypes has no bcomplex32")
def test_half_size_complex_numbers() -> None:
    array = np.array([3 + 4j, 0]).astype(ml_dtypes.bcomplex32)
    assert summarize(array).max == 5.0


def test_longdouble_is_summarized_as_float64() -> None:
    assert summarize(np.array([1, 2, 4], np.longdouble)).mean == 7 / 3


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([None, 1], object)])
def test_what_is_no_number_has_a_size(array: Array) -> None:
    summary = summarize(array)
    assert summary.size == 2
    assert math.isnan(summary.mean) and summary.argmax is None


def test_probabilities_must_be_probabilities() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        summarize(np.zeros(3), quantiles=[-0.1])


def test_statistics_of_the_seed_transcript_digit_for_digit() -> None:
    """The documented comparison of an FP32 model with its FP16 twin, shown with ``%.5g``."""
    from polygraphy.domain.arithmetic import Difference

    fp32 = np.array([0.417021990, 0.720324516, 0.000114374816, 0.302332580], np.float32).reshape(
        1, 1, 2, 2
    )
    fp16 = fp32.astype(np.float16).astype(np.float32)

    def shown(summary: Summary) -> str:
        return (
            f"mean={summary.mean:.5g}, std-dev={summary.std:.5g}, var={summary.var:.5g},"
            f" median={summary.median:.5g}, min={summary.min:.5g} at {summary.argmin},"
            f" max={summary.max:.5g} at {summary.argmax}, avg-magnitude={summary.avg_magnitude:.5g}"
        )

    assert shown(summarize(fp32)) == (
        "mean=0.35995, std-dev=0.25784, var=0.066482, median=0.35968,"
        " min=0.00011437 at (0, 0, 1, 0), max=0.72032 at (0, 0, 0, 1), avg-magnitude=0.35995"
    )
    assert shown(summarize(fp16)) == (
        "mean=0.35989, std-dev=0.25781, var=0.066464, median=0.35962,"
        " min=0.00011438 at (0, 0, 1, 0), max=0.72021 at (0, 0, 0, 1), avg-magnitude=0.35989"
    )
    difference = Difference(fp16, fp32)
    assert shown(difference.absolute()) == (
        "mean=5.6492e-05, std-dev=4.3677e-05, var=1.9077e-09, median=5.8144e-05,"
        " min=6.4974e-09 at (0, 0, 1, 0), max=0.00010967 at (0, 0, 0, 1), avg-magnitude=5.6492e-05"
    )
    assert shown(difference.relative()) == (
        "mean=0.00014165, std-dev=9.0956e-05, var=8.273e-09, median=0.00011186,"
        " min=5.6808e-05 at (0, 0, 1, 0), max=0.00028606 at (0, 0, 1, 1), avg-magnitude=0.00014165"
    )
    assert difference.mismatches(1e-3, 1e-3).count == 0
