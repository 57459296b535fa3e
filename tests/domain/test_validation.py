from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.results.results import (
    IterationResult,
    OutputValidity,
    uniformity,
    validate_outputs,
)
from polygraphy.domain.tensors.datatype import DataType
from tests.support.examples import scaled


def validity(array: Any) -> OutputValidity:
    (found,) = validate_outputs(IterationResult({"y": array}))
    assert found.name == "y"
    return found


special = st.sampled_from([0.0, 1.5, np.nan, np.inf, -np.inf])
arrays = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements=special,
)


@given(arrays)
def test_counts_and_finds_the_first(array: Any) -> None:
    found = validity(array)
    assert found.size == array.size
    for count, first, where in (
        (found.nan, found.first_nan, np.argwhere(np.isnan(array))),
        (found.inf, found.first_inf, np.argwhere(np.isinf(array))),
    ):
        assert count == len(where)
        assert first == (tuple(where[0].tolist()) if len(where) else None)


def test_indices_are_plain_integers() -> None:
    found = validity(np.array([[0, np.nan], [np.inf, 0]]))
    assert found == OutputValidity("y", 4, 1, 1, (0, 1), (1, 0))
    assert repr(found.first_nan) == "(0, 1)"


def test_the_first_is_found_in_a_large_array() -> None:
    array = np.zeros(600_000, np.float32)
    array[[300_001, 599_999]] = np.nan
    array[-1] = np.inf
    found = validity(array)
    assert (found.nan, found.first_nan) == (1, (300_001,))
    assert (found.inf, found.first_inf) == (1, (599_999,))


def test_the_order_of_memory_does_not_matter() -> None:
    array = np.zeros((2, 3))
    array[0, 2] = array[1, 0] = np.nan
    for arranged in (array, np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        assert validity(arranged).first_nan == (0, 2)


@pytest.mark.parametrize("dtype", [d for d in DataType if d.name != "string"], ids=str)
def test_every_data_type_can_be_validated(dtype: DataType) -> None:
    array = np.array([1, 1]).astype(dtype.numpy())  # type: ignore[attr-defined]
    found = validity(array)
    assert (found.size, found.nan, found.inf) == (2, 0, 0)


@pytest.mark.parametrize("name", ["bfloat16", "float8e5m2", "float8e4m3fn"])
def test_narrow_types_have_nan_too(name: str) -> None:
    array = np.array([1.0, np.nan]).astype(DataType[name].numpy())
    assert validity(array).first_nan == (1,)


@pytest.mark.parametrize(
    "array", [np.array(["nan"]), np.array(["inf"], object), np.array([], str), 5], ids=str
)
def test_what_cannot_be_nan_is_not(array: Any) -> None:
    found = validity(array)
    assert (found.nan, found.inf, found.first_nan, found.first_inf) == (0, 0, None, None)


def test_complex_parts_count() -> None:
    found = validity(np.array([complex(0, np.nan), complex(np.inf, 0)]))
    assert (found.nan, found.inf) == (1, 1)


def test_every_output_is_checked_in_order() -> None:
    found = validate_outputs(IterationResult({"b": np.ones(2), "a": np.array(np.nan)}))
    assert [(v.name, v.size, v.nan) for v in found] == [("b", 2, 0), ("a", 1, 1)]
    assert found[1].first_nan == ()
    assert validate_outputs(IterationResult()) == []


@given(st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans())
def test_valid_is_free_of_what_is_looked_for(
    nan: int, inf: int, check_nan: bool, check_inf: bool
) -> None:
    found = OutputValidity("y", 9, nan, inf, None, None)
    expected = not (check_nan and nan > 0) and not (check_inf and inf > 0)
    assert (not found.complaint(check_nan=check_nan, check_inf=check_inf)) is expected


@settings(max_examples=scaled(100))
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
        elements=st.sampled_from([0, 1]),
        fill=st.sampled_from([0, 1]),
    )
)
def test_what_is_uniform_is_said_and_nothing_else(array: np.ndarray) -> None:
    said, values = uniformity(array), set(array.ravel().tolist())
    if not array.size:
        assert said == "empty"
    elif len(values) > 1 or (array.size == 1 and values != {0}):
        assert said == ""
    else:
        [value] = values
        assert said == (f"all {value:.4g}" if isinstance(value, float) else f"all {value!r}")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.full((3, 2), np.nan), ""),
        (np.array(["a", "a"]), "all 'a'"),
        (np.array(["a", "a"], object), ""),
        (np.broadcast_to(np.float32(2.5), (4, 400)), "all 2.5"),
        (np.arange(1000) // 999, ""),
    ],
)
def test_other_values_are_uniform_too(array: np.ndarray, said: str) -> None:
    assert uniformity(array) == said
