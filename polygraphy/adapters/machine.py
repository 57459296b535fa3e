"""Devices, cores and memory, and the environment variables that change what this package does."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy.domain.catalog.compute import TF32_CAPABILITY, TF32_ENVIRONMENT
from polygraphy.domain.environment import Section

if TYPE_CHECKING:
    pass

_DRIVER = Path("/proc/driver/nvidia")

_VARIABLES = (
    TF32_ENVIRONMENT,
    "POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB",
    "POLYGRAPHY_ASK_BEFORE_INSTALL",
    "POLYGRAPHY_AUTOINSTALL_DEPS",
    "POLYGRAPHY_CONSOLE",
    "POLYGRAPHY_EXIT_CODES",
    "POLYGRAPHY_EXPANSION_LIMIT_MB",
    "POLYGRAPHY_INSTALL_CMD",
    "POLYGRAPHY_INTERNAL_CORRECTNESS_CHECKS",
    "POLYGRAPHY_TRIAL_TIME_LIMIT_S",
    "POLYGRAPHY_USE_TENSORRT_RTX",
)


def computes_in_tf32(gpu: int = 0) -> bool:
    """Return whether NVIDIA libraries may compute float32 in TF32 on a GPU; see the port."""
    # Not cached: libraries read the variable when they start.
    return os.environ.get(TF32_ENVIRONMENT) != "0" and _capability(gpu) >= TF32_CAPABILITY


def is_tf32_forced() -> bool:
    """Return whether TF32 is used in place of float32, whatever a program selects; see the port."""
    return os.environ.get(TF32_ENVIRONMENT) == "1"


@cache
def _capability(gpu: int) -> tuple[int, int]:
    """Return the compute capability of a GPU; the first one with TF32 if unknown.

    NVML reports it without starting CUDA, which forked processes could not use.
    """
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    device, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    try:
        nvml: Any = ctypes.CDLL(name)
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(
            _gpu_number(gpu), ctypes.byref(device)
        ):
            return TF32_CAPABILITY
        get = nvml.nvmlDeviceGetCudaComputeCapability
        if get(device, ctypes.byref(major), ctypes.byref(minor)):
            return TF32_CAPABILITY
    except (OSError, AttributeError):
        return TF32_CAPABILITY
    return major.value, minor.value


def _gpu_number(gpu: int) -> int:
    """Return the number of a GPU among all GPUs of the machine; CUDA counts only visible ones."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return int(visible[gpu]) if gpu < len(visible) and visible[gpu].strip().isdigit() else gpu


def machine_sections(driver: Path = _DRIVER) -> list[Section]:
    """Return the sections on devices and environment variables.

    Args:
        driver: the folder in which NVIDIA's driver describes its devices.
    """
    variables = tuple((name, _variable_text(name)) for name in _VARIABLES)
    return [_device_section(driver), Section("Environment Variables", variables)]


def _device_section(driver: Path) -> Section:
    """Return the section about the GPU driver and GPUs."""
    facts = []
    version = _read(driver / "version").partition("\n")[0]
    if version:
        facts.append(("driver", version))
    for information in sorted(driver.glob("gpus/*/information")):
        lines = dict(line.split(":", 1) for line in _read(information).splitlines() if ":" in line)
        facts.append((information.parent.name, lines.get("Model", "unknown model").strip()))
    return Section("Devices", tuple(facts), () if facts else ("No NVIDIA driver was found.",))


def _variable_text(name: str) -> str:
    """Return the literal of an environment variable, or "not set"."""
    return repr(os.environ[name]) if name in os.environ else "not set"


def _read(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
"""Only glibc has it."""
_UNKNOWN = 1 << 30
"""Assumed free memory in bytes if the system does not report it."""


_ROOT = Path("/")
"""The folder that contains ``/proc`` and ``/sys``."""


def cores() -> int:
    """Return the number of CPU cores that the process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def free_memory(root: Path = _ROOT) -> int:
    """Return the free memory in bytes: of the machine, or of the container if that is less."""
    limits = [_available_memory(root), _container_memory(root)]
    return min((limit for limit in limits if limit is not None), default=_UNKNOWN)


def release_memory() -> None:
    """Return freed memory to the system; the C library would keep it otherwise."""
    if _trim is not None:
        _trim(0)


def _available_memory(root: Path) -> int | None:
    """Return the available memory in bytes; None if unknown."""
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def machine_facts(root: Path = _ROOT) -> dict[str, Any]:
    """Return the model of the processor, and the driver and GPUs of NVIDIA."""
    lines = _read(root / "proc/cpuinfo").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    devices = _device_section(root / "proc/driver/nvidia")
    facts = dict(devices.facts)
    driver = facts.pop("driver", "")
    return {
        "processor": next(named, platform.machine()),
        "threads": os.environ.get("OMP_NUM_THREADS") or cores(),
        "driver": driver,
        "gpus": list(facts.values()),
    }


def _container_memory(root: Path) -> int | None:
    """Return the memory that a container may still use, in bytes; None without a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, container_memory = (
            _read(root / f"sys/fs/cgroup/{name}").strip() for name in (limit, used)
        )
        if most.isdigit() and container_memory.isdigit():
            return max(int(most) - int(container_memory), 0)
    return None
