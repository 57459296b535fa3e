"""Whether this machine has a GPU, and which: asked of the driver, because TensorRT itself ends the
process where there is none.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

from polygraphy.domain.errors import BackendError

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CUdevice_attribute: COMPUTE_CAPABILITY_MAJOR and _MINOR.


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL | None:
    try:
        driver = ctypes.CDLL(_DRIVER)
        return driver if driver.cuInit(0) == 0 else None
    except (OSError, AttributeError):
        return None


def driver_version() -> str:
    """Return the latest version of CUDA that the driver knows, such as ``13.0``; an empty text
    where there is no driver, or no device that it drives.
    """
    driver, version = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def has_gpu() -> bool:
    """Return whether the CUDA driver finds a GPU."""
    return _count() > 0


def gpu_name() -> str:
    """Return the name and the compute capability of the first GPU that this process may use, such
    as ``NVIDIA H200 (9.0)``; an empty text where there is none.
    """
    driver = _driver()
    return _name(driver, 0) if driver is not None and has_gpu() else ""


def gpu_names() -> list[str]:
    """Return the names and the compute capabilities of the GPUs that this process may use."""
    driver = _driver()
    return [] if driver is None else [_name(driver, index) for index in range(_count())]


def _count() -> int:
    driver, count = _driver(), ctypes.c_int(0)
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _name(driver: ctypes.CDLL, index: int) -> str:
    device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    return f"{name.value.decode(errors='replace')} ({major.value}.{minor.value})"


def require_gpu(what: str) -> None:
    """Do nothing where there is a GPU.

    Raises:
        BackendError: there is none; `what` says what needs it.
    """
    if not has_gpu():
        raise BackendError(
            f"{what} needs a GPU, and the CUDA driver finds none.",
            backend="tensorrt",
            hint="See `nvidia-smi`, or run this on a machine with an NVIDIA GPU and its driver.",
        )
