"""The GPU behind the ports `Device` and `DeviceMemory`."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any, TypeVar

import numpy as np

from polygraphy.adapters.cuda.array import DeviceView
from polygraphy.adapters.cuda.wrapper import (
    MemcpyKind,
    MemoryType,
    check_result,
    cudart,
    value_of,
    wrapper,
)
from polygraphy.domain.errors import BackendError, InputError, UsageError


@contextmanager
def use_device(index: int | None) -> Iterator[None]:
    """Make GPU `index` the current one of the thread inside the block.

    Memory, streams and engines that are created inside stay on that GPU.

    Args:
        index: of the GPU, from 0, among those that CUDA_VISIBLE_DEVICES shows; None changes
            nothing, and needs no GPU.

    Raises:
        UsageError: the GPU does not exist.
        BackendError: CUDA cannot be used.
    """
    if index is None:
        yield
        return
    cuda = wrapper()
    count = cuda.device_count()
    if not 0 <= index < count:
        raise UsageError(
            f"GPU {index} does not exist: found {count}, counted from 0.",
            hint="Check nvidia-smi and CUDA_VISIBLE_DEVICES.",
        )
    before = cuda.get_device()
    cuda.set_device(index)
    try:
        yield
    finally:
        cuda.set_device(before)


S = TypeVar("S", bound="Stream")

# `cudaStreamNonBlocking`: not ordered with the default stream.
_NON_BLOCKING = 1


class Stream:
    """A queue of work on the current GPU, executed in order, after earlier work on the default
    stream.

    Attributes:
        ptr: the address of the stream for libraries; 0 after it is freed.
        device: the index of the GPU whose queue it is.
    """

    def __init__(self) -> None:
        """Create the stream; raise BackendError without a GPU."""
        self._use_handle(wrapper().create_stream())

    @classmethod
    def non_blocking(cls: type[S]) -> S:
        """Return a new stream that does not wait for the default stream."""
        stream = cls.__new__(cls)
        cudaStreamCreateWithFlags = cudart().cudaStreamCreateWithFlags(_NON_BLOCKING)
        stream._use_handle(int(value_of(cudaStreamCreateWithFlags, "create a stream")))
        return stream

    def _use_handle(self, ptr: int) -> None:
        """Use a CUDA stream by its handle, on the current GPU."""
        module = cudart()
        self.ptr = ptr
        self.device = wrapper().get_device()
        self._handle = module.cudaStream_t(ptr)
        # Look up these functions once, because every inference calls them.
        self._synchronize = module.cudaStreamSynchronize
        self._copy = module.cudaMemcpyAsync
        self._record = module.cudaEventRecord
        kinds = module.cudaMemcpyKind
        self._to_device = kinds(int(MemcpyKind.HostToDevice))
        self._to_host = kinds(int(MemcpyKind.DeviceToHost))
        self._on_device = kinds(int(MemcpyKind.DeviceToDevice))

    def synchronize(self) -> None:
        """Wait until all work is done; raise BackendError if some of it failed."""
        result = self._synchronize(self._handle)
        if result[0]:
            check_result(result, "finish the work on a stream")

    def to_device(self, address: int, host_address: int, nbytes: int) -> None:
        """Copy host memory to the device."""
        result = self._copy(address, host_address, nbytes, self._to_device, self._handle)
        if result[0]:
            check_result(result, f"copy {nbytes} bytes to the GPU")

    def to_host(self, host_address: int, address: int, nbytes: int) -> None:
        """Copy device memory to the host."""
        result = self._copy(host_address, address, nbytes, self._to_host, self._handle)
        if result[0]:
            check_result(result, f"copy {nbytes} bytes from the GPU")

    def on_device(self, address: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory."""
        result = self._copy(address, source, nbytes, self._on_device, self._handle)
        if result[0]:
            check_result(result, f"copy {nbytes} bytes on the GPU")

    def record(self, event: Any) -> None:
        """Record an event, which is reached when the work queued so far is done."""
        result = self._record(event.handle, self._handle)
        if result[0]:
            check_result(result, "record an event")

    def wait_for(self, stream: int) -> None:
        """Make later work wait for the work that is queued on another stream.
        `stream` is its address.
        """
        module = cudart()
        event = Event()
        try:
            check_result(module.cudaEventRecord(event.handle, stream), "record an event")
            check_result(
                module.cudaStreamWaitEvent(self._handle, event.handle, 0), "wait for a stream"
            )
        finally:
            event.free()

    def free(self) -> None:
        """Destroy the stream; later calls do nothing."""
        ptr, self.ptr = self.ptr, 0
        if ptr:
            wrapper().destroy_stream(ptr)

    def __enter__(self: S) -> S:
        """Return the stream, which is destroyed at the end of the block."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Destroy the stream."""
        self.free()

    def __repr__(self) -> str:
        """Return the address of the stream as text."""
        return f"Stream(ptr={self.ptr:#x})"


