"""Runners on one of several GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.cuda import DeviceArray, use_device, wrapper
from polygraphy.domain.errors import InputError, PolygraphyException, UsageError
from tests.support.engines import any_trt, identity, large, trt
from tests.support.fake_tensorrt import FakeTensorRT

__all__ = ["any_trt", "trt"]  # The fixtures that are used here.

X = np.arange(6, dtype=np.float32).reshape(3, 2)
ANYWHERE = {
    "cudaGetDeviceCount", "cudaGetDevice", "cudaSetDevice", "cudaHostUnregister", "cudaFreeHost",
}  # fmt: skip
"""Questions, and what host memory that callers drop at any time needs."""


def test_all_work_is_done_on_the_gpu_that_was_chosen(any_trt: FakeTensorRT) -> None:
    any_trt.cuda.device_count = 2
    made_on = []

    def load() -> Any:
        made_on.append(wrapper().get_device())
        return identity(any_trt)

    runner = TrtRunner(load, device=1, optimization_profile=1, device_times=True)
    with runner:
        assert wrapper().get_device() == 0
        for feed in (large(value=2), large(value=3), X[:1].repeat(40, axis=0)):
            for _ in range(4):
                np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
                assert wrapper().get_device() == 0
        pinned = runner.pinned_input("X", (32, 2))
        pinned[...] = 1
        runner.set_profile(0)
        np.testing.assert_array_equal(runner.infer({"X": pinned})["Y"], pinned)
        with pytest.raises(PolygraphyException):
            runner.infer({"X": X.astype(np.float64)}, check_inputs=False)
        assert wrapper().get_device() == 0
    assert wrapper().get_device() == 0
    assert made_on == [1]
    assert any_trt.cuda.used[0] <= ANYWHERE
    assert {"create_execution_context", "execute_async_v3"} <= any_trt.cuda.used[1]
    del pinned


def test_unless_chosen_it_is_the_gpu_of_the_thread(any_trt: FakeTensorRT) -> None:
    any_trt.cuda.device_count = 2
    with use_device(1), TrtRunner(identity(any_trt)) as runner:
        runner.infer({"X": X})
    assert "execute_async_v3" in any_trt.cuda.used[1]
    assert any_trt.cuda.used[0] <= ANYWHERE


def test_a_gpu_that_does_not_exist_is_refused_before_anything_is_built(trt: FakeTensorRT) -> None:
    runner = TrtRunner(lambda: pytest.fail("an engine was built"), device=1)
    with pytest.raises(UsageError, match=r"GPU 1 does not exist: found 1"):
        runner.activate()
    assert not runner.is_active


def test_a_failure_leaves_the_thread_on_its_gpu(trt: FakeTensorRT) -> None:
    trt.cuda.device_count = 2
    with pytest.raises(PolygraphyException):
        TrtRunner(lambda: identity(trt, contexts=0), device=1).activate()
    assert wrapper().get_device() == 0
    assert trt.cuda.outstanding == {}


class OnGpu:
    """An array of a library that tells by DLPack where it lies."""

    def __init__(self, array: DeviceArray, gpu: int) -> None:
        self.array, self.gpu = array, gpu

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.gpu

    def __dlpack__(self, stream: int) -> Any:
        raise AssertionError("what lies elsewhere is not asked for")


def test_data_on_another_gpu_are_refused_before_the_engine_reads_them(trt: FakeTensorRT) -> None:
    trt.cuda.device_count = 2
    with (
        TrtRunner(identity(trt), device=1) as runner,
        DeviceArray(X.shape, np.float32) as array,
        pytest.raises(InputError, match=r"OnGpu is on GPU 0.*runs on GPU 1.*device=0"),
    ):
        runner.infer({"X": OnGpu(array, 0)}, check_inputs=False)
    assert "execute_async_v3" not in trt.cuda.calls


@pytest.mark.parametrize(
    "given", [lambda array: array, lambda array: array.ptr], ids=["array", "address"]
)
def test_memory_of_another_gpu_is_refused_before_the_engine_reads_it(
    trt: FakeTensorRT, given: Any
) -> None:
    trt.cuda.device_count = 2
    with TrtRunner(identity(trt), device=1) as runner:
        runner.infer({"X": X})
        done = trt.cuda.calls.count("execute_async_v3")
        with (
            DeviceArray(X.shape, np.float32) as array,
            pytest.raises(InputError, match=r"is on GPU 0.*GPU 1 would read.*device=0"),
        ):
            runner.infer({"X": given(array)}, check_inputs=False)
        assert trt.cuda.calls.count("execute_async_v3") == done
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


def test_an_address_that_no_gpu_knows_is_refused(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        runner.infer({"X": X})
        with pytest.raises(InputError, match="No GPU can read memory"):
            runner.infer({"X": X.ctypes.data}, check_inputs=False)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
