"""A CUDA runtime without a GPU, with the functions and the answers of cuda-python.

Device memory is host memory, at its real address, so that what pretends to be a kernel can work
on it. Faithful where mistakes hide: work on a stream is done when the stream is synchronized and
not before (copies from pageable memory are read at once, copies to it wait, as CUDA does both);
memory that was freed, or never allocated, is refused; new memory holds garbage; what cannot be
captured ends the capture.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

__all__ = ["FakeCudart"]

Work = Callable[[], None]


class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInsufficientDriver = 35
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700
    cudaErrorHostMemoryAlreadyRegistered = 712
    cudaErrorHostMemoryNotRegistered = 713
    cudaErrorLaunchFailure = 719
    cudaErrorStreamCaptureUnsupported = 900
    cudaErrorStreamCaptureInvalidated = 901


TEXTS = {
    2: "out of memory",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    100: "no CUDA-capable device is detected",
}


class cudaMemcpyKind(IntEnum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaMemoryType(IntEnum):
    cudaMemoryTypeUnregistered = 0
    cudaMemoryTypeHost = 1
    cudaMemoryTypeDevice = 2


@dataclass(frozen=True)
class cudaPointerAttributes:
    type: cudaMemoryType
    device: int


class cudaStreamCaptureMode(IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


OK = cudaError_t.cudaSuccess


class FakeStream:
    def __init__(self) -> None:
        """Start an empty stream."""
        self.queue: list[Work] = []
        self.captured: list[Work] | None = None
        self.is_invalid = False


class FakeCudart:
    """Stands for the module.

    Attributes:
        calls: names of the functions that were called, in order.
        total: how many bytes of device memory there are.
        driver: the code that every call answers with; success for a machine with a GPU.
        fail: codes that the next call of a function answers with, by name.
        used: the functions that were called while a GPU was current, by its index.
        clock: milliseconds that have passed on the device; each piece of work takes one.
    """

    def __init__(self, total: int = 1 << 30) -> None:
        """Create a device with a number of bytes of memory."""
        self.calls: list[str] = []
        self.used: dict[int, set[str]] = {}
        self.total = total
        self.driver = OK
        self.fail: dict[str, int] = {}
        self.clock = 0.0
        self.device_count = 1
        self.cudaError_t = cudaError_t
        self.cudaMemcpyKind = cudaMemcpyKind
        self.cudaStreamCaptureMode = cudaStreamCaptureMode
        self.cudaStream_t = int
        self._device: dict[int, np.ndarray[Any, Any]] = {}
        self._owners: dict[int, int] = {}
        self._pinned: dict[int, np.ndarray[Any, Any]] = {}
        self._registered: dict[int, int] = {}
        self._streams: dict[int, FakeStream] = {0: FakeStream()}
        self._events: dict[int, float | None] = {}
        self._graphs: dict[int, list[Work]] = {}
        self._handles = itertools.count(0x1000, 16)
        self._sticky: Any = OK
        self._device_index = 0
        self._at_work = threading.RLock()

    # Properties for tests.

    @property
    def outstanding(self) -> dict[str, int]:
        """Return the number of objects of each kind that were not freed."""
        counts = {
            "device": len(self._device),
            "pinned": len(self._pinned),
            "registered": len(self._registered),
            "streams": len(self._streams) - 1,
            "events": len(self._events),
            "graphs": len(self._graphs),
        }
        return {kind: count for kind, count in counts.items() if count}

    @property
    def allocated(self) -> int:
        """Return the number of allocated bytes."""
        return sum(buffer.nbytes for buffer in self._device.values())

    def array(self, address: int, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        """Return device memory as an array; KeyError for an address that is not allocated."""
        count = int(np.prod(shape, dtype=np.int64))
        span = self._span(address, count * np.dtype(dtype).itemsize)
        if span is None:
            raise KeyError(hex(address))
        return span.view(dtype).reshape(shape)

    def enqueue(self, stream: int, work: Work) -> None:
        """Run work when the stream reaches it."""
        target = self._streams[int(stream)]
        (target.queue if target.captured is None else target.captured).append(work)

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured."""
        return self._streams[int(stream)].captured is not None

    def note(self, name: str) -> None:
        """Record the name of a call."""
        self.calls.append(name)
        self.used.setdefault(self._device_index, set()).add(name)

    def invalidate(self, stream: int) -> None:
        """Invalidate the capture of a stream."""
        self._streams[int(stream)].is_invalid = True

    def drain(self, stream: int) -> None:
        """Run all work of a stream now."""
        queue = self._streams[int(stream)].queue
        with self._at_work:  # Wait until another thread has finished its work on the stream.
            while queue:
                queue.pop(0)()
                self.clock += 1.0

    def _answer(self, name: str, *values: Any) -> tuple[Any, ...]:
        """Record a call, and return success with the values; or the planned error."""
        self.note(name)
        code = self.driver or self.fail.pop(name, 0)
        if code:
            self._sticky = cudaError_t(code)
            return (self._sticky, *(None for _ in values))
        return (OK, *values)

    def _refuse(self, code: cudaError_t, values: int = 0) -> tuple[Any, ...]:
        """Record an error, and return its code with a number of Nones."""
        self._sticky = code
        return (code, *([None] * values))

    def cudaGetErrorName(self, code: Any) -> tuple[Any, bytes]:
        """Return success and the name of an error."""
        return OK, cudaError_t(code).name.encode()

    def cudaGetErrorString(self, code: Any) -> tuple[Any, bytes]:
        """Return success and the description of an error."""
        return OK, TEXTS.get(int(code), "something failed").encode()

    def cudaGetLastError(self) -> tuple[Any]:
        """Return the last error, and clear it."""
        code, self._sticky = self._sticky, OK
        return (code,)

    # Devices.

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        """Return the status, and the number of devices."""
        return self._answer("cudaGetDeviceCount", self.device_count)

    def cudaGetDevice(self) -> tuple[Any, ...]:
        """Return the status, and the index of the current device."""
        return self._answer("cudaGetDevice", self._device_index)

    def cudaSetDevice(self, index: int) -> tuple[Any, ...]:
        """Select a device, and return the status."""
        if not 0 <= index < self.device_count:
            return self._refuse(cudaError_t.cudaErrorInvalidDevice)
        self._device_index = index
        return self._answer("cudaSetDevice")

    def cudaMemGetInfo(self) -> tuple[Any, ...]:
        """Return the status, and the free and total bytes."""
        return self._answer("cudaMemGetInfo", self.total - self.allocated, self.total)

    def cudaDeviceSynchronize(self) -> tuple[Any, ...]:
        """Run the work of all streams, and return the status."""
        for stream in list(self._streams):
            self.drain(stream)
        return self._answer("cudaDeviceSynchronize")

    # Memory.

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        """Allocate device memory; return the status and the address."""
        answer = self._answer("cudaMalloc", 0)
        if answer[0]:
            return answer
        if size > self.total - self.allocated:
            return self._refuse(cudaError_t.cudaErrorMemoryAllocation, 1)
        address = self._new(self._device, size)
        self._owners[address] = self._device_index
        return OK, address

    def cudaPointerGetAttributes(self, address: int) -> tuple[Any, ...]:
        """Return the status, and the attributes of an address."""
        kinds = cudaMemoryType
        answer = cudaPointerAttributes(kinds.cudaMemoryTypeUnregistered, -2)
        if self._is_pinned(address, 0):
            answer = cudaPointerAttributes(kinds.cudaMemoryTypeHost, 0)
        for start, buffer in self._device.items():
            if start <= address < start + max(buffer.nbytes, 1):
                answer = cudaPointerAttributes(kinds.cudaMemoryTypeDevice, self._owners[start])
        return self._answer("cudaPointerGetAttributes", answer)

    def _new(self, table: dict[int, np.ndarray[Any, Any]], size: int) -> int:
        """Allocate a number of bytes in a table, and return the address."""
        buffer = np.full(size + 256, 0xA5, dtype=np.uint8)
        address = buffer.__array_interface__["data"][0]
        offset = -address % 256
        table[address + offset] = buffer[offset : offset + size]
        return int(address + offset)

    def cudaFree(self, address: int) -> tuple[Any, ...]:
        """Free device memory, and return the status."""
        if address not in self._device:
            return self._refuse(cudaError_t.cudaErrorInvalidValue)
        for stream in list(self._streams):  # CUDA waits for work that may use the memory.
            self.drain(stream)
        del self._device[address]
        return self._answer("cudaFree")

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        """Allocate pinned host memory; return the status and the address."""
        answer = self._answer("cudaHostAlloc", 0)
        return answer if answer[0] else (OK, self._new(self._pinned, size))

    def cudaFreeHost(self, address: int) -> tuple[Any, ...]:
        """Free pinned host memory, and return the status."""
        if address not in self._pinned:
            return self._refuse(cudaError_t.cudaErrorInvalidValue)
        del self._pinned[address]
        return self._answer("cudaFreeHost")

    def cudaHostRegister(self, address: int, size: int, flags: int) -> tuple[Any, ...]:
        """Pin host memory, and return the status."""
        for start, length in self._registered.items():
            if start < address + size and address < start + length:
                return self._refuse(cudaError_t.cudaErrorHostMemoryAlreadyRegistered)
        answer = self._answer("cudaHostRegister")
        if not answer[0]:
            self._registered[address] = size
        return answer

    def cudaHostUnregister(self, address: int) -> tuple[Any, ...]:
        """Unpin host memory, and return the status."""
        if self._registered.pop(address, None) is None:
            return self._refuse(cudaError_t.cudaErrorHostMemoryNotRegistered)
        return self._answer("cudaHostUnregister")

    def _span(self, address: int, size: int) -> np.ndarray[Any, Any] | None:
        """Return memory of an address as bytes; None if it is not allocated."""
        for start, buffer in self._device.items():
            if start <= address and address + size <= start + max(buffer.nbytes, 1):
                return buffer[address - start : address - start + size]
        return None

    def _is_pinned(self, address: int, size: int) -> bool:
        """Return whether host memory of an address is pinned."""
        spans = [(start, buffer.nbytes) for start, buffer in self._pinned.items()]
        spans += list(self._registered.items())
        return any(start <= address and address + size <= start + length for start, length in spans)

    def cudaMemcpy(self, dst: int, src: int, size: int, kind: Any) -> tuple[Any, ...]:
        """Copy memory at once, and return the status."""
        if any(stream.captured is not None for stream in self._streams.values()):
            return self._refuse(cudaError_t.cudaErrorStreamCaptureUnsupported)
        for stream in list(self._streams):
            self.drain(stream)
        code = self._copy(dst, src, size, kind)
        return self._answer("cudaMemcpy") if not code else self._refuse(code)

    def cudaMemcpyAsync(
        self, dst: int, src: int, size: int, kind: Any, stream: int
    ) -> tuple[Any, ...]:
        """Copy memory when the stream reaches it, and return the status."""
        assert isinstance(kind, cudaMemcpyKind)
        device = dst if kind == 1 else src
        if kind in (1, 2) and self._span(device, size) is None:
            return self._refuse(cudaError_t.cudaErrorInvalidValue)
        answer = self._answer("cudaMemcpyAsync")
        if answer[0]:
            return answer
        host = src if kind == 1 else dst
        if kind in (1, 2) and not self._is_pinned(host, size):
            if self.is_capturing(stream):
                self.invalidate(stream)
                return self._refuse(cudaError_t.cudaErrorStreamCaptureUnsupported)
            if kind == 1:  # CUDA reads pageable memory before the call returns.
                content = ctypes.string_at(src, size)
                self.enqueue(stream, lambda: self._write(dst, content))
                return answer
            self.drain(stream)  # CUDA returns after pageable memory was written.
            self._copy(dst, src, size, kind)
            return answer
        self.enqueue(stream, lambda: self._must_copy(dst, src, size, kind))
        return answer

    def _write(self, dst: int, content: bytes) -> None:
        """Write bytes to an address."""
        span = self._span(dst, len(content))
        assert span is not None
        span[...] = np.frombuffer(content, dtype=np.uint8)

    def _must_copy(self, dst: int, src: int, size: int, kind: Any) -> None:
        """Copy memory, and fail if that is not possible."""
        code = self._copy(dst, src, size, kind)
        assert not code, code

    def _copy(self, dst: int, src: int, size: int, kind: Any) -> Any:
        """Copy memory, and return the error code."""
        for address, is_device in ((dst, kind in (1, 3)), (src, kind in (2, 3))):
            if is_device and self._span(address, size) is None:
                return cudaError_t.cudaErrorInvalidValue
        ctypes.memmove(dst, src, size)
        return OK

    # Streams, events, graphs.

    def cudaStreamCreate(self) -> tuple[Any, ...]:
        """Create a stream; return the status and its handle."""
        answer = self._answer("cudaStreamCreate", 0)
        return answer if answer[0] else (OK, self._new_stream())

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        """Create a stream; return the status and its handle."""
        answer = self._answer("cudaStreamCreateWithFlags", 0)
        return answer if answer[0] else (OK, self._new_stream())

    def _new_stream(self) -> int:
        """Create a stream, and return its handle."""
        handle = next(self._handles)
        self._streams[handle] = FakeStream()
        return handle

    def cudaStreamDestroy(self, stream: int) -> tuple[Any, ...]:
        """Destroy a stream, and return the status."""
        if int(stream) not in self._streams:
            return self._refuse(cudaError_t.cudaErrorInvalidResourceHandle)
        self.drain(stream)
        del self._streams[int(stream)]
        return self._answer("cudaStreamDestroy")

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        """Run the work of a stream, and return the status."""
        if int(stream) not in self._streams:
            return self._refuse(cudaError_t.cudaErrorInvalidResourceHandle)
        if self.is_capturing(stream):
            self.invalidate(stream)
            return self._refuse(cudaError_t.cudaErrorStreamCaptureUnsupported)
        self.drain(stream)
        return self._answer("cudaStreamSynchronize")

    def cudaStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Any, ...]:
        """Make a stream wait for an event, and return the status."""
        return self._answer("cudaStreamWaitEvent")

    def cudaEventCreate(self) -> tuple[Any, ...]:
        """Create an event; return the status and its handle."""
        answer = self._answer("cudaEventCreate", 0)
        if answer[0]:
            return answer
        handle = next(self._handles)
        self._events[handle] = None
        return OK, handle

    def cudaEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:
        """Record an event on a stream, and return the status."""
        if int(stream) not in self._streams:
            return self._refuse(cudaError_t.cudaErrorInvalidResourceHandle)

        def record() -> None:
            """Store the time of the event."""
            if event in self._events:
                self._events[event] = self.clock

        self.enqueue(stream, record)
        return self._answer("cudaEventRecord")

    def cudaEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        """Return the status, and the milliseconds between two events."""
        first, last = self._events[start], self._events[end]
        if first is None or last is None:
            return self._refuse(cudaError_t.cudaErrorNotReady, 1)
        return self._answer("cudaEventElapsedTime", last - first)

    def cudaEventDestroy(self, event: int) -> tuple[Any, ...]:
        """Destroy an event, and return the status."""
        del self._events[event]
        return self._answer("cudaEventDestroy")

    def cudaStreamBeginCapture(self, stream: int, mode: Any) -> tuple[Any, ...]:
        """Start the capture of a stream, and return the status."""
        assert isinstance(mode, cudaStreamCaptureMode)
        answer = self._answer("cudaStreamBeginCapture")
        if not answer[0]:
            self._streams[int(stream)].captured = []
        return answer

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        """End the capture of a stream; return the status and the graph."""
        target = self._streams[int(stream)]
        captured, target.captured = target.captured, None
        if target.is_invalid or captured is None:
            target.is_invalid = False
            return self._refuse(cudaError_t.cudaErrorStreamCaptureInvalidated, 1)
        handle = next(self._handles)
        self._graphs[handle] = captured
        return self._answer("cudaStreamEndCapture", handle)

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        """Instantiate a graph; return the status and its handle."""
        answer = self._answer("cudaGraphInstantiate", 0)
        if answer[0]:
            return answer
        handle = next(self._handles)
        self._graphs[handle] = list(self._graphs[graph])
        return OK, handle

    def cudaGraphDestroy(self, graph: int) -> tuple[Any, ...]:
        """Destroy a graph, and return the status."""
        del self._graphs[graph]
        return self._answer("cudaGraphDestroy")

    def cudaGraphExecDestroy(self, graph: int) -> tuple[Any, ...]:
        """Destroy an instantiated graph, and return the status."""
        del self._graphs[graph]
        return self._answer("cudaGraphExecDestroy")

    def cudaGraphLaunch(self, graph: int, stream: int) -> tuple[Any, ...]:
        """Add the work of a graph to a stream, and return the status."""
        for work in self._graphs[graph]:
            self.enqueue(stream, work)
        return self._answer("cudaGraphLaunch")
