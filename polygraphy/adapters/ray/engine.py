"""Runs the jobs of a sweep as tasks of Ray, which decides where, and on which GPU.

A task starts its job as a subprocess by the launcher, so that each has the interpreter that it
needs, and a backend that crashes ends no worker. Ray repeats only tasks whose host died.
Records go to the folder of the sweep, which all hosts see; Ray carries keys and exit codes.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import attrs
from attrs import evolve

import polygraphy
from polygraphy import mod
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.ports.machine import cores, free_memory
from polygraphy.ports.sweeping import launch, read_record

ray = mod.lazy_import("ray>=2.9")

_IN_FLIGHT = 300
"""Tasks that Ray knows of at a time: each takes memory of its head."""
_PATIENCE = 0.2
_VISIBLE = 60.0
"""Seconds until a file that another host wrote is seen here: NFS keeps as long what was absent."""
_RETRIES = 3
"""Largest number of restarts of a task whose worker or host died."""


class RayEngine:
    """Implements the port `SweepEngine` on the cluster of RAY_ADDRESS, or on a new one."""

    def run(
        self,
        jobs: Sequence[Job],
        limits: Limits,
        ended: Callable[[Job, Mapping[str, Any]], object],
    ) -> None:
        """Run jobs on a Ray cluster, and call `ended` with each job and its record."""
        _connect()
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        waiting = deque(sorted(jobs, key=lambda job: job.exclusive))
        running: dict[Any, Job] = {}
        task = ray.remote(_launch)
        most = min(_IN_FLIGHT, limits.jobs or _IN_FLIGHT)
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    job = waiting.popleft()
                    requested_values = {
                        "num_cpus": (
                            _cores_of_largest_host(job.gpu and has_gpus) if job.exclusive else 1
                        ),
                        "num_gpus": 1 if job.gpu and has_gpus else 0,
                        "max_retries": _RETRIES,
                        "retry_exceptions": False,
                        "name": job.key,
                    }
                    facts = (attrs.asdict(job), attrs.asdict(limits), has_gpus)
                    running[task.options(**requested_values).remote(*facts)] = job
                finished_value, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                for value in finished_value:
                    job = running.pop(value)
                    ended(job, _record_of(value, job))
        finally:
            for value in running:
                ray.cancel(value, force=True)


def _cores_of_largest_host(needs_gpu: bool) -> int:
    """Return the number of CPU cores of the largest host.
    A job that requests as many has the host to itself."""
    hosts = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fit = [host for host in hosts if not needs_gpu or host.get("GPU", 0) >= 1]
    return max(1, int(max((host.get("CPU", 1) for host in fit), default=1)))


def _record_of(task: Any, job: Job) -> Mapping[str, Any]:
    """Return the record that an ended task left in the folder.

    Raises:
        BackendError: it could not run, because its host died too often.
        FileError: its folder cannot be written, or its host wrote to a different one.
    """
    try:
        _, code = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        line = str(error).strip().partition("\n")[0]
        raise BackendError(f"Ray could not run {job.key}: {line}", backend="ray") from error
    end = time.monotonic() + _VISIBLE
    while (record := read_record(job.result)) is None:
        if time.monotonic() > end:
            raise FileError(
                f"Ray ran the cell (exit code {code}), but {job.result} does not exist.",
                path=job.result,
                hint="Set --folder to a folder that all hosts of the cluster share.",
            )
        Event().wait(_PATIENCE)
    return record


def _launch(job: dict[str, Any], limits: dict[str, Any], has_gpus: bool) -> tuple[str, int]:
    """Run a job on this host to its end, in a Ray task; return its key and exit code."""
    new_job, given_limits = Job(**{**job, "command": tuple(job["command"])}), Limits(**limits)
    if given_limits.memory is None:
        given_limits = evolve(given_limits, memory=free_memory() // 2 // cores())
    device = "" if not new_job.gpu else os.environ.get("CUDA_VISIBLE_DEVICES") if has_gpus else None
    while True:
        launched = launch(new_job, given_limits, device, shared=not new_job.exclusive)
        if launched is not None:
            break
        Event().wait(_PATIENCE)  # Wait, because the process of a dead worker may still be ending.
    try:
        while (record := launched.poll(_PATIENCE)) is None:
            pass
    finally:
        launched.stop()
    return new_job.key, record["code"]


@contextmanager
def _in_folder(path: str) -> Iterator[None]:
    """Change the current folder inside the block."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def _connect() -> None:
    """Connect to a Ray cluster until this process ends;
    workers import this package from its current location.

    Raises:
        BackendError: there is no cluster, and none can be started.
    """
    if ray.is_initialized():
        return
    local_name = str(Path(polygraphy.__file__).resolve().parent.parent)
    paths = os.pathsep.join(filter(None, [local_name, os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # The same priority as without Ray; by default, Ray's workers have a niceness of 15.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        with TemporaryDirectory(prefix="polygraphy-") as empty, _in_folder(empty):
            ray.init(  # Workers import from the folder that is current now, before anything else.
                # "local" ignores clusters that ran on this machine before.
                os.environ.get("RAY_ADDRESS") or "local",
                runtime_env={"env_vars": {"PYTHONPATH": paths}},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except Exception as error:  # Ray raises various errors if there is no cluster.
        line = str(error).strip().partition("\n")[0]
        raise BackendError(f"Ray cannot be used: {line}", backend="ray") from error
