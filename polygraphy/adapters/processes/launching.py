"""Runs the jobs of a sweep: each in a process, and a session, of its own, which takes no more time
and memory than it may, and ends with the process that started it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translated_os_errors
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.domain.sweep.outcome import HUNG, MEMORY, essence
from polygraphy.ports.machine import machine_facts

_LIBRARY = ctypes.CDLL(None)
_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG."""
_BETWEEN_LOOKS = 0.25
"""Seconds until the memory of a process is looked at again."""
_KEPT = 4000
"""Bytes of the end of what a process writes in which its last line is looked for."""
_LONGEST = 300
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class ProcessLauncher:
    """Implements the port `Launcher`."""

    def start(
        self, job: Job, limits: Limits, device: str | None, *, shared: bool
    ) -> LaunchedProcess | None:
        """Start a job, unless its lock is held: by the process that runs it, so that the lock is
        given back when that ends, however it does.
        """
        ensure_parent(job.result)
        lock = _locked(f"{job.stem}.lock")
        if lock is None:
            return None
        try:
            return LaunchedProcess(job, limits, device, shared, self._machine, lock)
        except BaseException:
            os.close(lock)
            raise

    @cached_property
    def _machine(self) -> Mapping[str, Any]:
        return machine_facts()


class LaunchedProcess:
    """Implements the port `Launched`."""

    def __init__(
        self,
        job: Job,
        limits: Limits,
        device: str | None,
        shared: bool,
        machine: Mapping[str, Any],
        lock: int,
    ) -> None:
        self._job, self._limits, self._lock = job, limits, lock
        self._facts = {"schema": 1, "key": job.key, "device": device, "shared": shared}
        self._facts["machine"] = machine
        self._peak, self._next_look = 0, 0.0
        self._start = time.monotonic()
        with suppress(FileError, OSError, ValueError):  # Who held the lock before may have done it.
            self._done: Mapping[str, Any] | None = json.loads(Path(job.result).read_bytes())
            self._give_back()
            return
        self._done = None
        with translated_os_errors(job.report, "remove"):
            Path(job.report).unlink(missing_ok=True)
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # Closed at the end.
        try:
            self._process = self._started(device)
        except BaseException:
            self._output.close()
            raise
        self._descriptor = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None

    def _started(self, device: str | None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self._job.environment}
        if device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = device
        try:
            return subprocess.Popen(
                self._job.command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._job.folder,
                env=environment,
                pass_fds=(self._lock,),
                preexec_fn=_ends_with(os.getpid()),  # noqa: PLW1509  # No lock is taken in it.
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BackendError(f"{self._job.command[0]} cannot be run: {reason}.") from error

    def poll(self, wait: float = 0.0) -> Mapping[str, Any] | None:
        if self._done is not None:
            return self._done
        if wait and self._descriptor is not None:
            select.select([self._descriptor], [], [], wait)
        elif wait:
            time.sleep(wait)
        pid = self._process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return self._ended("exit")
        now = time.monotonic()
        if now - self._start > self._limits.timeout:
            return self._ended(HUNG)
        if now >= self._next_look:
            self._next_look = now + _BETWEEN_LOOKS
            self._peak = max(self._peak, resident(pid))
            if self._limits.memory is not None and self._peak > self._limits.memory:
                return self._ended(MEMORY)
        return None

    def stop(self) -> None:
        if self._done is None:
            self._reap()
            self._output.close()
            self._give_back()
            self._done = {}

    def _reap(self) -> tuple[int, Any]:
        """End the process and what it started; return its exit code and what it used."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._descriptor is not None:
            os.close(self._descriptor)
        return self._process.returncode, usage

    def _ended(self, how: str) -> Mapping[str, Any]:
        code, usage = self._reap()
        self._done = {}  # Nothing is left to stop, also where the record cannot be written.
        seconds = time.monotonic() - self._start
        in_bytes = 1 if sys.platform == "darwin" else 1024
        record: dict[str, Any] = {
            **self._facts,
            "ended": how,
            "code": code,
            "seconds": round(seconds, 3),
            "cpu": round(usage.ru_utime + usage.ru_stime, 3),
            "memory": max(self._peak, usage.ru_maxrss * in_bytes),
            "said": self._last_line(),
        }
        found = _essence_in(self._job.report)
        if found is not None and how == "exit":
            record["essence"] = found
        try:
            with atomic_file(self._job.result) as stream:
                stream.write(json.dumps(record, ensure_ascii=True).encode())
        finally:
            self._give_back()
        self._done = record
        return record

    def _last_line(self) -> str:
        with self._output as output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - _KEPT))
            text = _COLOURS.sub("", output.read().decode("utf-8", errors="replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_LONGEST] if lines else ""

    def _give_back(self) -> None:
        """Remove the lock while it is held, so that no process locks a removed file."""
        with suppress(OSError):
            Path(f"{self._job.stem}.lock").unlink(missing_ok=True)
        os.close(self._lock)


def _ends_with(parent: int) -> Callable[[], None]:
    """Return what a new process does so that it ends when its parent does."""

    def prepare() -> None:
        if sys.platform == "linux":
            _LIBRARY.prctl(_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != parent:  # It ended before.
                os._exit(1)

    return prepare


def _locked(path: str) -> int | None:
    """Lock a file, and return its descriptor; None if another process holds it."""
    while True:
        with translated_os_errors(path, "write"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            if error.errno not in _NO_LOCKS:  # Some file systems have none: then all compute.
                os.close(descriptor)
                raise
        with suppress(FileNotFoundError):
            if Path(path).stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # Who held it has removed it.


def _essence_in(path: str) -> dict[str, Any] | None:
    """Return what is kept of a verdict document; None where there is none, or only a part."""
    try:
        return essence(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def resident(pid: int) -> int:
    """Return how many bytes of memory a process and its descendants have resident; 0 where the
    system does not tell.
    """
    total, waiting = 0, [pid]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError, ValueError, IndexError):  # It may end meanwhile.
            pages = int((folder / "statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total
