"""The GPU behind the ports `Device` and `DeviceMemory`."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any

import numpy as np

from polygraphy.adapters.cuda.array import DeviceView
from polygraphy.adapters.cuda.errors import checked, value_of
from polygraphy.adapters.cuda.module import cudart
from polygraphy.adapters.cuda.selection import use_device
from polygraphy.adapters.cuda.stream import Event, Stream
from polygraphy.adapters.cuda.wrapper import MemcpyKind, MemoryType, wrapper
from polygraphy.domain.errors import BackendError, InputError


class Graph:
    """A CUDA graph, ready to be launched on one stream."""

    def __init__(self, work: Callable[[Stream], None], stream: Stream) -> None:
        """Capture what `work` queues on the stream it is given, without doing it.

        That stream is one of its own, without order towards the default stream: otherwise, any
        thread that used the default stream meanwhile would get an error.

        Args:
            work: queues work; what it raises ends the capture and is raised again.
            stream: where the graph is going to be launched.

        Raises:
            BackendError: the work cannot be captured.
        """
        module = cudart()
        with Stream.unordered() as recorder:
            mode = module.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
            checked(module.cudaStreamBeginCapture(recorder.ptr, mode), "begin to capture a graph")
            try:
                work(recorder)
            except BaseException:
                _discard(module.cudaStreamEndCapture(recorder.ptr))
                raise
            captured = module.cudaStreamEndCapture(recorder.ptr)
        graph = value_of(captured, "capture a graph")
        try:
            self._executable: Any = value_of(
                module.cudaGraphInstantiate(graph, 0), "instantiate a graph"
            )
        finally:
            module.cudaGraphDestroy(graph)
        self._launch = module.cudaGraphLaunch
        self._stream = module.cudaStream_t(stream.ptr)

    def launch(self) -> None:
        """Queue the work; BackendError when that fails."""
        result = self._launch(self._executable, self._stream)
        if result[0]:
            checked(result, "launch a graph")

    def free(self) -> None:
        executable, self._executable = self._executable, None
        if executable is not None:
            checked(cudart().cudaGraphExecDestroy(executable), "destroy a graph")


def _discard(captured: tuple[Any, ...]) -> None:
    """Destroy what an abandoned capture left."""
    module = cudart()
    module.cudaGetLastError()
    if not captured[0] and int(captured[1]):
        module.cudaGraphDestroy(captured[1])


class CudaDevice:
    """The GPU that is current in the calling thread."""

    def require(self) -> None:
        """Do nothing if there is a GPU; BackendError with the reason if there is none."""
        if not wrapper().device_count():
            raise BackendError(
                "There is no GPU.", backend="cuda", hint="See nvidia-smi and CUDA_VISIBLE_DEVICES."
            )

    def use(self, index: int | None) -> AbstractContextManager[None]:
        """Make GPU `index` the current one inside a block; see `polygraphy.cuda.use_device`."""
        return use_device(index)

    def free_memory(self) -> int:
        return wrapper().memory_info()[0]

    def check_readable(self, address: int, gpu: int) -> None:
        memory, owner = wrapper().owner_of(address)
        if memory is MemoryType.UNKNOWN:
            raise InputError(
                f"The address {address:#x} is no memory that a GPU can read.",
                hint="Give the address of device memory that is still allocated, or an array of"
                " NumPy.",
            )
        if memory is MemoryType.DEVICE and owner != gpu:
            raise InputError(
                f"The memory at {address:#x} lies on GPU {owner}, but is to be read on GPU {gpu}.",
                hint=f"Copy it there, or run the model with device={owner} (in ONNX Runtime, that"
                " is the provider's option device_id).",
            )

    def allocate(self, nbytes: int) -> int:
        return wrapper().malloc(nbytes)

    def free(self, address: int) -> None:
        wrapper().free(address)

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        _copy(address, source.ctypes.data, source, MemcpyKind.HostToDevice)

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        _copy(target.ctypes.data, address, target, MemcpyKind.DeviceToHost)

    def create_stream(self) -> Stream:
        return Stream()

    def create_event(self) -> Event:
        return Event()

    def pin(self, nbytes: int) -> Pinned:
        return Pinned(nbytes)

    def pinned_array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array of zeros in pinned memory, which lives as long as it is referred to."""
        nbytes = prod(shape) * dtype.itemsize
        address = wrapper().malloc_host(nbytes)
        memory = _host_memory(address, nbytes)
        weakref.finalize(memory, wrapper().free_host, address).atexit = False
        array = np.ctypeslib.as_array(memory)
        array[...] = 0
        return array.view(dtype).reshape(tuple(shape))

    def register(self, host_address: int, nbytes: int) -> bool:
        return wrapper().host_register(host_address, nbytes)

    def unregister(self, host_address: int) -> None:
        wrapper().host_unregister(host_address)

    def capture(self, work: Callable[[Any], None], stream: Any) -> Graph:
        """Write down the work that `work` queues, without doing it; see the port."""
        return Graph(work, stream)

    def view(self, address: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> DeviceView:
        """Return an array over memory of the device, which keeps its owner."""
        return DeviceView(address, shape, dtype, owner)


class Pinned:
    """Host memory that the GPU reads and writes by itself.

    Attributes:
        address: where it starts.
        array: all of it, as bytes (uint8).
    """

    def __init__(self, nbytes: int) -> None:
        """Allocate; BackendError when there is not enough."""
        self.address = wrapper().malloc_host(nbytes)
        self.array: np.ndarray[Any, Any] = np.ctypeslib.as_array(_host_memory(self.address, nbytes))

    def free(self) -> None:
        address, self.address = self.address, 0
        if address:
            wrapper().free_host(address)


def _host_memory(address: int, nbytes: int) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * nbytes).from_address(address)


def _copy(target: int, source: int, array: np.ndarray[Any, Any], kind: MemcpyKind) -> None:
    if not array.flags.c_contiguous:
        raise BackendError("Only contiguous host arrays can be copied.", backend="cuda")
    if array.nbytes:
        wrapper().memcpy(target, source, array.nbytes, kind)