class Event:
    """A point in the work of a stream.

    Attributes:
        handle: by which cudart knows the event; None once it is freed.
    """

    def __init__(self) -> None:
        """Create the event; raise BackendError without a GPU."""
        self.handle: Any = value_of(cudart().cudaEventCreate(), "create an event")

    def seconds_since(self, earlier: Event) -> float:
        """Return the time between two events that were reached.
        Raise BackendError if one was not."""
        elapsed = cudart().cudaEventElapsedTime(earlier.handle, self.handle)
        return float(value_of(elapsed, "measure the time between events")) / 1000

    def free(self) -> None:
        """Destroy the event; later calls do nothing."""
        handle, self.handle = self.handle, None
        if handle is not None:
            check_result(cudart().cudaEventDestroy(handle), "destroy an event")


class Graph:
    """A CUDA graph, ready to be launched on one stream."""

    def __init__(self, work: Callable[[Stream], None], stream: Stream) -> None:
        """Capture the work that `work` queues on the stream, without executing it.

        The capture uses a stream of its own that is not ordered with the default stream: otherwise,
        other threads that use the default stream would get an error.

        Args:
            work: queues work; its exceptions end the capture and are raised again.
            stream: the stream on which the graph will be launched.

        Raises:
            BackendError: the work cannot be captured.
        """
        module = cudart()
        with Stream.non_blocking() as recorder:
            mode = module.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
            check_result(
                module.cudaStreamBeginCapture(recorder.ptr, mode), "start capturing a graph"
            )
            try:
                work(recorder)
            except BaseException:
                _destroy_capture(module.cudaStreamEndCapture(recorder.ptr))
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
        """Queue the work; raise BackendError if that fails."""
        result = self._launch(self._executable, self._stream)
        if result[0]:
            check_result(result, "launch a graph")

    def free(self) -> None:
        """Destroy the graph; later calls do nothing."""
        executable, self._executable = self._executable, None
        if executable is not None:
            check_result(cudart().cudaGraphExecDestroy(executable), "destroy a graph")


def _destroy_capture(captured: tuple[Any, ...]) -> None:
    """Destroy the graph of a capture that failed."""
    module = cudart()
    module.cudaGetLastError()
    if not captured[0] and int(captured[1]):
        module.cudaGraphDestroy(captured[1])


