"""The CUDA runtime, streams, graphs and arrays, on a CUDA that is made of host memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from polygraphy.adapters.cuda import wrapper as cuda_module
from polygraphy.adapters.cuda.device import CudaDevice, Event, Graph
from polygraphy.cuda import DeviceArray, DeviceView, MemcpyKind, Stream, use_device, wrapper
from polygraphy.datatype import DataType
from polygraphy.domain.errors import BackendError, MissingDependencyError, UsageError
from polygraphy.logger import G_LOGGER
from tests.support.fake_cuda import FakeCudart

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def cuda() -> Iterator[FakeCudart]:
    fake = FakeCudart(total=1 << 20)
    with cuda_module.use_module(fake):
        yield fake
    assert fake.outstanding == {}


# Errors.


def test_an_error_has_cudas_name_and_words_and_a_remedy(cuda: FakeCudart) -> None:
    cuda.driver = 35  # type: ignore[assignment]
    with pytest.raises(BackendError) as caught:
        CudaDevice().require()
    for fact in ("cudaErrorInsufficientDriver, 35", "driver version is insufficient", "Install"):
        assert fact in str(caught.value)


def test_no_gpu_is_an_error_of_its_own(cuda: FakeCudart) -> None:
    cuda.device_count = 0
    with pytest.raises(BackendError, match=r"No GPU was found.*CUDA_VISIBLE_DEVICES"):
        CudaDevice().require()


def test_out_of_memory_tells_bytes(cuda: FakeCudart) -> None:
    with pytest.raises(BackendError) as caught:
        wrapper().malloc(1 << 21)
    assert "allocate 2097152 bytes" in str(caught.value)
    assert "1048576 of 1048576 bytes are free" in str(caught.value)
    assert "smaller batch" in str(caught.value)


def test_an_error_is_not_blamed_on_the_next_call(cuda: FakeCudart) -> None:
    with pytest.raises(BackendError):
        wrapper().free(0x1234)
    assert cuda.cudaGetLastError() == (0,)


def test_a_status_can_be_checked() -> None:
    with cuda_module.use_module(FakeCudart()):
        wrapper().check(0)
        with pytest.raises(BackendError, match="cudaErrorMemoryAllocation"):
            wrapper().check(2)
        with pytest.raises(BackendError, match="unknown, 4242"):
            wrapper().check(4242)


def test_without_the_package_the_error_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['cuda'] = None\n"
        "from polygraphy.cuda import wrapper\n"
        "try: wrapper().malloc(1)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(MissingDependencyError.__name__)
    assert "pip install cuda-python" in done.stdout


OLD_LAYOUT = """
import sys, types
package = types.ModuleType("cuda"); package.__path__ = []
old = types.ModuleType("cuda.cudart")
sys.modules.update({"cuda": package, "cuda.cudart": old})
from polygraphy.adapters.cuda.wrapper import cudart
"""


def test_the_old_layout_of_the_package_will_do() -> None:
    code = f"{OLD_LAYOUT}old.cudaGetDeviceCount = lambda: (0, 1)\nassert cudart() is old"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_old_layout_without_a_driver_is_an_error_like_any_other() -> None:
    code = f"""{OLD_LAYOUT}
def fail(): raise RuntimeError("Failed to dlopen libcuda.so")
old.cudaGetDeviceCount = fail
from polygraphy.exception import BackendError
try: cudart()
except BackendError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Failed to dlopen libcuda.so" in done.stdout
    assert "Install the NVIDIA driver" in done.stdout


# The runtime.


def test_devices_are_chosen(cuda: FakeCudart) -> None:
    cuda.device_count = 3
    assert wrapper().device_count() == 3
    wrapper().set_device(2)
    assert wrapper().get_device() == 2
    with pytest.raises(BackendError, match="use GPU 5"):
        wrapper().set_device(5)


def test_another_device_is_used_for_a_while(cuda: FakeCudart) -> None:
    cuda.device_count = 3
    wrapper().set_device(1)
    with use_device(2), use_device(None):
        assert wrapper().get_device() == 2
        with Stream() as stream:
            assert stream.device == 2
    assert wrapper().get_device() == 1
    with pytest.raises(ValueError, match="inside"), use_device(0):
        raise ValueError("inside")
    assert wrapper().get_device() == 1
    for index in (3, -1):
        with (
            pytest.raises(UsageError, match=rf"GPU {index} does not exist: found 3"),
            use_device(index),
        ):
            pass
    assert wrapper().get_device() == 1


def test_memory_goes_there_and_back(cuda: FakeCudart) -> None:
    address = wrapper().malloc(X.nbytes)
    back = np.empty_like(X)
    wrapper().memcpy(address, X.ctypes.data, X.nbytes, MemcpyKind.HostToDevice)
    wrapper().memcpy(back.ctypes.data, address, X.nbytes, MemcpyKind.DeviceToHost)
    np.testing.assert_array_equal(back, X)
    wrapper().free(address)


