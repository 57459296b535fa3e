"""What goes into an engine: memory of the device, other libraries, formats, values of shapes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.common import FormattedArray
from polygraphy.cuda import DeviceArray, DeviceView
from polygraphy.domain.errors import (
    InputError,
)
from tests.support.engines import calls_of, identity
from tests.support.fake_tensorrt import FakeTensorRT, Tensor

F32 = np.float32
X = np.arange(6, dtype=F32).reshape(3, 2)


# Inputs on the device, and of other libraries.


class OnDevice:
    """What CuPy and Numba show of their arrays."""

    def __init__(self, array: DeviceArray, strides: Any = None, stream: Any = None) -> None:
        self.array, self.strides, self.stream = array, strides, stream
        self.dtype, self.shape = array.dtype, array.shape

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {"strides": self.strides, "stream": self.stream}
        return self.array.__cuda_array_interface__ | described


def test_memory_of_the_device_is_read_where_it_is(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt)) as runner, DeviceArray(dtype=F32) as array:
        array.copy_from(X)
        for feed in (array, array.view(), OnDevice(array)):
            for _ in range(4):
                np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], X)
            assert runner.context.addresses["X"] == array.ptr
        array.copy_from(X + 1)
        np.testing.assert_array_equal(runner.infer({"X": array.ptr})["Y"], X + 1)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


def test_another_address_is_noticed(trt: FakeTensorRT) -> None:
    with (
        TrtRunner(identity(trt)) as runner,
        DeviceArray(dtype=F32) as one,
        DeviceArray(dtype=F32) as other,
    ):
        one.copy_from(X)
        other.copy_from(-X)
        for feed, expected in ((one, X), (one, X), (one, X), (other, -X), (one, X)):
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], expected)


def test_an_address_alone_has_no_shape(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, pytest.raises(InputError, match="DeviceView"):
        runner.infer({"X": 0x1000})


def test_work_of_other_streams_is_waited_for(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, DeviceArray(dtype=F32) as array:
        array.copy_from(X)
        runner.infer({"X": OnDevice(array, stream=1)})
        assert "cudaStreamWaitEvent" not in trt.cuda.calls
        runner.infer({"X": OnDevice(array, stream=runner.stream.ptr)})
        assert "cudaStreamWaitEvent" in trt.cuda.calls


def test_elements_apart_from_each_other_are_refused(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, DeviceArray((3, 2), F32) as array:
        with pytest.raises(InputError, match="not contiguous"):
            runner.infer({"X": OnDevice(array, strides=(4, 12))})
        array.copy_from(X)
        feed = OnDevice(array, strides=(8, 4))
        np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], X)


class Dlpack:
    """An array in host memory of a library that knows DLPack alone."""

    def __init__(self, array: Any) -> None:
        self._array, self.dtype, self.shape = array, array.dtype, array.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_dlpack_on_the_host(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        np.testing.assert_array_equal(runner.infer({"X": Dlpack(X.copy())})["Y"], X)


class DlpackOnDevice(Dlpack):
    """The same on the device: the memory of the fake device is that of the host."""

    def __init__(self, cuda: Any, array: DeviceArray) -> None:
        super().__init__(cuda.array(array.ptr, array.shape, array.dtype))

    def __dlpack_device__(self) -> Any:
        return (2, 0)


def test_dlpack_on_the_device(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, DeviceArray(dtype=F32) as array:
        array.copy_from(X)
        feed = DlpackOnDevice(trt.cuda, array)
        np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], X)
        assert runner.context.addresses["X"] == array.ptr


# Tensors of a special kind.


@pytest.mark.parametrize(
    "dtype", ["FLOAT", "HALF", "BF16", "FP8", "INT8", "UINT8", "INT32", "INT64", "BOOL"]
)
def test_every_data_type_goes_through(trt: FakeTensorRT, dtype: str) -> None:
    with TrtRunner(identity(trt, dtype)) as runner:
        wanted = runner.get_input_metadata()["X"].dtype
        feed = np.array([[0, 1], [1, 100]]).astype(
            np.dtype(getattr(wanted, "numpy", lambda: wanted)())
        )
        for _ in range(3):
            got = runner.infer({"X": feed})["Y"]
            assert got.dtype == feed.dtype
            assert got.tobytes() == feed.tobytes()


@pytest.mark.parametrize("dtype", ["INT4", "FP4"])
@pytest.mark.parametrize("rows", [1, 3])
def test_elements_of_four_bits_go_through(trt: FakeTensorRT, dtype: str, rows: int) -> None:
    kind = {"INT4": ml_dtypes.int4, "FP4": ml_dtypes.float4_e2m1fn}[dtype]
    feed = np.array([[1, -2]] * rows).astype(kind)
    with TrtRunner(identity(trt, dtype)) as runner:
        for sign in (1, -1, 1, -1):
            given = (feed.astype(F32) * sign).astype(kind)
            got = runner.infer({"X": given})["Y"]
            assert got.dtype == given.dtype
            assert got.astype(F32).tolist() == given.astype(F32).tolist()


@pytest.mark.parametrize("tensor_format", ["CHW4", "CHW16", "HWC", "HWC8"])
def test_formats_of_the_engine_stay_inside(any_trt: FakeTensorRT, tensor_format: str) -> None:
    profiles = [((1, 5, 2, 3), (1, 5, 2, 3), (4, 5, 2, 3))]
    engine = any_trt.engine(
        [
            Tensor("x", "HALF", (-1, 5, 2, 3), profiles=profiles, tensor_format=tensor_format),
            Tensor("y", "HALF", (-1, 5, 2, 3), tensor_format=tensor_format),
        ],
        lambda feed: {"y": feed["x"] * 2},
        outputs=["y"],
    )
    with TrtRunner(engine) as runner:
        for batch in (2, 2, 2, 2, 3):
            feed = np.random.default_rng(batch).random((batch, 5, 2, 3)).astype(np.float16)
            np.testing.assert_array_equal(runner.infer({"x": feed})["y"], feed * 2)
            raw = runner.infer({"x": feed}, return_raw_buffers=True)["y"]
            again = runner.infer({"x": FormattedArray(raw.array.view(np.float16), raw.shape)})["y"]
            np.testing.assert_array_equal(again, feed * 4)
        with pytest.raises(InputError, match="bytes in its format"):
            runner.infer({"x": FormattedArray(np.zeros(3, np.float16), (3, 5, 2, 3))})


def shaped(trt: FakeTensorRT) -> Any:
    """Return an engine that fills `shape` with x, and hands out the shape."""
    return trt.engine(
        [
            Tensor("shape", "INT32", (2,), on_host=True),
            Tensor("x", "FLOAT", (1,)),
            Tensor("y", "FLOAT", (-1, -1)),
            Tensor("back", "INT32", (2,), on_host=True),
        ],
        lambda feed: {"y": np.full(feed["shape"], feed["x"][0]), "back": feed["shape"]},
        outputs=["y", "back"],
    )


def test_values_that_are_shapes_are_read_on_the_host(any_trt: FakeTensorRT) -> None:
    with TrtRunner(shaped(any_trt)) as runner, DeviceArray(dtype=np.int32) as there:
        before: tuple[int, ...] = ()
        for shape in ((2, 3), (2, 3), (2, 3), (3, 2), (0, 4)):
            values = np.array(shape, np.int32)
            calls_of(runner)
            outputs = runner.infer({"shape": values, "x": np.array([7], F32)})
            # TensorRT may have read the values when their address was set; and TensorRT 8
            # crashes unless the rest is set again too, or after a capture.
            called = calls_of(runner)
            assert called.count("set_tensor_address") == (0 if shape == before else 4)
            assert called.count("set_input_shape") == (0 if shape == before else 2)
            assert "execute_async_v3" in called
            before = shape
            np.testing.assert_array_equal(outputs["y"], np.full(shape, 7, F32))
            assert outputs["back"].tolist() == list(shape)
        there.copy_from(np.array([1, 2], np.int32))
        outputs = runner.infer({"shape": there, "x": np.array([1], F32)})
        assert outputs["y"].shape == (1, 2)
        with pytest.raises(InputError, match="read on the host"):
            runner.infer({"shape": 0x1000, "x": np.array([1], F32)})


def test_an_output_may_share_the_memory_of_an_input(trt: FakeTensorRT) -> None:
    engine = trt.engine(
        [Tensor("x", "FLOAT", (2,)), Tensor("y", "FLOAT", (2,), aliased="x")],
        lambda feed: {"y": feed["x"] + 1},
        outputs=["y"],
    )
    with TrtRunner(engine) as runner, DeviceArray(dtype=F32) as array:
        for _ in range(4):
            assert runner.infer({"x": np.zeros(2, F32)})["y"].tolist() == [1, 1]
        array.copy_from(np.zeros(2, F32))
        outputs = runner.infer({"x": array}, copy_outputs_to_host=False)
        assert outputs["y"].ptr == array.ptr
        assert array.numpy().tolist() == [1, 1]


def test_empty_inputs_have_an_address(any_trt: FakeTensorRT) -> None:
    empty = np.zeros((0, 2), F32)
    with TrtRunner(identity(any_trt)) as runner:
        for feed in (empty, DeviceView(0, (0, 2), F32), empty):
            assert runner.infer({"X": feed})["Y"].shape == (0, 2)