class CudaDevice:
    """The current GPU of the calling thread."""

    def require(self) -> None:
        """Raise BackendError, with the reason, unless there is a GPU."""
        if not wrapper().device_count():
            raise BackendError(
                "No GPU was found.",
                backend="cuda",
                hint="Check nvidia-smi and CUDA_VISIBLE_DEVICES.",
            )

    def current(self) -> int:
        """Return the number of the current GPU."""
        return wrapper().get_device()

    def use(self, index: int | None) -> AbstractContextManager[None]:
        """Return a context that makes GPU `index` the current one."""
        return use_device(index)

    def synchronize(self) -> None:
        """Wait for all work on the GPU."""
        wrapper().synchronize()

    def free_memory(self) -> int:
        """Return the free memory in bytes."""
        return wrapper().memory_info()[0]

    def check_readable(self, address: int, gpu: int) -> None:
        """Raise InputError if a GPU cannot read memory at an address."""
        memory, owner = wrapper().owner_of(address)
        if memory is MemoryType.UNKNOWN:
            raise InputError(
                f"No GPU can read memory at address {address:#x}.",
                hint="Pass the address of device memory that is still allocated, or a NumPy array.",
            )
        if memory is MemoryType.DEVICE and owner != gpu:
            raise InputError(
                f"The memory at {address:#x} is on GPU {owner}, but GPU {gpu} would read it.",
                hint=f"Copy it to that GPU, or run the model with device={owner} (in ONNX Runtime:"
                " the provider option device_id).",
            )

    def allocate(self, nbytes: int) -> int:
        """Allocate device memory, and return its address."""
        return wrapper().malloc(nbytes)

    def free(self, address: int) -> None:
        """Free device memory."""
        wrapper().free(address)

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a host array to a device address."""
        _copy_array(address, source.ctypes.data, source, MemcpyKind.HostToDevice)

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Copy from a device address to a host array."""
        _copy_array(target.ctypes.data, address, target, MemcpyKind.DeviceToHost)

    def create_stream(self) -> Stream:
        """Return a new stream."""
        return Stream()

    def create_event(self) -> Event:
        return Event()

    def pin(self, nbytes: int) -> Pinned:
        """Return new pinned host memory of a size in bytes."""
        return Pinned(nbytes)

    def pinned_array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array of zeros in pinned memory, which is freed with the array."""
        nbytes = prod(shape) * dtype.itemsize
        address = wrapper().malloc_host(nbytes)
        memory = _host_memory(address, nbytes)
        weakref.finalize(memory, wrapper().free_host, address).atexit = False
        array = np.ctypeslib.as_array(memory)
        array[...] = 0
        return array.view(dtype).reshape(tuple(shape))

    def register(self, host_address: int, nbytes: int) -> bool:
        """Pin existing host memory; return whether that worked."""
        return wrapper().host_register(host_address, nbytes)

    def unregister(self, host_address: int) -> None:
        """Unpin host memory."""
        wrapper().host_unregister(host_address)

    def capture(self, work: Callable[[Any], None], stream: Any) -> Graph:
        """Return a graph of the work that `work` queues on the stream, without executing it."""
        return Graph(work, stream)

    def view(self, address: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> DeviceView:
        """Return an array over device memory that keeps its owner alive."""
        return DeviceView(address, shape, dtype, owner)


class Pinned:
    """Host memory that the GPU accesses directly.

    Attributes:
        address: the start address.
        array: all of it, as bytes (uint8).
    """

    def __init__(self, nbytes: int) -> None:
        """Allocate pinned host memory; raise BackendError if there is not enough."""
        self.address = wrapper().malloc_host(nbytes)
        self.array: np.ndarray[Any, Any] = np.ctypeslib.as_array(_host_memory(self.address, nbytes))

    def free(self) -> None:
        """Free the memory; later calls do nothing."""
        address, self.address = self.address, 0
        if address:
            wrapper().free_host(address)


def _host_memory(address: int, nbytes: int) -> ctypes.Array[ctypes.c_uint8]:
    """Return host memory at an address as an array of bytes."""
    return (ctypes.c_uint8 * nbytes).from_address(address)


def _copy_array(target: int, source: int, array: np.ndarray[Any, Any], kind: MemcpyKind) -> None:
    """Copy the bytes of a host array between addresses.
    Raise BackendError if it is not contiguous."""
    if not array.flags.c_contiguous:
        raise BackendError("Only contiguous host arrays can be copied.", backend="cuda")
    if array.nbytes:
        wrapper().memcpy(target, source, array.nbytes, kind)
