"""The machine: devices, memory, what is installed.

Addresses are integers, sizes are bytes. Work on a stream happens in order, and later than the call
that asks for it: what is still in use by a stream must not be freed or changed before
`DeviceStream.synchronize` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.binding import port

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.environment import Section


class DeviceMemory(Protocol):
    """Allocates memory on one device and copies to and from it. Addresses are integers; sizes are
    bytes.
    """

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` of new memory.
        Raise BackendError if there is not enough."""

    def free(self, address: int) -> None:
        """Free memory; raise BackendError for an address that is not allocated."""

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into memory that is at least as large."""

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Fill a contiguous host array from memory that is at least as large."""


class DeviceStream(Protocol):
    """A queue of work on a device.

    Attributes:
        ptr: the address by which libraries know the stream.
        device: the index of the GPU whose queue it is.
    """

    ptr: int
    device: int

    def synchronize(self) -> None:
        """Wait until all work is done; raise BackendError if some of it failed."""

    def to_device(self, address: int, host_address: int, nbytes: int) -> None:
        """Copy host memory to the device."""

    def to_host(self, host_address: int, address: int, nbytes: int) -> None:
        """Copy device memory to the host."""

    def on_device(self, address: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory."""

    def record(self, event: DeviceEvent) -> None:
        """Record an event after the work that is queued now."""

    def wait_for(self, stream: int) -> None:
        """Delay later work until the work queued on another stream is done.
        `stream` is its address.
        """

    def free(self) -> None:
        """Free the stream; calling it twice is allowed."""


class DeviceEvent(Protocol):
    """A point in the work of a stream."""

    def seconds_since(self, earlier: DeviceEvent) -> float:
        """Return the seconds between an earlier event and this one; both must have been reached."""

    def free(self) -> None:
        """Free the event; calling it twice is allowed."""


class DeviceGraph(Protocol):
    """Captured work that is launched as a unit."""

    def launch(self) -> None:
        """Queue the work."""

    def free(self) -> None:
        """Free the graph; calling it twice is allowed."""


class PinnedBlock(Protocol):
    """Host memory that the device accesses directly.

    Attributes:
        address: the start address.
        array: all of it, as bytes (uint8).
    """

    address: int
    array: np.ndarray[Any, Any]

    def free(self) -> None:
        """Free the memory; calling it twice is allowed. Arrays must not be used after that."""


class Device(DeviceMemory, Protocol):
    """The current GPU of the calling thread."""

    def require(self) -> None:
        """Raise BackendError if there is no usable GPU.

        Raises:
            BackendError: there is none, or no driver, or no package to reach it; says which.
        """

    def current(self) -> int:
        """Return the index of the GPU that the calling thread uses."""

    def use(self, index: int | None) -> AbstractContextManager[None]:
        """Return a context manager that makes GPU `index` current for the calling thread inside a
        block; None changes nothing.

        Raises:
            UsageError: the GPU does not exist.
        """

    def synchronize(self) -> None:
        """Wait until the current GPU of the calling thread has finished the work of all streams."""

    def free_memory(self) -> int:
        """Return the number of bytes that can be allocated."""

    def check_readable(self, address: int, gpu: int) -> None:
        """Raise InputError if a GPU cannot read the memory at an address.

        Args:
            address: of memory that other code allocated.
            gpu: the index of the one that is to read it.

        Raises:
            InputError: it cannot, so that trying would end all work of this process on it: the
                memory is another GPU's, or no GPU knows it.
        """

    def create_stream(self) -> DeviceStream:
        """Return a new stream, ordered with respect to the default stream of the device."""

    def create_event(self) -> DeviceEvent:
        """Return a new event."""

    def pin(self, nbytes: int) -> PinnedBlock:
        """Return new pinned host memory."""

    def pinned_array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array of zeros in pinned host memory,
        which is freed with the last view of the array.
        """

    def register(self, host_address: int, nbytes: int) -> bool:
        """Pin existing memory; return whether that succeeded."""

    def unregister(self, host_address: int) -> None:
        """Unpin the memory that `register` pinned."""

    def capture(self, work: Callable[[DeviceStream], None], stream: DeviceStream) -> DeviceGraph:
        """Return a graph of the work that `work` queues on the stream it is passed; nothing is run.

        Args:
            work: queues work; what it raises ends the capture and is raised again.
            stream: the stream on which the graph will be launched.

        Raises:
            BackendError: the work cannot be captured.
        """

    def view(self, address: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> Any:
        """Return an array over memory of the device, as `polygraphy.cuda.DeviceView`,
        which keeps `owner` alive if it is set."""


@port
def cores() -> int:
    """Return the number of cores that this process may use, at least one."""


@port
def free_memory() -> int:
    """Return how many bytes of memory this process could still use without swapping."""


@port
def release_memory() -> None:
    """Give memory that this process does not use back to the system."""


@port
def computes_in_tf32(gpu: int = 0) -> bool:
    """Return whether NVIDIA libraries may compute float32 in TF32 on a GPU:
    the GPU has TF32, and the environment variable ``NVIDIA_TF32_OVERRIDE`` is not 0.

    Args:
        gpu: its index.
    """


@port
def is_tf32_forced() -> bool:
    """Return whether the environment variable ``NVIDIA_TF32_OVERRIDE`` is 1,
    so that no option of a program selects float32.
    """


@port
def machine_facts() -> Mapping[str, Any]:
    """Return facts that influence timings:
    ``processor``, ``threads``, ``driver`` and ``gpus``, in plain values.
    """


SECTIONS = ("packages", "providers", "openvino", "tensorrt", "machine")
"""The keys of `sections_of`, in the order of a report on all of them."""


@port
def sections_of() -> list[Section]:
    """Return the known facts about the machine, packages or a backend (the key),
    without changing anything. It never fails: facts that cannot be determined are reported as
    such.
    """
