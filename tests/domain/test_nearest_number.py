"""Searching a number."""

from __future__ import annotations

import pytest

from polygraphy.domain.search.numbers import nearest_number


@pytest.mark.parametrize("right", [1.41421, -0.5, 3e-7, 1702.0, -0.0447])
def test_a_number_is_found_to_six_digits(right: float) -> None:
    assert nearest_number(lambda x: (x - right) ** 2) == pytest.approx(right, rel=2e-5)
