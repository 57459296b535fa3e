"""Streams and events."""

from __future__ import annotations

from typing import Any, TypeVar

from polygraphy.adapters.cuda.errors import checked, value_of
from polygraphy.adapters.cuda.module import cudart
from polygraphy.adapters.cuda.wrapper import MemcpyKind, wrapper

S = TypeVar("S", bound="Stream")

# `cudaStreamNonBlocking`: without an order towards the default stream.
_NON_BLOCKING = 1


class Stream:
    """A queue of work on the current GPU, done in order. Work that was given to the default stream
    before is done before.

    Attributes:
        ptr: the address by which libraries know the stream; 0 once it is freed.
        device: the index of the GPU whose queue it is.
    """

    def __init__(self) -> None:
        """Create the stream; BackendError without a GPU."""
        self._take(wrapper().create_stream())

    @classmethod
    def unordered(cls: type[S]) -> S:
        """Return a stream that has no order towards the default stream."""
        stream = cls.__new__(cls)
        made = cudart().cudaStreamCreateWithFlags(_NON_BLOCKING)
        stream._take(int(value_of(made, "create a stream")))
        return stream

    def _take(self, ptr: int) -> None:
        module = cudart()
        self.ptr = ptr
        self.device = wrapper().get_device()
        self._handle = module.cudaStream_t(ptr)
        # Looked up once: these are called for every inference.
        self._synchronize = module.cudaStreamSynchronize
        self._copy = module.cudaMemcpyAsync
        self._record = module.cudaEventRecord
        kinds = module.cudaMemcpyKind
        self._to_device = kinds(int(MemcpyKind.HostToDevice))
        self._to_host = kinds(int(MemcpyKind.DeviceToHost))
        self._on_device = kinds(int(MemcpyKind.DeviceToDevice))

    def synchronize(self) -> None:
        """Wait until all work is done; BackendError when some of it failed."""
        result = self._synchronize(self._handle)
        if result[0]:
            checked(result, "finish the work on a stream")

    def to_device(self, address: int, host_address: int, nbytes: int) -> None:
        """Copy host memory to the device."""
        result = self._copy(address, host_address, nbytes, self._to_device, self._handle)
        if result[0]:
            checked(result, f"copy {nbytes} bytes to the GPU")

    def to_host(self, host_address: int, address: int, nbytes: int) -> None:
        """Copy device memory to the host."""
        result = self._copy(host_address, address, nbytes, self._to_host, self._handle)
        if result[0]:
            checked(result, f"copy {nbytes} bytes from the GPU")

    def on_device(self, address: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory."""
        result = self._copy(address, source, nbytes, self._on_device, self._handle)
        if result[0]:
            checked(result, f"copy {nbytes} bytes on the GPU")

    def record(self, event: Any) -> None:
        """Note in an `Event` the time at which the work before this is done."""
        result = self._record(event.handle, self._handle)
        if result[0]:
            checked(result, "record an event")

    def wait_for(self, stream: int) -> None:
        """Do what follows after what is queued on another stream now; `stream` is its address."""
        module = cudart()
        event = Event()
        try:
            checked(module.cudaEventRecord(event.handle, stream), "record an event")
            checked(module.cudaStreamWaitEvent(self._handle, event.handle, 0), "wait for a stream")
        finally:
            event.free()

    def free(self) -> None:
        """Give the stream back; harmless when done twice."""
        ptr, self.ptr = self.ptr, 0
        if ptr:
            wrapper().destroy_stream(ptr)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"Stream(ptr={self.ptr:#x})"


class Event:
    """A moment on a stream.

    Attributes:
        handle: by which cudart knows the event; None once it is freed.
    """

    def __init__(self) -> None:
        """Create the event; BackendError without a GPU."""
        self.handle: Any = value_of(cudart().cudaEventCreate(), "create an event")

    def seconds_since(self, earlier: Event) -> float:
        """Return the time between two moments that have passed; BackendError if one has not."""
        elapsed = cudart().cudaEventElapsedTime(earlier.handle, self.handle)
        return float(value_of(elapsed, "measure the time between events")) / 1000

    def free(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            checked(cudart().cudaEventDestroy(handle), "destroy an event")