def test_a_stream_by_its_address(cuda: FakeCudart) -> None:
    ptr = wrapper().create_stream()
    address = wrapper().malloc(X.nbytes)
    wrapper().memcpy(address, X.ctypes.data, X.nbytes, MemcpyKind.HostToDevice, ptr)
    wrapper().stream_synchronize(ptr)
    np.testing.assert_array_equal(cuda.array(address, X.shape, X.dtype), X)
    wrapper().destroy_stream(ptr)
    wrapper().free(address)


def test_a_negative_size_is_refused(cuda: FakeCudart) -> None:
    with pytest.raises(BackendError, match="-1"):
        wrapper().malloc(-1)


def test_memory_of_the_host_is_pinned_and_unpinned(cuda: FakeCudart) -> None:
    device = CudaDevice()
    assert device.register(X.ctypes.data, X.nbytes)
    assert not device.register(X.ctypes.data, X.nbytes)
    device.unregister(X.ctypes.data)
    with pytest.raises(BackendError, match="unpin"):
        device.unregister(X.ctypes.data)


# Streams, events, graphs.


def test_work_is_done_by_the_time_the_stream_is_synchronized(cuda: FakeCudart) -> None:
    block = CudaDevice().pin(8)
    address = wrapper().malloc(8)
    with Stream() as stream:
        block.array[:] = 7
        stream.to_device(address, block.address, 8)
        block.array[:] = 9  # Too early: the copy is still to be done.
        stream.synchronize()
        assert cuda.array(address, (8,), np.uint8).tolist() == [9] * 8
        block.array[:] = 0
        stream.on_device(address, address, 8)
        stream.to_host(block.address, address, 8)
        stream.synchronize()
        assert block.array.tolist() == [9] * 8
    block.free()
    block.free()
    wrapper().free(address)


def test_a_stream_is_freed_once(cuda: FakeCudart) -> None:
    stream = Stream()
    assert stream.ptr
    stream.free()
    stream.free()
    assert stream.ptr == 0


def test_time_between_events(cuda: FakeCudart) -> None:
    first, last = Event(), Event()
    address = wrapper().malloc(1)
    with Stream() as stream:
        stream.record(first)
        stream.on_device(address, address, 1)
        with pytest.raises(BackendError, match="measure"):
            last.seconds_since(first)
        stream.record(last)
        stream.synchronize()
        assert last.seconds_since(first) == pytest.approx(0.002)
    for event in (first, last, last):
        event.free()
    wrapper().free(address)


def test_waiting_for_another_stream_leaves_nothing_behind(cuda: FakeCudart) -> None:
    with Stream() as one, Stream() as other:
        one.wait_for(other.ptr)
        assert "cudaStreamWaitEvent" in cuda.calls


def test_a_graph_repeats_its_work(cuda: FakeCudart) -> None:
    block = CudaDevice().pin(4)
    address = wrapper().malloc(4)
    block.array[:] = 1
    with Stream() as stream:
        graph = Graph(lambda recorder: recorder.to_device(address, block.address, 4), stream)
        for value in (3, 4):
            block.array[:] = value
            graph.launch()
            stream.synchronize()
            assert cuda.array(address, (4,), np.uint8).tolist() == [value] * 4
        graph.free()
        graph.free()
    block.free()
    wrapper().free(address)


def test_capturing_what_cannot_be_captured_is_an_error(cuda: FakeCudart) -> None:
    with Stream() as stream, pytest.raises(BackendError, match="finish the work"):
        Graph(lambda recorder: recorder.synchronize(), stream)


def test_what_fails_while_capturing_is_raised(cuda: FakeCudart) -> None:
    def fail(recorder: Stream) -> None:
        raise KeyError("mine")

    with Stream() as stream, pytest.raises(KeyError, match="mine"):
        Graph(fail, stream)


# Arrays.


def test_an_array_there_and_back(cuda: FakeCudart) -> None:
    with DeviceArray(dtype=np.float32) as array:
        assert array.copy_from(X) is array
        assert array.shape == (2, 3)
        assert (array.itemsize, array.nbytes) == (4, 24)
        np.testing.assert_array_equal(array.numpy(), X, strict=True)


def test_an_array_copies_on_a_stream(cuda: FakeCudart) -> None:
    block = CudaDevice().pin(X.nbytes)
    pinned = block.array.view(np.float32).reshape(X.shape)
    pinned[...] = X
    with Stream() as stream, DeviceArray(X.shape, np.float32) as array:
        array.copy_from(pinned, stream)
        back = np.zeros_like(X)
        array.copy_to(back, stream)
        stream.synchronize()
        np.testing.assert_array_equal(back, X)
    block.free()


