"""Rounding arrays to narrower types keeps what can be kept, and tells the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.tensors import precision
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.precision import NarrowingLoss, narrow_array, with_digits

floats = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=0, min_side=0, max_side=5), elements=st.floats(width=32)
)
LARGEST = {DataType.FLOAT16: 65504.0, DataType.BFLOAT16: 3.3895313892515355e38}


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
@given(array=floats)
def test_finite_stays_finite_and_everything_else_is_kept(dtype: object, array: np.ndarray) -> None:
    made, loss = narrow_array(array, dtype)  # type: ignore[arg-type]
    wide = made.astype(np.float32)
    assert made.shape == array.shape and loss.elements == array.size
    finite = np.isfinite(array)
    assert np.array_equal(np.isfinite(wide), finite)
    assert np.array_equal(wide[~finite], array[~finite], equal_nan=True)
    largest = LARGEST[dtype]  # type: ignore[index]
    assert loss.clamped == np.count_nonzero(finite & (np.abs(array) > largest))
    assert loss.flushed == np.count_nonzero((array != 0) & (wide == 0))
    with np.errstate(over="ignore"):
        moved = np.abs(array[finite] - wide[finite])
    assert loss.error == moved.max(initial=0)
    kept = finite & (np.abs(array) <= largest)
    with np.errstate(over="ignore"):
        nearest = array.astype(made.dtype).astype(np.float32)
    assert np.array_equal(wide[kept & np.isfinite(nearest)], nearest[kept & np.isfinite(nearest)])


def test_subnormal_numbers_are_counted_apart_from_those_that_vanish() -> None:
    array = np.array([1e-5, -1e-9, 0.0, 1.0, 1e6, -1e6, np.inf], np.float32)
    made, loss = narrow_array(array, DataType.FLOAT16)
    assert loss == NarrowingLoss(
        7, clamped=2, flushed=1, subnormal=1, largest=1e6, error=1e6 - 65504
    )
    assert made.tolist()[4:] == [65504.0, -65504.0, np.inf]
    assert not loss.is_harmless and NarrowingLoss(7, subnormal=1).is_harmless


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.linspace(-1e5, 1e5, 101, dtype=np.float32)
    whole = narrow_array(array, DataType.FLOAT16)
    monkeypatch.setattr(precision, "_BLOCK", 7)
    parts = narrow_array(array, DataType.FLOAT16)
    assert parts[1] == whole[1] and np.array_equal(parts[0], whole[0])


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=1))
def test_digits_are_those_of_the_type_within_its_range(numbers: list[float]) -> None:
    given = np.asarray([each for each in numbers if abs(each) > 1e-4] or [1], np.float32)
    assert np.array_equal(with_digits(given, 2**-10), given.astype(np.float16))
    beyond = with_digits(given * np.float32(2**40), 2**-10)
    assert np.array_equal(beyond, given.astype(np.float16).astype(np.float32) * np.float32(2**40))


def test_the_largest_number_stays_finite() -> None:
    largest = np.finfo(np.float32).max
    made = with_digits(np.array([largest, -largest, np.inf, np.nan, 1], np.float32), 2**-10)
    assert np.array_equal(made, np.array([largest, -largest, np.inf, np.nan, 1]), equal_nan=True)


def test_what_has_no_digits_to_lose_is_left_alone() -> None:
    assert with_digits(np.array([70001]), 2**-10)[0] == 70001
    odd = with_digits(np.array([np.inf, np.nan, 0], np.float32), 2**-10)
    assert np.isinf(odd[0])
    assert np.isnan(odd[1])
    assert odd[2] == 0
