"""The calls of the CUDA runtime that this adapter uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from importlib import import_module
from typing import Any

from polygraphy import mod
from polygraphy.domain.errors import BackendError, MissingDependencyError

# cuda-python 12.3 moved the module; 12.x keeps the old name, 13 does not.
_NAMES = ("cuda.bindings.runtime", "cuda.cudart")

_in_use: list[Any] = []
"""The replacements of cuda-python, innermost last; the first is the imported one."""


def cudart() -> Any:
    """Return the CUDA runtime module in use; it is imported on first use.

    Raises:
        MissingDependencyError: cuda-python is not installed, or cannot be imported.
        BackendError: there is no driver.
    """
    if not _in_use:
        _in_use.append(_with_driver(_import_bindings()))
    return _in_use[-1]


def _with_driver(module: Any) -> Any:
    """Return the module if there is a CUDA driver; else raise the error of the runtime."""
    try:
        module.cudaGetDeviceCount()
    except RuntimeError as error:
        raise BackendError(
            f"CUDA cannot be used: {error}.",
            backend="cuda",
            hint="Install the NVIDIA driver, or use a machine with a GPU.",
        ) from error
    return module


def _import_bindings() -> Any:
    """Import and return the CUDA runtime module of cuda-python, in its new or its old layout."""
    try:
        return import_module(_NAMES[0])
    except (ImportError, RuntimeError, OSError) as error:
        reason = error
    with suppress(ImportError, RuntimeError, OSError):
        return import_module(_NAMES[1])
    install = mod.lazy_import("cuda").install_command()
    raise MissingDependencyError(
        f"Using the GPU requires cuda-python, which cannot be imported ({reason}). Install it with:"
        f" {install}",
        module="cuda",
        install=install,
    )


@contextmanager
def use_module(module: Any) -> Iterator[Any]:
    """Replace the CUDA runtime module inside the block."""
    _in_use.append(module)
    try:
        yield module
    finally:
        _in_use.remove(module)


# `cudaHostRegisterDefault` and `cudaHostAllocDefault`.
_DEFAULT = 0


class MemcpyKind(IntEnum):
    """The direction of a copy."""

    HostToHost = 0
    HostToDevice = 1
    DeviceToHost = 2
    DeviceToDevice = 3
    Default = 4


class MemoryType(IntEnum):
    """The kind of memory at an address, as reported by the CUDA runtime."""

    UNKNOWN = 0
    HOST = 1
    DEVICE = 2
    MANAGED = 3


class Cuda:
    """Calls the CUDA runtime and converts its error codes to errors. Addresses are integers, and
    sizes are bytes; 0 bytes are allocated as one, so that every allocation has an address.

    Raises:
        MissingDependencyError: cuda-python is not installed (at the first call).
        BackendError: a call failed; it names the error of CUDA.
    """

    def check(self, status: Any) -> None:
        """Raise a BackendError if a status code is not 0."""
        if int(status):
            raise failure(status, "complete the operation")

    # Devices.

    def device_count(self) -> int:
        """Return the number of GPUs."""
        return int(value_of(cudart().cudaGetDeviceCount(), "count the GPUs"))

    def get_device(self) -> int:
        """Return the index of the GPU that the calling thread uses."""
        return int(value_of(cudart().cudaGetDevice(), "find the current GPU"))

    def set_device(self, index: int) -> None:
        """Make the calling thread use another GPU."""
        check_result(cudart().cudaSetDevice(index), f"use GPU {index}")

    def synchronize(self) -> None:
        """Wait until the GPU is idle."""
        check_result(cudart().cudaDeviceSynchronize(), "finish its work")

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total memory of the GPU, in bytes."""
        result = cudart().cudaMemGetInfo()
        check_result(result, "query the free memory")
        return int(result[1]), int(result[2])

    # Memory.

    def malloc(self, nbytes: int) -> int:
        """Return the address of new device memory."""
        if nbytes < 0:
            raise BackendError(f"{nbytes} bytes is not a valid memory size.", backend="cuda")
        result = cudart().cudaMalloc(max(nbytes, 1))
        if result[0]:
            raise failure(
                result[0], f"allocate {nbytes} bytes of device memory", self._describe_free_memory()
            )
        return int(result[1])

    def _describe_free_memory(self) -> str:
        """Return a sentence about the free memory of the GPU."""
        result = cudart().cudaMemGetInfo()
        if result[0]:
            return ""
        return f"{int(result[1])} of {int(result[2])} bytes are free."

    def free(self, ptr: int) -> None:
        """Free device memory."""
        check_result(cudart().cudaFree(ptr), f"free device memory at {ptr:#x}")

    def malloc_host(self, nbytes: int) -> int:
        """Return the address of new pinned host memory."""
        result = cudart().cudaHostAlloc(max(nbytes, 1), _DEFAULT)
        if result[0]:
            raise failure(result[0], f"allocate {nbytes} bytes of pinned host memory")
        return int(result[1])

    def free_host(self, ptr: int) -> None:
        """Free pinned host memory."""
        check_result(cudart().cudaFreeHost(ptr), f"free pinned memory at {ptr:#x}")

    def host_register(self, ptr: int, nbytes: int) -> bool:
        """Pin existing host memory; return False if CUDA refuses,
        for example because it is pinned."""
        if cudart().cudaHostRegister(ptr, nbytes, _DEFAULT)[0]:
            cudart().cudaGetLastError()
            return False
        return True

    def host_unregister(self, ptr: int) -> None:
        """Unpin host memory."""
        check_result(cudart().cudaHostUnregister(ptr), f"unpin host memory at {ptr:#x}")

    def memcpy(
        self, dst: int, src: int, nbytes: int, kind: int, stream_ptr: int | None = None
    ) -> None:
        """Copy memory at once, or on a stream, whose address is `stream_ptr`."""
        module = cudart()
        how = module.cudaMemcpyKind(int(kind))
        doing = f"copy {nbytes} bytes from {src:#x} to {dst:#x}"
        if stream_ptr is None:
            check_result(module.cudaMemcpy(dst, src, nbytes, how), doing)
        else:
            check_result(module.cudaMemcpyAsync(dst, src, nbytes, how, stream_ptr), doing)

    def owner_of(self, ptr: int) -> tuple[MemoryType, int]:
        """Return the kind of memory at an address, and the index of the GPU that owns it."""
        doing = f"look up the memory at {ptr:#x}"
        attributes = value_of(cudart().cudaPointerGetAttributes(ptr), doing)
        return MemoryType(int(attributes.type)), int(attributes.device)

    # Streams.

    def create_stream(self) -> int:
        """Return the address of a new stream, which is ordered with the default stream."""
        return int(value_of(cudart().cudaStreamCreate(), "create a stream"))

    def stream_synchronize(self, ptr: int) -> None:
        """Wait until a stream has done its work."""
        check_result(cudart().cudaStreamSynchronize(ptr), "finish the work on a stream")

    def destroy_stream(self, ptr: int) -> None:
        """Destroy a stream."""
        check_result(cudart().cudaStreamDestroy(ptr), "destroy a stream")