def test_what_is_not_contiguous_is_copied_right(cuda: FakeCudart) -> None:
    with Stream() as stream, DeviceArray(dtype=np.float32) as array:
        array.copy_from(X.T, stream)
        stream.synchronize()
        np.testing.assert_array_equal(array.numpy(), X.T)
        target = np.zeros((2, 3), np.float32).T
        np.testing.assert_array_equal(array.copy_to(target), X.T)


def test_memory_grows_and_never_shrinks(cuda: FakeCudart) -> None:
    with DeviceArray((4,), np.float32) as array:
        first = array.ptr
        array.resize((2,))
        assert (array.ptr, array.shape, array.nbytes) == (first, (2,), 8)
        array.resize((2, 2))
        assert array.ptr == first
        assert array.allocated_nbytes == 16
        array.resize((5,))
        assert array.allocated_nbytes == 20


def test_without_memory_the_array_is_empty(cuda: FakeCudart) -> None:
    array = DeviceArray((4,), np.float32)
    with pytest.raises(BackendError):
        array.resize((1 << 20,))
    assert array.ptr == 0
    array.resize((4,))
    array.free()
    array.free()


def test_raw_memory_is_bytes(cuda: FakeCudart) -> None:
    with DeviceArray.raw((7,)) as array:
        assert (array.dtype, array.nbytes) == (np.uint8, 7)


def test_a_leak_is_reported(cuda: FakeCudart, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(G_LOGGER, "warning", reported.append)
    array = DeviceArray((4,), np.float32)
    ptr = array.ptr
    del array
    assert len(reported) == 1
    assert "16 bytes of device memory are lost" in reported[0]
    wrapper().free(ptr)
    DeviceArray()
    assert len(reported) == 1


def test_a_view_shares_memory(cuda: FakeCudart) -> None:
    with DeviceArray((2, 3), np.float32) as array:
        array.copy_from(X)
        assert array.view().numpy().tolist() == X.tolist()
        assert array.view((6,)).ptr == array.ptr
        as_bytes = array.view((24,), np.uint8)
        assert as_bytes.numpy().tobytes() == X.tobytes()
        with pytest.raises(UsageError, match="28 bytes does not fit into an array of 24"):
            array.view((7,))


def test_data_types_have_to_agree(cuda: FakeCudart) -> None:
    with DeviceArray((2,), np.float32) as array:
        with pytest.raises(UsageError, match="float64"):
            array.copy_from(np.zeros(2))
        with pytest.raises(UsageError, match="int32"):
            array.copy_to(np.zeros(3, np.int32))
    with pytest.raises(UsageError, match="int32"):
        DeviceArray().copy_from(np.zeros((), np.int32))  # It has no memory.


def test_bytes_of_another_type_are_copied_where_there_are_as_many(cuda: FakeCudart) -> None:
    bits = np.array([1, 2**30], np.int32)
    with DeviceArray((2,)) as array:
        assert array.copy_from(bits).shape == (2,) and array.dtype == np.float32
        assert array.numpy().view(np.int32).tolist() == bits.tolist()
        target = np.zeros((1, 2), np.int32)
        assert array.copy_to(target) is target and target.tolist() == [bits.tolist()]
    assert array.shape == ()


def test_a_host_array_of_another_shape_is_resized_or_left_alone(cuda: FakeCudart) -> None:
    with DeviceArray(dtype=np.float32) as array:
        array.copy_from(X)
        owner = np.zeros(1, np.float32)
        assert array.copy_to(owner) is owner
        assert owner.shape == (2, 3)
        borrowed = np.zeros(4, np.float32)[:2]
        made = array.copy_to(borrowed)
        assert made is not borrowed
        np.testing.assert_array_equal(made, X)


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32", DataType.FLOAT32])
def test_data_types_are_given_in_any_way(dtype: object) -> None:
    view = DeviceView(0x1000, (2,), dtype)
    assert view.dtype == np.float32
    assert DataType.from_dtype(view.dtype) is DataType.FLOAT32


def test_narrow_types_are_those_of_ml_dtypes() -> None:
    assert DeviceView(0x1000, (2,), DataType.BFLOAT16).dtype == ml_dtypes.bfloat16


def test_views_describe_themselves_to_other_libraries() -> None:
    described = DeviceView(0x1000, [2, 3], np.float32).__cuda_array_interface__
    assert described["shape"] == (2, 3)
    assert described["typestr"] == "<f4"
    assert described["data"] == (0x1000, False)


def test_empty_arrays_go_there_and_back(cuda: FakeCudart) -> None:
    with DeviceArray(dtype=np.float32) as array:
        array.copy_from(np.zeros((0, 3), np.float32))
        assert array.ptr
        assert array.numpy().shape == (0, 3)
