"""Large outputs come in pinned memory that goes around."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.adapters.cuda.device import CudaDevice
from polygraphy.adapters.tensorrt.runtime import outputs as pinned_arrays
from polygraphy.adapters.tensorrt.runtime.outputs import PinnedArrays
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from tests.support.engines import fake_machine, identity, large, nonzero
from tests.support.examples import scaled
from tests.support.fake_tensorrt import FakeTensorRT

F32 = np.dtype(np.float32)


@pytest.fixture
def arrays(trt: FakeTensorRT) -> Any:
    """Give arrays, and give their memory back."""
    made = PinnedArrays(CudaDevice())
    yield made
    made.free()
    gc.collect()


def _pinned(trt: FakeTensorRT) -> int:
    return trt.cuda.outstanding.get("pinned", 0)


def test_the_first_array_is_an_ordinary_one(arrays: PinnedArrays, trt: FakeTensorRT) -> None:
    first = arrays.array((4, 2), F32)
    assert (first.shape, first.dtype, _pinned(trt)) == ((4, 2), F32, 0)
    second = arrays.array((4, 2), F32)
    assert (second.shape, second.dtype, _pinned(trt)) == ((4, 2), F32, 1)


def test_memory_is_given_again_when_no_view_of_it_is_left(
    arrays: PinnedArrays, trt: FakeTensorRT
) -> None:
    arrays.array((8,), F32)
    second = arrays.array((8,), F32)
    address, view = second.ctypes.data, second[2:].reshape(2, 3)
    del second
    third = arrays.array((8,), F32)
    assert third.ctypes.data != address  # A view of it is alive.
    del view
    assert arrays.array((8,), F32).ctypes.data == address
    assert _pinned(trt) == 2


def test_whoever_keeps_everything_gets_ordinary_arrays_in_the_end(
    arrays: PinnedArrays, trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [arrays.array((8,), F32) for _ in range(9)]
    assert _pinned(trt) == 3
    assert len({array.ctypes.data for array in kept}) == 9
    monkeypatch.setattr(pinned_arrays, "_BYTES", 100)
    kept = [arrays.array((50,), F32) for _ in range(9)]  # Too large to be pinned at all.
    del kept
    gc.collect()
    assert _pinned(trt) == 0


def test_where_nothing_can_be_pinned_arrays_are_ordinary(
    arrays: PinnedArrays, trt: FakeTensorRT
) -> None:
    arrays.array((8,), F32)
    trt.cuda.fail["cudaHostAlloc"] = 2
    kept = [arrays.array((8,), F32) for _ in range(4)]
    assert len(kept) == 4 and _pinned(trt) == 0


def test_an_array_outlives_the_runner(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=1) as runner:
        results = [runner.infer({"X": large(value=value)})["Y"] for value in range(5)]
        assert any_trt.cuda.outstanding["pinned"] == 3
    for value, result in enumerate(results):
        np.testing.assert_array_equal(result, large(value=value))
    assert any_trt.cuda.outstanding == {"pinned": 3}
    del results, result
    gc.collect()
    assert any_trt.cuda.outstanding == {}


def test_a_loop_that_keeps_the_last_result_takes_two_blocks(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=1) as runner:
        feed = large()
        addresses = set()
        for value in range(12):
            feed[:] = value
            result = runner.infer({"X": feed})["Y"]
            assert result[-1, 1] == value
            addresses.add(result.ctypes.data)
        # An ordinary one first, whose address may come again, then two that take turns.
        assert len(addresses) in (2, 3)
        assert any_trt.cuda.outstanding["pinned"] == 2
        del result


def test_small_outputs_are_copied_out_of_staging_memory(trt: FakeTensorRT) -> None:
    with TrtRunner(nonzero(trt)) as runner:
        for _ in range(3):
            runner.infer({"X": np.ones(4, np.float32)})
        before = trt.cuda.calls.count("cudaHostAlloc")
        for _ in range(3):
            runner.infer({"X": np.ones(4, np.float32)})
        assert trt.cuda.calls.count("cudaHostAlloc") == before


@settings(max_examples=scaled(60), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.sampled_from([3, 5])),
            st.tuples(st.just("drop"), st.integers(0, 9)),
            st.just(("free", 0)),
        ),
        max_size=40,
    )
)
def test_no_two_living_arrays_share_memory_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    with fake_machine() as trt:
        arrays = PinnedArrays(CudaDevice())
        living: list[tuple[int, Any]] = []
        for number, (what, amount) in enumerate(steps):
            if what == "take":
                array = arrays.array((amount,), F32)
                array[:] = number
                living.append((number, array))
                del array
            elif what == "drop" and living:
                del living[amount % len(living)]
            elif what == "free":
                arrays.free()
            for value, array in living:
                assert (array == value).all()
                del array
        arrays.free()
        living.clear()
        assert trt.cuda.outstanding == {}
