"""Cores and memory, as far as the operating system grants them."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Any

from polygraphy.adapters.machine.machine import ThisMachine

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
"""Only glibc has it."""
_UNKNOWN = 1 << 30
"""What is taken to be free where the system does not tell."""


class ThisProcess:
    """Implements the port `Machine` for the process that this is.

    Args:
        root: where the file systems ``/proc`` and ``/sys`` are.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def cores(self) -> int:
        """Return the cores that the affinity of the process allows."""
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1

    def free_memory(self) -> int:
        """Return the smaller one of what the machine has available, and of what the control group
        of the process is still granted.
        """
        limits = [self._available(), self._granted()]
        return min((limit for limit in limits if limit is not None), default=_UNKNOWN)

    def release_memory(self) -> None:
        """Return freed memory to the system, where the C library would keep it for later."""
        if _trim is not None:
            _trim(0)

    def about(self) -> dict[str, Any]:
        """Return the model of the processor as Linux tells it, and what NVIDIA's driver tells."""
        lines = self._read("proc/cpuinfo").splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        [devices, *_] = ThisMachine(self._root / "proc/driver/nvidia").sections()
        facts = dict(devices.facts)
        driver = facts.pop("driver", "")
        return {
            "processor": next(named, platform.machine()),
            "threads": os.environ.get("OMP_NUM_THREADS") or self.cores(),
            "driver": driver,
            "gpus": list(facts.values()),
        }

    def _available(self) -> int | None:
        for line in self._read("proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None

    def _granted(self) -> int | None:
        """Return what is left of the limit of a container; None without one."""
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
        ):
            most, taken = (self._read(f"sys/fs/cgroup/{name}").strip() for name in (limit, used))
            if most.isdigit() and taken.isdigit():
                return max(int(most) - int(taken), 0)
        return None

    def _read(self, name: str) -> str:
        try:
            return (self._root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
