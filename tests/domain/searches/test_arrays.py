"""The array with which a computation gives an expected result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain.search import arrays
from polygraphy.domain.search.arrays import nearest_array

RANDOM = np.random.RandomState(0)
DATA = RANDOM.randn(20, 4)
WEIGHT, BIAS = RANDOM.randn(4).astype(np.float32), np.float32([0.3])
ONE = WEIGHT + np.float32([0, 0, 1.7, 0])
ALL = WEIGHT + np.float32([0.4, -0.2, 0.3, 0.1])


def compute(weight: Any, bias: Any) -> Any:
    return np.tanh(DATA @ weight + bias)


def search(goal: Any, tries: int = 1000, rows: int = 20) -> tuple[str, Any] | None:
    """Return the array with which some rows are the expected ones."""
    functions = {
        "bias": lambda array: compute(WEIGHT, array)[:rows],
        "weight": lambda array: compute(array, BIAS)[:rows],
    }

    def matches(result: Any) -> bool:
        return result is not None and np.allclose(result, goal[:rows], atol=1e-5)

    return nearest_array(functions, {"bias": BIAS, "weight": WEIGHT}, goal[:rows], matches, tries)


@pytest.mark.parametrize("weight", [WEIGHT * np.float32(1.7), ONE, ALL])
def test_a_factor_an_element_or_all_elements_are_restored(weight: Any) -> None:
    name, array = search(compute(weight, BIAS)) or ("", None)
    assert name == "weight"
    np.testing.assert_allclose(array, weight, atol=1e-3)


def test_two_arrays_that_differ_are_not_explained_by_one() -> None:
    assert search(np.square(compute(ONE, BIAS * 3))) is None


def test_results_with_no_more_elements_than_the_array_prove_nothing() -> None:
    assert search(compute(ALL, BIAS), rows=4) is None


def test_effects_that_would_take_much_memory_are_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "_MOST", 79)
    assert search(compute(ALL, BIAS)) is None


def test_a_search_ends_with_its_tries() -> None:
    assert search(compute(ALL, BIAS), tries=3) is None
