"""Scales and zero points with which a computation gives expected codes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.search.code_numbers import solve_scale, solve_zero_point
from tests.support.examples import scaled

F = np.float32
DRAW = np.random.default_rng(2)
REAL = DRAW.standard_normal((64, 5))


def codes(scale: Any, zero: Any = 3) -> Any:
    """Return real numbers as codes of int8."""
    return np.clip(np.rint(REAL / np.asarray(scale, float)) + zero, -128, 127).astype(np.int8)


@given(scale=st.floats(0.005, 1), factor=st.floats(0.01, 100))
@settings(max_examples=scaled(20), deadline=None)
def test_the_interval_of_a_scale_contains_it(scale: float, factor: float) -> None:
    start, goal = F(scale * factor), codes(F(scale))
    solution = solve_scale(codes, start, goal, None)
    if np.array_equal(codes(start), goal):
        assert solution is None
    else:
        assert solution is not None and solution.is_exact
        assert solution.low <= F(scale) * (1 + 1e-6) and F(scale) <= solution.high * (1 + 1e-6)
        assert np.array_equal(codes(solution.number), goal)


def test_each_channel_has_a_scale_and_unchanged_ones_stay() -> None:
    right = np.array([0.02, 0.03, 0.01, 0.05, 0.04], F)
    wrong = right * np.array([1, 2, 1, 0.5, 1], F)
    solution = solve_scale(codes, wrong, codes(right), 1)
    assert solution is not None
    assert [*np.flatnonzero(solution.changed)] == [1, 3]
    np.testing.assert_allclose(solution.number, right, rtol=5e-3)
    np.testing.assert_array_equal(solution.number[[0, 2, 4]], right[[0, 2, 4]])


def test_a_number_for_each_element_proves_nothing() -> None:
    def row(scale: Any) -> Any:
        return codes(scale)[:1]

    goal = row(F(0.02))[:, ::-1]
    assert solve_scale(row, np.full(5, 0.02, F), goal, 1) is None


def test_zero_points_at_both_ends_are_found() -> None:
    for right in (-128, -7, 127):
        goal = codes(0.02, right)
        solution = solve_zero_point(lambda zero: codes(0.02, float(zero)), np.int8(3), goal, None)
        assert solution is not None and int(solution.number) == right


def test_codes_a_step_apart_are_accepted_if_they_are_few() -> None:
    goal = codes(F(0.02))
    goal[3, 2] += 1
    solution = solve_scale(codes, F(0.05), goal, None)
    assert solution is not None and not solution.is_exact
    goal[:20, 2] += 1
    assert solve_scale(codes, F(0.05), goal, None) is None


def test_zero_points_of_four_bits_are_found_and_those_of_fp8_are_not_searched() -> None:
    def four_bits(zero: Any) -> Any:
        return np.clip(np.rint(REAL) + int(zero), -8, 7).astype(ml_dtypes.int4)

    solution = solve_zero_point(four_bits, ml_dtypes.int4(3), four_bits(-2), None)
    assert solution is not None and int(solution.number) == -2
    assert solve_zero_point(four_bits, ml_dtypes.float8_e4m3fn(1), four_bits(-2), None) is None
