"""The CUDA runtime, one call at a time: what the rest of this adapter is made of."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from polygraphy.adapters.cuda.errors import checked, failure, value_of
from polygraphy.adapters.cuda.module import cudart
from polygraphy.domain.errors import BackendError

# `cudaHostRegisterDefault` and `cudaHostAllocDefault`.
_DEFAULT = 0


class MemcpyKind(IntEnum):
    """From where to where memory is copied."""

    HostToHost = 0
    HostToDevice = 1
    DeviceToHost = 2
    DeviceToDevice = 3
    Default = 4


class MemoryType(IntEnum):
    """Whose memory an address belongs to, as the CUDA runtime tells it."""

    UNKNOWN = 0
    HOST = 1
    DEVICE = 2
    MANAGED = 3


class Cuda:
    """Calls the CUDA runtime and turns its error codes into errors. Addresses are integers, sizes
    are bytes, and 0 bytes are allocated as one, so that every allocation has an address.

    Raises:
        MissingDependencyError: cuda-python is not installed (at the first call).
        BackendError: a call failed; it names the error of CUDA.
    """

    def check(self, status: Any) -> None:
        """Raise a BackendError if a status code is not 0."""
        if int(status):
            raise failure(status, "do what was asked")

    # Devices.

    def device_count(self) -> int:
        """Return how many GPUs there are."""
        return int(value_of(cudart().cudaGetDeviceCount(), "look for GPUs"))

    def get_device(self) -> int:
        """Return the number of the GPU that the calling thread uses."""
        return int(value_of(cudart().cudaGetDevice(), "find the current GPU"))

    def set_device(self, index: int) -> None:
        """Make the calling thread use another GPU."""
        checked(cudart().cudaSetDevice(index), f"use GPU {index}")

    def synchronize(self) -> None:
        """Wait until the GPU has nothing to do."""
        checked(cudart().cudaDeviceSynchronize(), "finish its work")

    def memory_info(self) -> tuple[int, int]:
        """Return how many bytes of the GPU are free, and how many there are."""
        result = cudart().cudaMemGetInfo()
        checked(result, "ask for free memory")
        return int(result[1]), int(result[2])

    # Memory.

    def malloc(self, nbytes: int) -> int:
        """Return the address of new device memory."""
        if nbytes < 0:
            raise BackendError(f"Memory cannot have a size of {nbytes} bytes.", backend="cuda")
        result = cudart().cudaMalloc(max(nbytes, 1))
        if result[0]:
            raise failure(
                result[0], f"allocate {nbytes} bytes of device memory", self._what_is_free()
            )
        return int(result[1])

    def _what_is_free(self) -> str:
        result = cudart().cudaMemGetInfo()
        if result[0]:
            return ""
        return f"{int(result[1])} of {int(result[2])} bytes are free."

    def free(self, ptr: int) -> None:
        """Give device memory back."""
        checked(cudart().cudaFree(ptr), f"free device memory at {ptr:#x}")

    def malloc_host(self, nbytes: int) -> int:
        """Return the address of new pinned host memory."""
        result = cudart().cudaHostAlloc(max(nbytes, 1), _DEFAULT)
        if result[0]:
            raise failure(result[0], f"allocate {nbytes} bytes of pinned host memory")
        return int(result[1])

    def free_host(self, ptr: int) -> None:
        """Give pinned host memory back."""
        checked(cudart().cudaFreeHost(ptr), f"free pinned memory at {ptr:#x}")

    def host_register(self, ptr: int, nbytes: int) -> bool:
        """Pin host memory that exists; False when CUDA refuses (it may be pinned already)."""
        if cudart().cudaHostRegister(ptr, nbytes, _DEFAULT)[0]:
            cudart().cudaGetLastError()
            return False
        return True

    def host_unregister(self, ptr: int) -> None:
        """Undo `host_register`."""
        checked(cudart().cudaHostUnregister(ptr), f"unpin host memory at {ptr:#x}")

    def memcpy(
        self, dst: int, src: int, nbytes: int, kind: int, stream_ptr: int | None = None
    ) -> None:
        """Copy memory, now; or on a stream, whose address is `stream_ptr`."""
        module = cudart()
        how = module.cudaMemcpyKind(int(kind))
        doing = f"copy {nbytes} bytes from {src:#x} to {dst:#x}"
        if stream_ptr is None:
            checked(module.cudaMemcpy(dst, src, nbytes, how), doing)
        else:
            checked(module.cudaMemcpyAsync(dst, src, nbytes, how, stream_ptr), doing)

    def owner_of(self, ptr: int) -> tuple[MemoryType, int]:
        """Return what kind of memory is at an address, and the number of the GPU that has it."""
        doing = f"look up the memory at {ptr:#x}"
        attributes = value_of(cudart().cudaPointerGetAttributes(ptr), doing)
        return MemoryType(int(attributes.type)), int(attributes.device)

    # Streams.

    def create_stream(self) -> int:
        """Return the address of a new stream, which is ordered with the default stream."""
        return int(value_of(cudart().cudaStreamCreate(), "create a stream"))

    def stream_synchronize(self, ptr: int) -> None:
        """Wait until a stream has done its work."""
        checked(cudart().cudaStreamSynchronize(ptr), "finish the work on a stream")

    def destroy_stream(self, ptr: int) -> None:
        """Give a stream back."""
        checked(cudart().cudaStreamDestroy(ptr), "destroy a stream")


_wrapper = Cuda()


def wrapper() -> Cuda:
    """Return the one object that calls the CUDA runtime. Nothing is loaded before its first
    call.
    """
    return _wrapper
