"""Cores and memory, as far as the operating system grants them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
"""Only glibc has it."""
_UNKNOWN = 1 << 30
"""What is taken to be free where the system does not tell."""


_ROOT = Path("/")
"""Where the file systems ``/proc`` and ``/sys`` are."""


def cores() -> int:
    """Return the cores that the affinity of the process allows."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def free_memory(root: Path = _ROOT) -> int:
    """Return the smaller one of what the machine has available, and of what the control group
    of the process is still granted.
    """
    limits = [_available(root), _granted(root)]
    return min((limit for limit in limits if limit is not None), default=_UNKNOWN)


def release_memory() -> None:
    """Return freed memory to the system, where the C library would keep it for later."""
    if _trim is not None:
        _trim(0)


def _available(root: Path) -> int | None:
    for line in _read(root, "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _granted(root: Path) -> int | None:
    """Return what is left of the limit of a container; None without one."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, taken = (_read(root, f"sys/fs/cgroup/{name}").strip() for name in (limit, used))
        if most.isdigit() and taken.isdigit():
            return max(int(most) - int(taken), 0)
    return None


def _read(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