_wrapper = Cuda()


def wrapper() -> Cuda:
    """Return the wrapper of the CUDA runtime, one per process;
    nothing is loaded before its first call.
    """
    return _wrapper


_NO_DRIVER = "Install the NVIDIA driver, or use a machine with a GPU."
_BROKEN_CONTEXT = (
    "An earlier kernel or copy failed, and the GPU cannot be used again in this process. Set"
    " CUDA_LAUNCH_BLOCKING=1 to find the failed call."
)
_HINTS = {
    "cudaErrorInsufficientDriver": "The driver is missing or older than this CUDA runtime. "
    + _NO_DRIVER,
    "cudaErrorNoDevice": "No GPU is visible. Check nvidia-smi and CUDA_VISIBLE_DEVICES.",
    "cudaErrorInvalidDevice": "List the GPUs with nvidia-smi, and check CUDA_VISIBLE_DEVICES.",
    "cudaErrorStubLibrary": "libcuda is a stub. " + _NO_DRIVER,
    "cudaErrorSystemDriverMismatch": "Restart the machine, or reinstall the driver.",
    "cudaErrorNoKernelImageForDevice": "It was built for a different GPU. Build it for this one.",
    "cudaErrorIllegalAddress": _BROKEN_CONTEXT,
    "cudaErrorLaunchFailure": _BROKEN_CONTEXT,
    "cudaErrorMisalignedAddress": _BROKEN_CONTEXT,
    "cudaErrorMemoryAllocation": "Use a smaller batch, or end other programs that use this GPU.",
}


def check_result(result: tuple[Any, ...], doing: str) -> None:
    """Raise BackendError if a call of CUDA failed.
    `doing` is its purpose, such as ``free memory``."""
    if result[0]:
        raise failure(result[0], doing)


def value_of(result: tuple[Any, ...], doing: str) -> Any:
    """Return the value of a call; raise BackendError if the call failed."""
    if result[0]:
        raise failure(result[0], doing)
    return result[1]


def failure(code: Any, doing: str, details: str = "") -> BackendError:
    """Return the error for a CUDA error code; `details` is a further sentence about the cause."""
    name, text = describe(code)
    # CUDA keeps some errors. Reading the error prevents the next call from reporting it again.
    cudart().cudaGetLastError()
    message = f"CUDA could not {doing}: {text} ({name}, {int(code)})."
    return BackendError(
        f"{message} {details}" if details else message,
        backend="cuda",
        hint=_HINTS.get(name, ""),
    )


def describe(code: Any) -> tuple[str, str]:
    """Return the name of a CUDA error code and its description."""
    module = cudart()
    try:
        code = module.cudaError_t(code)
        name = _text(module.cudaGetErrorName(code)[1])
        return name, _text(module.cudaGetErrorString(code)[1])
    except (ValueError, TypeError):
        return "unknown", "an error unknown to this version of cuda-python"


def _text(value: Any) -> str:
    """Return bytes or another value as text."""
    return value.decode() if isinstance(value, bytes) else str(value)
