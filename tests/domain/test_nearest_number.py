"""Searching a number."""

from __future__ import annotations

import math

import pytest

from polygraphy.domain.search.numbers import nearest_number


@pytest.mark.parametrize("right", [1.41421, -0.5, 3e-7, 1702.0, -0.0447, 0.0])
def test_a_number_is_found_to_six_digits(right: float) -> None:
    assert nearest_number(lambda x: (x - right) ** 2) == pytest.approx(right, rel=2e-5, abs=0)


@pytest.mark.parametrize("right", [1.0, 2.0, 3.0, -2.0])
def test_the_exponent_of_negative_numbers_is_found(right: float) -> None:
    def error(exponent: float) -> float:
        """Return the error for bases of both signs, which only whole exponents have."""
        if not exponent.is_integer() or abs(exponent) > 100:
            return math.inf
        return sum((base**exponent - base**right) ** 2 for base in (-1.5, 0.7, 2.0))

    assert nearest_number(error) == right
