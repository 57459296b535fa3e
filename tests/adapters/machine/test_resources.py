"""What the operating system grants this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from polygraphy.adapters.machine import cores, free_memory, release_memory

MEMINFO = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n"


def system(folder: Path, **files: str) -> Path:
    """Return the root of a system with these files; ``__`` stands for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_available_memory_counts(tmp_path: Path) -> None:
    assert free_memory(system(tmp_path, proc__meminfo=MEMINFO)) == 2 << 20


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [("1048576\n", "524288\n", 512 << 10), ("max\n", "1\n", 2 << 20), ("5\n", "9\n", 0)],
)
def test_a_container_may_grant_less(tmp_path: Path, limit: str, used: str, expected: int) -> None:
    files = {"sys__fs__cgroup__memory_dot_max": limit, "sys__fs__cgroup__memory_dot_current": used}
    assert free_memory(system(tmp_path, proc__meminfo=MEMINFO, **files)) == expected


def test_the_older_kind_of_container(tmp_path: Path) -> None:
    folder = "sys__fs__cgroup__memory__memory_dot_"
    files = {f"{folder}limit_in_bytes": "4096", f"{folder}usage_in_bytes": "96"}
    assert free_memory(system(tmp_path, **files)) == 4000


def test_a_system_that_does_not_tell_has_some(tmp_path: Path) -> None:
    assert free_memory(system(tmp_path)) == 1 << 30


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is a matter of Linux")
def test_cores_are_those_that_the_process_may_run_on() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores() == len(allowed)


def test_memory_is_given_back() -> None:
    release_memory()
    assert free_memory() > 0
