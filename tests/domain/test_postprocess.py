from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.results.postprocess import TopKPostprocessFunc, top_k
from polygraphy.domain.results.results import IterationResult


def taken(k: Any, **outputs: Any) -> dict[str, Any]:
    made = TopKPostprocessFunc(k)(
        IterationResult({name: np.asarray(value) for name, value in outputs.items()}, 0.5, "r")
    )
    assert (made.runtime, made.runner_name) == (0.5, "r")
    return {name: array.tolist() for name, array in made.items()}


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1.0, 3.0, 2.0]), [1, 2, 0]),
        (np.array([1.0, 3.0, 3.0, 1.0]), [1, 2, 0, 3]),  # The first of equals comes first.
        (np.array([np.nan, -np.inf, 2.0, np.inf]), [3, 2, 1, 0]),
        (np.array([0, 255, 3], np.uint8), [1, 2, 0]),
        (np.array([0, 2**64 - 1, 2**63], np.uint64), [1, 2, 0]),
        (np.array([0, -(2**63), 5], np.int64), [2, 0, 1]),
        (np.array([False, True, True]), [1, 2, 0]),
        (np.array([-8, 7, 0], ml_dtypes.int4), [1, 2, 0]),
        (np.array([15, 0, 7], ml_dtypes.uint4), [0, 2, 1]),
        (np.array([1, np.nan, 2], ml_dtypes.bfloat16), [2, 0, 1]),
        (np.array([1, 2], np.float16), [1, 0]),
        (np.zeros(0), []),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_the_largest_come_first(array: Any, expected: list[int]) -> None:
    before = array.copy()
    assert top_k(array, 9).tolist() == expected
    assert top_k(array, 1).tolist() == expected[:1]
    assert array.tobytes() == before.tobytes()


def test_the_first_of_many_equals_comes_first() -> None:
    array = np.tile(np.array([0.0, 1.0, 0.0]), 1000)
    for dtype in (np.float32, np.uint8, np.int64):
        found = top_k(array.astype(dtype), 3000)
        assert found.tolist() == [*range(1, 3000, 3), *(i for i in range(3000) if i % 3 != 1)]


def test_axes() -> None:
    array = np.array([[1.0, 5.0], [4.0, 2.0], [3.0, 9.0]])
    assert taken((2, 0), y=array) == {"y": [[1, 2], [2, 0]]}
    assert taken((1, -1), y=array) == taken(1, y=array) == {"y": [[1], [0], [1]]}


def test_settings_differ_from_output_to_output() -> None:
    outputs = {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]}
    assert taken({"a": 1}, **outputs) == {"a": [2], "b": [1.0, 2.0, 3.0]}
    assert taken({"": 2, "a": (1, 0)}, **outputs) == {"a": [2], "b": [2, 1]}
    assert taken(None, a=np.arange(20.0)) == {"a": list(range(19, 9, -1))}
    with pytest.raises(UnknownNameError, match="'z'"):
        taken({"z": 1}, **outputs)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True, (1, 0.5), {"y": 0}])
def test_numbers_are_checked_at_once(bad: Any) -> None:
    with pytest.raises(UsageError, match="Top-k"):
        TopKPostprocessFunc(bad)


@pytest.mark.parametrize("value", [np.array(3.0), np.array(["a"]), np.array([1j])])
def test_what_has_no_order_is_reported(value: Any) -> None:
    with pytest.raises(UsageError, match="largest elements of output 'y' cannot be selected"):
        taken(1, y=value)


def test_an_axis_that_there_is_not_is_reported() -> None:
    with pytest.raises(UsageError, match="axis 1 is out of bounds"):
        taken((1, 1), y=[1.0])


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int8, np.uint16]), hnp.array_shapes(max_dims=3, max_side=5)
    ),
    st.integers(1, 6),
)
def test_it_does_what_sorting_does(array: Any, k: int) -> None:
    def key(row: Any) -> Any:
        return lambda i: (bool(np.isnan(row[i])), -float(row[i]) if row[i] == row[i] else 0, i)

    rows = array.reshape(-1, array.shape[-1])
    expected = [sorted(range(len(row)), key=key(row))[:k] for row in rows]
    assert top_k(array, k).reshape(len(rows), -1).tolist() == expected
