"""What counts as a failure of a part, and how far its outputs may be off."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.domain.diagnosis.failure import find_failing_outputs, usual_tolerances

RIGHT = np.array([1.0, -2.0, 4.0], np.float32)


@pytest.mark.parametrize("size", [1e-3, 1e-1, 10.0])
def test_a_tolerance_lies_between_rounding_and_the_fault(size: float) -> None:
    plain = RIGHT + np.float32(1e-6)
    found = find_failing_outputs({"y": RIGHT + np.float32(size)}, {"y": RIGHT}, {"y": plain})
    assert found is not None
    said, tolerances = found
    assert tolerances["y"] is not None and 1e-6 < tolerances["y"] < size
    assert "'y'" in said


def test_what_is_right_but_for_rounding_is_no_failure() -> None:
    plain = {"y": RIGHT + np.float32(1e-3)}
    assert find_failing_outputs({"y": RIGHT.copy()}, {"y": RIGHT}, {}) is None
    assert find_failing_outputs({"y": RIGHT - np.float32(1e-3)}, {"y": RIGHT}, plain) is None


def test_integers_have_to_be_the_same() -> None:
    found = find_failing_outputs({"i": np.array([1, 2])}, {"i": np.array([1, 3])}, {})
    assert found is not None and found[1] == {"i": None}


def test_infinity_that_should_not_be_is_a_failure() -> None:
    values = np.array([1.0, np.inf, 4.0], np.float32)
    found = find_failing_outputs({"y": values}, {"y": RIGHT}, {"y": RIGHT})
    assert found is not None and found[1]["y"] is not None and found[1]["y"] < 1e-2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_what_runs_at_last_may_round_in_its_own_way(dtype: type, size: float) -> None:
    right = np.linspace(-size, size, 7).astype(dtype)
    tolerance = usual_tolerances({"y": right})["y"]
    assert tolerance is not None
    step = float(np.finfo(dtype).eps)
    assert 30 * step * size < tolerance < 0.3 * size


def test_what_is_no_number_has_to_be_the_same() -> None:
    expected = {"count": np.arange(3), "nothing": np.full(2, np.nan, np.float32)}
    assert usual_tolerances(expected) == {"count": None, "nothing": None}
