"""2:4 pruning keeps the two largest of every four."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.adapters.onnx.edit.stripping import random_weight
from polygraphy.domain.model import sparsity as pruning
from polygraphy.domain.model.sparsity import dense_groups, prune_array
from polygraphy.domain.tensors.datatype import DataType


@given(data=st.data(), axis=st.integers(0, 2))
def test_two_of_every_four_are_zero_and_the_larger_two_are_kept(
    data: st.DataObject, axis: int
) -> None:
    shape = [data.draw(st.integers(1, 3)) for _ in range(3)]
    shape[axis] *= 4
    array = data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-9, 9, width=16)))
    made = prune_array(array, axis)
    assert made.dtype == array.dtype and dense_groups(made, axis) == 0
    kept = made != 0
    assert np.array_equal(made[kept], array[kept])
    before, after = (np.moveaxis(np.abs(each), axis, -1).reshape(-1, 4) for each in (array, made))
    assert np.array_equal(np.sort(before)[:, 2:], np.sort(after)[:, 2:])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_every_type_of_weights_is_pruned_by_magnitude(dtype: type) -> None:
    array = np.array([[1, -4, 3, 2, -0.5, 0.25, 0, 8]], dtype)
    given_before = array.copy()
    assert prune_array(array, 1).tolist() == [[0, -4, 3, 0, -0.5, 0, 0, 8]]
    assert np.array_equal(array, given_before)


def test_nan_is_kept_and_the_earlier_of_equals_goes() -> None:
    made = prune_array(np.array([np.nan, 1, 1, 1], np.float32), 0)
    assert np.isnan(made[0]) and made[1:].tolist() == [0, 0, 1]


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).random((16, 3), np.float32)
    whole = prune_array(array, 0)
    monkeypatch.setattr(pruning, "_BLOCK", 5)
    assert np.array_equal(prune_array(array, 0), whole)


@pytest.mark.parametrize(
    "dtype", [DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8, DataType.INT4]
)
def test_substitutes_are_of_the_type_and_the_same_each_time(dtype: object) -> None:
    made = random_weight((8, 16), dtype, 5)  # type: ignore[arg-type]
    assert made.dtype == dtype.numpy() and made.shape == (8, 16)  # type: ignore[attr-defined]
    again, other = (random_weight((8, 16), dtype, seed) for seed in (5, 6))  # type: ignore[arg-type]
    assert made.tobytes() == again.tobytes() != other.tobytes()


def reference(groups: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Prune rows of four one by one, by the words of the documentation."""
    made = groups.copy()
    for row in made:
        size = [(np.isnan(value), abs(value), index) for index, value in enumerate(row)]
        for _, _, index in sorted(size, key=lambda each: (each[0], each[1] if not each[0] else 0))[
            :2
        ]:
            row[index] = 0
    return made


@given(
    groups=hnp.arrays(
        np.float16,
        st.tuples(st.integers(1, 40), st.just(4)),
        elements=st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 6e-8, np.inf, -np.inf, np.nan]),
    ),
    block=st.integers(4, 50),
)
def test_ties_infinities_and_nan_as_documented(groups: np.ndarray, block: int) -> None:  # type: ignore[type-arg]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "_BLOCK", block)
        for array, axis in ((groups, 1), (groups.T, 0), (groups.astype(ml_dtypes.bfloat16), 1)):
            made = prune_array(array, axis)
            expected = reference(np.moveaxis(np.asarray(array, np.float32), axis, -1))
            found = np.moveaxis(np.asarray(made, np.float32), axis, -1)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_change_nothing(axis: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(4).standard_normal((132, 52), dtype=np.float32)
    expected = prune_array(array, axis)
    monkeypatch.setattr(pruning, "_BLOCK", 256)
    monkeypatch.setattr(pruning, "_PARALLEL", 1)
    workers = []
    prune = pruning._prune

    def noted(*parts: np.ndarray) -> None:  # type: ignore[type-arg]
        workers.append(threading.get_ident())
        prune(*parts)

    monkeypatch.setattr(pruning, "_prune", noted)
    np.testing.assert_array_equal(prune_array(array, axis, threads=threads), expected)
    assert threading.get_ident() not in workers
