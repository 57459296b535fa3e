"""Distances in ulps, ranks, biases and masks, against straightforward oracles."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.arithmetic.similarity import (
    compare_non_finite,
    compare_top_k,
    mean_signed_error,
    ulp_distances,
)
from polygraphy.domain.tensors.precision import PRECISIONS, precision_of
from tests.domain.arithmetic.strategies import NUMBERS, arrays, relaid, shapes, tiny_blocks

Array = np.ndarray[Any, Any]


@st.composite
def pairs(draw: st.DrawFn, dtypes: list[np.dtype[Any]] = NUMBERS) -> tuple[Array, Array]:
    shape = draw(shapes())
    made = (draw(arrays(draw(st.sampled_from(dtypes)), shape)) for _ in range(2))
    first, second = (draw(relaid(array)) for array in made)
    return first, second


def as_floats(array: Array) -> list[float]:
    return [float(x) for x in array.ravel()]


def ulp_oracle(a: float, b: float, digits: int, least: int) -> float:
    if a == b:
        return 0.0
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return math.inf
    exponent = max(math.frexp(b)[1] - 1 if b else least, least)
    distance = abs(Fraction(a) - Fraction(b)) / Fraction(2) ** (exponent - digits)
    try:
        return float(distance)
    except OverflowError:
        return math.inf


@given(pairs([np.dtype("f4"), np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)]))
@pytest.mark.parametrize("name", ["float16", "bfloat16", "tf32", "float32"])
def test_distances_in_ulps(name: str, pair: tuple[Array, Array]) -> None:
    precision = PRECISIONS[name]
    digits, least = -int(math.log2(precision.epsilon)), int(math.log2(precision.smallest))
    expected = [
        ulp_oracle(a, b, digits, least) for a, b in zip(as_floats(pair[0]), as_floats(pair[1]))
    ]
    known = [x for x in expected if not math.isnan(x)]
    for tiny in (False, True):
        if tiny:
            with tiny_blocks():
                found = ulp_distances(*pair, precision)
        else:
            found = ulp_distances(*pair, precision)
        assert found.nan == len(expected) - len(known)
        if known:
            assert found.max == pytest.approx(max(known), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_neighbors_are_one_ulp_apart(dtype: Any) -> None:
    ones = np.array([1.0, 1.5, 0.0, -1024.0], dtype)
    beyond = np.nextafter(ones, np.array(np.inf, dtype))
    found = ulp_distances(beyond, ones, precision_of(np.dtype(dtype).name))
    assert (found.min, found.max) == (pytest.approx(0.5), 1)  # Towards zero it is half of one.


def test_integers_are_one_apart() -> None:
    found = ulp_distances(np.array([2**62 + 3, 5]), np.array([2**62, 5]), None)
    assert found.max == 3
    with pytest.raises(TypeError, match="requires numbers"):
        ulp_distances(np.array(["a"]), np.array(["b"]), None)


@given(pairs())
def test_the_bias_is_the_mean_of_the_signed_differences(pair: tuple[Array, Array]) -> None:
    whole = all(np.dtype(x.dtype).kind in "biu" for x in pair)
    if whole:
        a, b = ([int(x) for x in array.ravel()] for array in pair)
        total = sum(x - y for x, y in zip(a, b))
        expected = float(Fraction(total, len(a))) if a else 0.0
        scale = sum(abs(x - y) for x, y in zip(a, b)) / max(len(a), 1)
    else:
        differences = [x - y for x, y in zip(as_floats(pair[0]), as_floats(pair[1]))]
        with np.errstate(all="ignore"):
            expected = float(np.sum(np.array(differences) / max(len(differences), 1)))
        scale = sum(abs(x) / len(differences) for x in differences)
    for tiny in (False, True):
        if tiny:
            with tiny_blocks():
                found = mean_signed_error(*pair)
        else:
            found = mean_signed_error(*pair)
        if math.isfinite(expected) and math.isfinite(scale):
            assert found == pytest.approx(expected, rel=1e-9, abs=scale * 1e-12)
        elif math.isnan(expected):
            assert math.isnan(found)


def test_a_neighbor_of_few_bits_rounds_nothing() -> None:
    coarse, fine = np.array([6], ml_dtypes.float4_e2m1fn), np.array([7], np.int8)
    assert mean_signed_error(coarse, fine) == -1.0
    assert mean_signed_error(fine, coarse) == 1.0


def test_large_integers_keep_their_bias() -> None:
    big = np.array([2**62, 2**62 + 1])
    assert mean_signed_error(big + 1, big) == 1
    assert mean_signed_error(np.array([0], np.uint64), np.array([3], np.uint64)) == -3
    with pytest.raises(TypeError, match="real numbers"):
        mean_signed_error(np.array([1j]), np.array([1j]))


@given(pairs())
def test_masks_of_what_is_not_finite(pair: tuple[Array, Array]) -> None:
    def kind(x: float) -> str:
        return "nan" if math.isnan(x) else str(x) if math.isinf(x) else ""

    kinds = [tuple(map(kind, both)) for both in zip(as_floats(pair[0]), as_floats(pair[1]))]
    expected = [i for i, (a, b) in enumerate(kinds) if a != b]
    for tiny in (False, True):
        if tiny:
            with tiny_blocks():
                found = compare_non_finite(*pair)
        else:
            found = compare_non_finite(*pair)
        assert found.count == len(expected)
        for name, label in (("nan", "nan"), ("posinf", "inf"), ("neginf", "-inf")):
            assert getattr(found, name) == sum((a == label) != (b == label) for a, b in kinds)
        if expected:
            assert found.first == np.unravel_index(expected[0], pair[0].shape)
        else:
            assert found.first is None


scores = st.one_of(
    st.sampled_from([0.0, 1.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan]),
    st.floats(-8, 8, width=16),
)


@given(st.data(), st.integers(0, 9), st.integers(2, 9), st.sampled_from([0.0, 0.5, math.inf]))
def test_the_highest_entries(data: st.DataObject, rows: int, length: int, margin: float) -> None:
    shape = (rows, length)
    a, b = (data.draw(hnp.arrays(np.float32, shape, elements=scores)) for _ in range(2))
    k = data.draw(st.integers(1, length - 1))
    lacking = []
    for value, reference in zip(a.tolist(), b.tolist()):
        if any(map(math.isnan, value + reference)):
            lacking.append(math.nan)
            continue
        chosen = sorted(range(length), key=lambda i: -value[i])[:k]
        lowest = min(reference[i] for i in chosen)
        kth = sorted(reference, reverse=True)[k - 1]
        lacking.append(0.0 if kth == lowest else kth - lowest)
    agrees = [x <= margin for x in lacking]
    with tiny_blocks():
        found = compare_top_k(a, b, k, margin)
    assert (found.lists, found.agreeing) == (rows, sum(agrees))
    assert found.first == (None if all(agrees) else (agrees.index(False),))
    assert math.isnan(found.margin) == any(map(math.isnan, lacking))
    assert found.agreement == (sum(agrees) / rows if rows else 1.0)


def test_ties_may_change_places_and_flips_may_not() -> None:
    assert compare_top_k(np.array([1.0, 2.0]), np.array([3.0, 3.0]), 1).agreement == 1
    flipped = compare_top_k(np.array([1.0, 2.0]), np.array([3.1, 3.0]), 1)
    assert (flipped.agreement, flipped.first) == (0, ())
    assert flipped.margin == pytest.approx(0.1)
    assert compare_top_k(np.array([1.0, 2.0]), np.array([3.1, 3.0]), 1, 0.2).agreement == 1


@given(data=st.data())
def test_ranks_of_whole_numbers_beyond_float64_are_exact(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    k = data.draw(st.integers(1, size - 1))
    sides = []
    for _ in range(2):
        limits = np.iinfo(data.draw(st.sampled_from([np.int64, np.uint64])))
        near = st.integers(0, 4).map(lambda n: 2**62 + n)
        numbers = st.one_of(near, st.integers(int(limits.min), int(limits.max)))
        sides.append([data.draw(st.lists(numbers, min_size=size, max_size=size)), limits.dtype])
    a, b = (np.array(*side) for side in sides)
    chosen = sorted(range(size), key=lambda i: (-int(a[i]), i))[:k]
    lowest, kth = min(int(b[i]) for i in chosen), sorted(map(int, b))[-k]
    found = compare_top_k(a, b, k)
    assert (found.agreement == 1) is (lowest >= kth)
    assert found.margin == float(max(kth - lowest, 0))
