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
        """Return the address of `nbytes` of new memory; BackendError when there is not enough."""

    def free(self, address: int) -> None:
        """Give memory back; an address that is not allocated is a BackendError."""

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into memory that is at least as large."""

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Fill a contiguous host array from memory that is at least as large."""


class DeviceStream(Protocol):
    """A queue of work.

    Attributes:
        ptr: the address by which libraries know the stream.
        device: the index of the GPU whose queue it is.
    """

    ptr: int
    device: int

    def synchronize(self) -> None:
        """Wait until all work is done; BackendError when some of it failed."""

    def to_device(self, address: int, host_address: int, nbytes: int) -> None:
        """Copy host memory to the device."""

    def to_host(self, host_address: int, address: int, nbytes: int) -> None:
        """Copy device memory to the host."""

    def on_device(self, address: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory."""

    def record(self, event: DeviceEvent) -> None:
        """Note the time at which the work before this is done."""

    def wait_for(self, stream: int) -> None:
        """Do what follows after what is queued on another stream now; `stream` is its address."""

    def free(self) -> None:
        """Give the stream back; harmless when done twice."""


class DeviceEvent(Protocol):
    """A moment on a stream."""

    def seconds_since(self, earlier: DeviceEvent) -> float:
        """Return the time between two moments that have passed."""

    def free(self) -> None:
        """Give the event back; harmless when done twice."""


class DeviceGraph(Protocol):
    """Work that was written down once, and is launched as one."""

    def launch(self) -> None:
        """Queue the work."""

    def free(self) -> None:
        """Give the graph back; harmless when done twice."""


class PinnedBlock(Protocol):
    """Host memory that the device reads and writes without help.

    Attributes:
        address: where it starts.
        array: all of it, as bytes (uint8).
    """

    address: int
    array: np.ndarray[Any, Any]

    def free(self) -> None:
        """Give the memory back; harmless when done twice. Arrays must not be used after that."""


class Device(DeviceMemory, Protocol):
    """The GPU that is current in the calling thread."""

    def require(self) -> None:
        """Do nothing if there is a GPU to use.

        Raises:
            BackendError: there is none, or no driver, or no package to reach it; says which.
        """

    def current(self) -> int:
        """Return the index of the GPU that the calling thread uses."""

    def use(self, index: int | None) -> AbstractContextManager[None]:
        """Make GPU `index` the current one of the calling thread inside a block, and the one before
        after it; None to change nothing.

        Raises:
            UsageError: there is no such GPU.
        """

    def synchronize(self) -> None:
        """Wait until the GPU that the calling thread uses has nothing to do, on any stream."""

    def free_memory(self) -> int:
        """Return how many bytes could be allocated at best."""

    def check_readable(self, address: int, gpu: int) -> None:
        """Do nothing if a GPU can read the memory at an address.

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
        """Return an array of zeros in pinned host memory, which is given back when the array and
        its views are gone.
        """

    def register(self, host_address: int, nbytes: int) -> bool:
        """Pin memory that exists; False when that cannot be done."""

    def unregister(self, host_address: int) -> None:
        """Undo `register`."""

    def capture(self, work: Callable[[DeviceStream], None], stream: DeviceStream) -> DeviceGraph:
        """Write down the work that `work` queues on the stream it is given, without doing it.

        Args:
            work: queues work; what it raises ends the capture and is raised again.
            stream: where the graph is going to be launched.

        Raises:
            BackendError: the work cannot be captured.
        """

    def view(self, address: int, shape: Sequence[int], dtype: Any, owner: Any = None) -> Any:
        """Return an array over memory of the device, as `polygraphy.cuda.DeviceView`, which keeps
        what owns the memory, if that is given.
        """


@port
def cores() -> int:
    """Return how many cores it may run on, at least one."""


@port
def free_memory() -> int:
    """Return how many bytes of memory it could still take without swapping."""


@port
def release_memory() -> None:
    """Give memory that this process holds, but does not use, back to the system."""


@port
def computes_in_tf32(gpu: int = 0) -> bool:
    """Return whether libraries of NVIDIA may compute float32 in TF32 on a GPU: the GPU has TF32,
    and the environment variable ``NVIDIA_TF32_OVERRIDE`` is not 0.

    Args:
        gpu: its index.
    """


@port
def is_tf32_forced() -> bool:
    """Return whether the environment variable ``NVIDIA_TF32_OVERRIDE`` is 1, so that no option of a
    program selects float32.
    """


@port
def machine_facts() -> Mapping[str, Any]:
    """Return what decides how long something takes: ``processor``, ``threads``, ``driver`` and
    ``gpus``, in plain values.
    """


SECTIONS = ("packages", "providers", "openvino", "tensorrt", "machine")
"""The keys of `sections_of`, in the order of a report on all of them."""


@port
def sections_of() -> list[Section]:
    """Return what is known of the machine, of packages or of a backend, as the key says, without
    changing anything. It never fails: what cannot be found out is said to be so.
    """
