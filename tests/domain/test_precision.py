from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.domain.rounding import Rounding
from polygraphy.domain.tensors.precision import (
    PRECISIONS,
    coarsest_type,
    is_exact,
    is_float,
    precision_of,
)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float64,
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float4_e2m1fn,
    ],
)
def test_the_table_says_what_the_types_themselves_do(dtype: Any) -> None:
    found = precision_of(np.dtype(dtype).name)
    limits: Any = ml_dtypes.finfo(dtype)
    assert found is not None
    assert found.epsilon == float(limits.eps)
    assert found.smallest == float(limits.smallest_normal)


def test_coarser_types_have_larger_epsilons() -> None:
    names = ["float64", "float32", "tf32", "bfloat16", "float8e4m3fn", "float8e5m2", "float4"]
    epsilons = [PRECISIONS[name].epsilon for name in names]
    assert epsilons == sorted(epsilons)
    found = coarsest_type(["float32", "unheard-of", "float16", "float64"])
    assert found is not None
    assert found.name == "float16"
    assert coarsest_type(["int64", "str"]) is None


@pytest.mark.parametrize(
    ("dtype", "rounded"),
    [
        ("float32", True),
        (ml_dtypes.bfloat16, True),
        (ml_dtypes.float8_e4m3fn, True),
        (ml_dtypes.float8_e5m2, True),
        (ml_dtypes.int4, False),
        (ml_dtypes.uint4, False),
        ("int8", False),
        ("bool", False),
        ("U3", False),
        ("O", False),
    ],
)
def test_arrays_of_rounded_numbers(dtype: Any, rounded: bool) -> None:
    assert is_float(np.empty(2, dtype)) is rounded
    assert not is_float([1.0])


@pytest.mark.parametrize(("name", "exact"), [("int64", True), ("bool", True), ("float16", False)])
def test_integers_are_exact(name: str, exact: bool) -> None:
    assert is_exact(name) is exact


def test_tolerances_grow_with_the_magnitude_down_to_what_the_type_resolves() -> None:
    half = PRECISIONS["float16"]
    rounding = Rounding.of(half, 2.0, "given")
    assert rounding.rtol == pytest.approx(16 * 2.0**-10, rel=5e-3)
    assert rounding.atol == pytest.approx(32 * 2.0**-10, rel=5e-3)
    smallest = Rounding.of(half, 0.0, "given").atol
    assert smallest == pytest.approx(16 * 2.0**-24, rel=5e-3)
    assert Rounding.of(half, 1e-9, "given").atol == smallest
    assert "float16, given" in str(rounding)


def test_1024_roundings_in_a_row_stay_within_the_formula() -> None:
    generator = np.random.default_rng(0)
    exact = generator.uniform(1, 2, 4096)
    rounded = exact.astype(np.float32)
    for factor in generator.uniform(0.99, 1.01, 1024):
        exact = exact * np.float64(np.float32(factor))
        rounded = rounded * np.float32(factor)
    error = math.sqrt(np.mean(((rounded - exact) / exact) ** 2))
    epsilon = PRECISIONS["float32"].epsilon
    assert epsilon < error < 16 * epsilon
