"""Norms, angles and decibels against exact sums of squares."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.arithmetic.similarity import (
    cosine_similarity,
    dot_metrics,
    l2_norm,
    normalized_l2,
    psnr,
    snr,
    sqnr,
)
from tests.domain.arithmetic.strategies import NUMBERS, arrays, shapes, tiny_blocks
from tests.support.examples import scaled

Array = np.ndarray[Any, Any]


def root(square: Fraction) -> float:
    """The square root of a number that float64 may not hold."""
    if square == 0:
        return 0.0
    shift = (square.numerator.bit_length() - square.denominator.bit_length()) // 2 * 2
    scaled = square / 4 ** (shift // 2) if shift > 0 else square * 4 ** (-shift // 2)
    try:
        return math.ldexp(math.sqrt(scaled), shift // 2)
    except OverflowError:
        return math.inf


def norm(values: Sequence[Fraction]) -> Fraction:
    return sum((x * x for x in values), Fraction(0))


@settings(max_examples=scaled(250), deadline=None)
@given(st.data(), st.booleans())
def test_norms_and_cosine(data: st.DataObject, tiny: bool) -> None:
    shape = data.draw(shapes())
    a, b = (data.draw(arrays(data.draw(st.sampled_from(NUMBERS)), shape)) for _ in range(2))
    with tiny_blocks() if tiny else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = dot_metrics(a, b)
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    with np.errstate(all="ignore"):
        z = x - y
    for found, vector in (
        (metrics.value_norm, x),
        (metrics.reference_norm, y),
        (metrics.difference_norm, z),
    ):
        if np.isnan(vector).any():
            assert math.isnan(found)
        elif np.isinf(vector).any():
            assert found == math.inf
        else:
            exact = list(map(Fraction, vector))
            if vector is z and a.dtype.kind in "iu" and b.dtype.kind in "iu":
                exact = [Fraction(int(p) - int(q)) for p, q in zip(a.flat, b.flat, strict=True)]
            assert found == pytest.approx(root(norm(exact)), rel=1e-13, abs=math.ulp(0.0))
    if np.isfinite(x).all() and np.isfinite(y).all():
        left, right = list(map(Fraction, x)), list(map(Fraction, y))
        inner = sum((p * q for p, q in zip(left, right, strict=True)), Fraction(0))
        if not norm(left) or not norm(right):
            assert metrics.cosine == (1.0 if norm(left) == norm(right) else 0.0)
        else:
            expected = root(inner * inner / norm(left) / norm(right))
            assert abs(metrics.cosine) == pytest.approx(expected, abs=1e-12)
            assert (metrics.cosine > 0) is (inner > 0) or abs(metrics.cosine) < 1e-12
            assert -1 <= metrics.cosine <= 1
    if a.size and not np.isnan(x).any():
        assert (metrics.value_min, metrics.value_max) == (x.min(), x.max())


def test_cosine_of_zero_vectors() -> None:
    zero, one = np.zeros(5, np.float32), np.ones(5, np.float32)
    assert cosine_similarity(dot_metrics(zero, zero)) == 1.0
    assert cosine_similarity(dot_metrics(zero, one)) == 0.0
    assert cosine_similarity(dot_metrics(one, zero)) == 0.0
    assert cosine_similarity(dot_metrics(one, -one)) == pytest.approx(-1.0, rel=1e-15)
    assert cosine_similarity(dot_metrics(one * 3, one * 3)) == 1.0
    assert cosine_similarity(dot_metrics(zero[:0], zero[:0])) == 1.0


def test_cosine_is_never_beyond_one() -> None:
    vectors = np.random.default_rng(0).standard_normal((300, 7))
    cosines = [dot_metrics(vector, 3 * vector).cosine for vector in vectors]
    assert max(cosines) == 1.0 and min(cosines) > 1 - 1e-15


@pytest.mark.parametrize("measure", [l2_norm, cosine_similarity, psnr, snr, normalized_l2, sqnr])
def test_nan_stays_nan(measure: Any) -> None:
    good, bad = np.array([0.0, 1.0, 2.0]), np.array([0.0, math.nan, 2.0])
    for a, b in ((good, bad), (bad, good), (bad, bad), (bad, good * 0)):
        if measure is psnr or measure is snr or measure in (l2_norm, normalized_l2, sqnr):
            assert math.isnan(measure(dot_metrics(a, b)))
        assert math.isnan(cosine_similarity(dot_metrics(a, b)))
        with tiny_blocks(block=2):
            assert math.isnan(measure(dot_metrics(a, b)))


def test_nan_beside_an_infinity_in_another_block_stays_nan() -> None:
    a = np.array([math.inf, 1.0, math.nan, 1.0])
    with tiny_blocks(block=2):
        assert math.isnan(l2_norm(dot_metrics(a, np.ones(4))))


def test_decibels() -> None:
    a, b = np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 2.3])
    metrics = dot_metrics(a, b)
    mse = 0.3**2 / 3
    assert psnr(metrics) == pytest.approx(20 * math.log10(2) - 10 * math.log10(mse))
    assert snr(metrics) == pytest.approx(10 * math.log10(3 / mse))
    assert normalized_l2(metrics) == pytest.approx(0.3 / math.sqrt(1 + 4 + 2.3**2))
    assert sqnr(metrics) == pytest.approx(-20 * math.log10(normalized_l2(metrics)))
    assert l2_norm(metrics) == pytest.approx(0.3)


def test_decibels_without_noise_or_signal() -> None:
    zero, one = np.zeros(4), np.ones(4)
    assert psnr(dot_metrics(one, one)) == snr(dot_metrics(one, one)) == math.inf
    assert sqnr(dot_metrics(one, one)) == math.inf and normalized_l2(dot_metrics(one, one)) == 0
    assert snr(dot_metrics(zero, one)) == -math.inf
    assert sqnr(dot_metrics(one, zero)) == -math.inf
    assert normalized_l2(dot_metrics(one, zero)) == math.inf
    assert normalized_l2(dot_metrics(zero, zero)) == 0
    # A peak that is not positive counts as 1.
    assert psnr(dot_metrics(-one, zero)) == psnr(dot_metrics(zero, one)) == 0.0
    assert psnr(dot_metrics(zero[:0], zero[:0])) == math.inf


@pytest.mark.parametrize("shift", [-1070, -1000, -600, 600, 1000])
def test_the_angle_between_vectors_of_any_scale(shift: int) -> None:
    # Beyond float64 go the lengths, or at least their squares.
    a, b = np.ldexp([3.0, 3.0, 3.0, 0.0], shift), np.array([5.0, 1.0, 4.0, -7.0])
    expected = 30 / math.sqrt(27 * 91)
    for left, right in ((a, b), (b, a), (a, np.ldexp(b, shift)), (-a, -b)):
        assert dot_metrics(left, right).cosine == pytest.approx(expected, rel=1e-14)
        with tiny_blocks(block=2):
            assert dot_metrics(left, right).cosine == pytest.approx(expected, rel=1e-14)
    top = np.finfo(np.float64).max
    huge = np.array([top, top, -top])
    assert dot_metrics(huge, huge / 2).cosine == pytest.approx(1.0, rel=1e-15)
    assert dot_metrics(huge, huge / 2).value_norm == math.inf


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1e200, 1e300])
def test_squares_out_of_range_are_not_lost(scale: float) -> None:
    a, b = np.array([3.0, 4.0]) * scale, np.array([4.0, 3.0]) * scale
    metrics = dot_metrics(a, b)
    assert metrics.value_norm == pytest.approx(5 * scale, rel=1e-12)
    assert metrics.cosine == pytest.approx(0.96, rel=1e-12)
    assert metrics.difference_norm == pytest.approx(math.sqrt(2) * scale, rel=1e-12)
    assert dot_metrics(a, a / scale).cosine == pytest.approx(1.0)


def test_complex_numbers_count_as_two() -> None:
    a, b = np.array([3 + 4j, 0]), np.array([0, 1j])
    metrics = dot_metrics(a, b)
    assert (metrics.value_norm, metrics.reference_norm) == (5.0, 1.0)
    assert metrics.difference_norm == pytest.approx(math.sqrt(26))
    assert dot_metrics(a, a.real).cosine == pytest.approx(0.6)


def test_strings_have_no_similarity() -> None:
    with pytest.raises(TypeError, match="numbers"):
        dot_metrics(np.array(["a"]), np.array(["a"]))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="of the two arrays differ"):
        dot_metrics(np.zeros(2), np.zeros(3))


WIDE = st.sampled_from([np.int64, np.uint64])


@settings(max_examples=scaled(150))
@given(data=st.data(), tiny=st.booleans())
def test_whole_numbers_beyond_float64_are_exact(data: st.DataObject, tiny: bool) -> None:
    """What differed by 1 at 2**62 was equal in every metric of this module."""
    size = data.draw(st.integers(1, 40))
    sides = []
    for _ in range(2):
        limits = np.iinfo(data.draw(WIDE))
        near = st.integers(0, 3).map(lambda n: 2**62 + n)
        numbers = st.one_of(near, st.integers(int(limits.min), int(limits.max)))
        listed = data.draw(st.lists(numbers, min_size=size, max_size=size))
        sides.append(np.array(listed, limits.dtype))
    a, b = sides
    with tiny_blocks() if tiny else nullcontext():
        metrics = dot_metrics(a, b)
    exact = norm([Fraction(int(x) - int(y)) for x, y in zip(a, b, strict=True)])
    assert l2_norm(metrics) == pytest.approx(root(exact), rel=1e-12)
    assert (l2_norm(metrics) == 0) is (exact == 0)
    for decibels in (psnr, snr, sqnr):
        assert (decibels(metrics) == math.inf) is (exact == 0)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no longdouble")
def test_long_doubles_beyond_float64_are_exact() -> None:
    a = np.array([1, 2], np.longdouble)
    b = a + np.finfo(np.longdouble).eps * a
    expected = float(np.finfo(np.longdouble).eps) * math.sqrt(5)
    assert l2_norm(dot_metrics(a, b)) == pytest.approx(expected)
    assert l2_norm(dot_metrics(a + 1j, b + 1j)) == pytest.approx(expected)


def test_a_ratio_beyond_float64_has_decibels() -> None:
    small, large = np.array([1e-200]), np.array([1e200])
    assert sqnr(dot_metrics(large, small)) == pytest.approx(-8000)
    assert sqnr(dot_metrics(small + large, large)) == math.inf
    assert sqnr(dot_metrics(np.array([np.inf]), large)) == -math.inf
    assert sqnr(dot_metrics(large, np.zeros(1))) == -math.inf
