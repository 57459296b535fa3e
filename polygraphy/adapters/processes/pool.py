"""Runs the jobs of a sweep on this machine."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import evolve

from polygraphy.adapters.processes.launching import resident_memory
from polygraphy.domain.errors import UsageError
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.ports.machine import cores, free_memory, machine_facts
from polygraphy.ports.sweeping import LaunchedJob, launch

_PATIENCE = 0.02
"""Seconds until processes are looked at again."""


class _RunningJob(NamedTuple):
    """A job that runs, with its process and GPU."""

    job: Job
    launched: LaunchedJob
    device: str | None


class LocalPool:
    """Implements the port `SweepEngine`. One thread starts and watches all processes, which end
    with that thread."""

    def run(
        self,
        jobs: Sequence[Job],
        limits: Limits,
        ended: Callable[[Job, Mapping[str, Any]], object],
    ) -> None:
        """Run jobs in parallel within the limits, and call `ended` with each job and its record."""
        if limits.memory and not resident_memory(os.getpid()):
            raise UsageError(
                "--memory has no effect: this system does not report the memory use of a process.",
                hint="Remove it, and lower --jobs instead.",
            )
        devices = _visible_devices()
        count = limits.jobs or (len(devices) if len(devices) > 1 else cores())
        memory = limits.memory or free_memory() // 2 // count
        limits = evolve(limits, jobs=count, memory=memory)
        waiting = deque(sorted(jobs, key=lambda job: job.exclusive))
        running: list[_RunningJob] = []
        try:
            while waiting or running:
                used_index = 0
                while (
                    waiting and used_index < len(waiting) and _can_start(waiting[0], running, count)
                ):
                    job = waiting.popleft()
                    device = _device_for(job, devices, running)
                    shared = count > 1 and not job.exclusive
                    launched = launch(job, limits, device, shared=shared)
                    if launched is None:  # Another sweep runs this cell, and will save its result.
                        waiting.append(job)
                        used_index += 1
                    else:
                        running.append(_RunningJob(job, launched, device))
                if not running:
                    time.sleep(_PATIENCE * 5)
                for row in list(running):
                    record = row.launched.poll(_PATIENCE / len(running))
                    if record is not None:
                        running.remove(row)
                        ended(row.job, record)
        finally:
            for row in running:
                row.launched.stop()


def _can_start(job: Job, running: Sequence[_RunningJob], count: int) -> bool:
    """Return whether a job can start in addition to the running ones."""
    if job.exclusive or any(row.job.exclusive for row in running):
        return not running
    return len(running) < count


def _visible_devices() -> list[str]:
    """Return the available GPUs, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [word.strip() for word in named.split(",") if word.strip()]
    return [str(number) for number in range(len(machine_facts()["gpus"]))]


def _device_for(job: Job, devices: Sequence[str], running: Sequence[_RunningJob]) -> str | None:
    """Return the GPU that the fewest jobs use; None for a job that needs none."""
    if not job.gpu:
        return ""
    device_for = [row.device for row in running]
    return min(devices, key=device_for.count, default=None)
