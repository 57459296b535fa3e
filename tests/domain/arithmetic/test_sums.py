"""Sums against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.arithmetic import moments as sums
from polygraphy.domain.arithmetic.moments import block_mean, exact_sum, inner_product


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30))
def test_exact_sum_rounds_once(values: list[float]) -> None:
    expected = sum(map(Fraction, values), Fraction(0))
    if abs(expected) < Fraction(10) ** 307:
        assert exact_sum(values) == pytest.approx(float(expected), rel=1e-16, abs=0) or any(
            # Where partial sums overflow, IEEE has the say.
            abs(x) > 1e307
            for x in values
        )


def test_exact_sum_does_not_raise() -> None:
    assert exact_sum([1e308] * 10) == math.inf
    assert exact_sum([-1e308] * 10) == -math.inf
    assert exact_sum([math.inf, 1.0]) == math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf]))
    assert exact_sum([]) == 0.0


@pytest.mark.parametrize("size", [0, 1, 5, 8, 9, 31, 32, 1000])
@pytest.mark.parametrize("step", [1, 3])
def test_inner_product(size: int, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(size)
    a, b = generator.integers(-1000, 1000, (2, size * step)).astype(np.float64)[:, ::step]
    if size:
        assert block_mean(a, np.empty(size)) == float(sum(int(x) for x in a)) / size
    expected = float(sum(int(x) * int(y) for x, y in zip(a, b, strict=True)))
    for row in (1, 8, sums.ROW):
        monkeypatch.setattr(sums, "ROW", row)
        assert inner_product(a, b) == expected


def test_inner_product_keeps_its_digits() -> None:
    tenths = np.full(1_000_000, 0.1)
    expected = Fraction(0.1) ** 2 * 1_000_000
    assert abs(Fraction(inner_product(tenths, tenths)) - expected) < expected / 10**14
