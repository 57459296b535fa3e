"""Runs the jobs of a sweep: each in its own process and session, with limits of time and memory,
and ending with the process that started it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

try:
    import fcntl
except ImportError:  # On Windows, locks belong to a process, and commands do not inherit them.
    fcntl = None  # type: ignore[assignment]

import filelock

from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translate_os_errors
from polygraphy.adapters.processes.commands import WarmInterpreter, can_fork
from polygraphy.adapters.processes.warm_server import peak_memory
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.domain.report.document import is_unfinished
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.domain.sweep.outcome import HUNG, MEMORY, cell_summary
from polygraphy.lifetime import end_group, start_command
from polygraphy.ports.machine import machine_facts
from polygraphy.python_command import safe_command

_NAME = "polygraphy"
_OURS = ("-m", _NAME)
_BETWEEN_LOOKS = 0.25
"""Seconds until the memory of a process is looked at again."""
_KEPT = 4000
"""Bytes of the end of what a process writes in which its last line is looked for."""
_LONGEST = 300
_GRACE = 1.0
"""Seconds until a job that was killed counts as crashed: who killed it, such as a scheduler or Ray,
may be about to end this process as well, and then nothing came of it.
"""
_KILLED = -9
_FROM_OUTSIDE = (_KILLED, -signal.SIGTERM)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


_waiting: dict[Any, WarmInterpreter] = {}
"""Interpreters of this package, each with what command lines import, and nothing run."""
_unfit: set[Any] = set()
"""Those that cannot wait so."""


def launch(
    job: Job, limits: Limits, device: str | None, *, shared: bool, preload: str = ""
) -> LaunchedProcess | None:
    """Start a job, and return its process; None if another process holds the lock of the job.

    Args:
        job: the job. A command line of this package runs in a fork of its interpreter.
        limits: the limits of time and memory.
        device: the value of CUDA_VISIBLE_DEVICES for it.
        shared: whether other jobs may run at the same time.
        preload: the name of the function that returns the modules for a command line.
    """
    ensure_parent(job.result)
    lock = _lock_file(f"{job.stem}.lock")
    if lock is None:
        return None
    facts = {"schema": 1, "key": job.key, "device": device, "shared": shared}
    facts["machine"] = _machine_facts()
    try:
        return LaunchedProcess(job, limits, facts, partial(_begin_job, preload), lock)
    except BaseException:
        lock.release()
        raise


def _begin_job(preload: str, job: Job, device: str | None, output: int, lock: _Lock) -> _Process:
    """Return the started process of a job, which writes to the open file `output` and inherits the
    lock.
    """
    variables = dict(job.environment)
    if device is not None:
        variables["CUDA_VISIBLE_DEVICES"] = device
    interpreter = (preload, job.command[:1], tuple(job.environment.items()))

    def start_new_process() -> _Process:
        """Return a new process for the job."""
        return _FreshProcess(job, variables, output, lock)

    def replace_forked_process() -> _Process:
        """Return a new process for the job, because the interpreter cannot be forked."""
        _unfit.add(interpreter)
        return start_new_process()

    if job.command[1:3] != _OURS or not can_fork() or interpreter in _unfit:
        return start_new_process()
    if interpreter not in _waiting:
        _waiting[interpreter] = WarmInterpreter(preload, job.command[0], job.environment)
    waiting, words = _waiting[interpreter], [_NAME, *job.command[3:]]
    try:
        number = waiting.request(
            words, [output, *lock.descriptors], folder=job.folder, environment=variables
        )
    except (BackendError, OSError, subprocess.SubprocessError):
        return replace_forked_process()
    return _ForkedProcess(waiting, number, replace_forked_process)


@cache
def _machine_facts() -> Mapping[str, Any]:
    """Return the facts of this machine."""
    return machine_facts()


class _ProcessUsage(NamedTuple):
    """The end of a process: exit code, CPU seconds, and peak memory in bytes."""

    code: int
    cpu: float
    memory: int


class _FreshProcess:
    """A process of a new interpreter, or of another program."""

    def __init__(self, job: Job, variables: Mapping[str, str], output: int, lock: _Lock) -> None:
        """Start the process of a job."""
        try:
            is_ours = job.command[1:3] == _OURS
            self._process = start_command(
                safe_command(job.command) if is_ours else job.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=job.folder,
                env={**os.environ, **variables},
                pass_fds=lock.descriptors,
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BackendError(f"{job.command[0]} cannot be run: {reason}.") from error
        self.pid: int | None = self._process.pid
        self._descriptor = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self._used: _ProcessUsage | None = None

    def has_ended(self, wait: float) -> bool:
        """Return whether the process ended, after waiting for up to some seconds."""
        if wait and self._descriptor is not None:
            select.select([self._descriptor], [], [], wait)
        elif wait:
            time.sleep(wait)
        if not hasattr(os, "waitid"):
            self._used = self._used or self._use_if_ended()
            return self._used is not None
        # The process stays a zombie until its group is killed, so that its number is not reused.
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, how) is not None

    def _use_if_ended(self) -> _ProcessUsage | None:
        """Return the resources of the process if it has ended, on systems where waiting ends it
        (macOS before Python 3.13, and Windows, which does not report them); else None."""
        if not hasattr(os, "wait4"):
            code = self._process.poll()
            return None if code is None else _ProcessUsage(code, 0.0, 0)
        ended, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        return self._read_usage(status, usage) if ended else None

    def _read_usage(self, status: int, usage: Any) -> _ProcessUsage:
        """Return the exit code, CPU time and peak memory of the ended process."""
        self._process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        return _ProcessUsage(self._process.returncode, cpu, peak_memory(usage))

    def reap(self) -> _ProcessUsage:
        """Kill the remaining processes of the group, and return exit code, CPU time and peak
        memory.
        """
        end_group(self._process)
        used = self._used
        if used is None and hasattr(os, "wait4"):
            used = self._read_usage(*os.wait4(self._process.pid, 0)[1:])
        if self._descriptor is not None:
            os.close(self._descriptor)
        return used or _ProcessUsage(self._process.wait(), 0.0, 0)


class _ForkedProcess:
    """A fork of a waiting interpreter; a new process replaces it if the interpreter ends without an
    answer, for example because an import crashes it."""

    def __init__(
        self, waiting: WarmInterpreter, number: int, instead: Callable[[], _Process]
    ) -> None:
        """Set the request to the waiting interpreter, and the process to start instead."""
        self._waiting, self._number, self._instead = waiting, number, instead
        self._answer: Mapping[str, Any] | None = None
        self._other: _Process | None = None

    @property
    def pid(self) -> int | None:
        """Return the process ID; None before the fork."""
        return self._other.pid if self._other else self._waiting.pids.get(self._number)

    def has_ended(self, wait: float) -> bool:
        """Return whether the fork ended, after waiting for up to some seconds.
        A new process replaces one that cannot start.
        """
        if self._other is None and self._answer is None:
            try:
                self._answer = self._waiting.answer_to(self._number, wait)
            except BackendError:
                self._other = self._instead()
        return self._other.has_ended(wait) if self._other else self._answer is not None

    def reap(self) -> _ProcessUsage:
        """Kill the fork, and return its exit code, CPU time and peak memory."""
        if self._other is not None:
            return self._other.reap()
        if self._answer is None and self.pid is None:
            self._waiting.close()  # Do not wait for the imports, which may take forever.
        answer = self._answer or self._waiting.stop(self._number)
        code = int(answer.get("code", _KILLED))
        return _ProcessUsage(code, answer.get("cpu", 0.0), answer.get("memory", 0))


_Process = _FreshProcess | _ForkedProcess


class LaunchedProcess:
    """Implements the port `LaunchedJob`."""

    def __init__(
        self,
        job: Job,
        limits: Limits,
        facts: Mapping[str, Any],
        begin: Callable[[Job, str | None, int, _Lock], _Process],
        lock: _Lock,
    ) -> None:
        """Start the process of a job, with a time limit."""
        self._job, self._limits, self._lock, self._facts = job, limits, lock, facts
        self._peak, self._next_look = 0, 0.0
        self._start = time.monotonic()
        # The previous owner of the lock may have finished the job.
        with suppress(FileError, OSError, ValueError):
            self._done: Mapping[str, Any] | None = json.loads(Path(job.result).read_bytes())
            self._release_lock()
            return
        self._done = None
        with translate_os_errors(job.report, "remove"):
            Path(job.report).unlink(missing_ok=True)
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # Closed at the end.
        try:
            self._process = begin(job, facts["device"], self._output.fileno(), lock)
        except BaseException:
            self._output.close()
            raise

    def poll(self, wait: float = 0.0) -> Mapping[str, Any] | None:
        """Return the record of the process if it ended or is over a limit; None while it runs."""
        if self._done is not None:
            return self._done
        if self._process.has_ended(wait):
            return self._end("exit")
        now = time.monotonic()
        if now - self._start > self._limits.timeout:
            return self._end(HUNG)
        pid = self._process.pid
        if now >= self._next_look and pid is not None:
            self._next_look = now + _BETWEEN_LOOKS
            self._peak = max(self._peak, resident_memory(pid))
            if self._limits.memory is not None and self._peak > self._limits.memory:
                return self._end(MEMORY)
        return None

    def stop(self) -> None:
        """Kill the process, without a record."""
        if self._done is None:
            self._process.reap()
            self._output.close()
            self._release_lock()
            self._done = {}

    def _end(self, how: str) -> Mapping[str, Any]:
        """Kill the process, and return its record with the way it ended."""
        code, cpu, memory = self._process.reap()
        # The process has ended, so there is nothing to stop, even if its record cannot be written.
        self._done = {}
        if how == "exit" and code in _FROM_OUTSIDE:
            time.sleep(_GRACE)
        record: dict[str, Any] = {
            **self._facts,
            "ended": how,
            "code": code,
            "seconds": round(time.monotonic() - self._start, 3),
            "cpu": round(cpu, 3),
            "memory": max(self._peak, memory),
            "said": self._last_line(),
        }
        summary = _load_summary(self._job.report)
        if summary is not None and how == "exit":
            record["essence"] = summary
        try:
            with atomic_file(self._job.result) as stream:
                stream.write(json.dumps(record, ensure_ascii=True).encode())
        finally:
            self._release_lock()
        self._done = record
        return record

    def _last_line(self) -> str:
        """Return the last line of the output that is not empty."""
        with self._output as output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - _KEPT))
            text = _COLORS.sub("", output.read().decode("utf-8", errors="replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_LONGEST] if lines else ""

    def _release_lock(self) -> None:
        """Release the lock of the job."""
        self._lock.remove()


class _Lock:
    """A lock file that this process holds, and so do commands that inherit its descriptors."""

    def __init__(self, path: str, descriptor: int) -> None:
        """Set the path, and the descriptor that holds the lock."""
        self._path, self._descriptor = path, descriptor
        self.descriptors: tuple[int, ...] = (descriptor,)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def remove(self) -> None:
        """Remove the file while it is held, so that no process locks a removed file."""
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)
        self.release()


class _ProcessLock(_Lock):
    """The lock on systems without `fcntl`; it ends with this process and is not inherited."""

    def __init__(self, path: str, lock: filelock.BaseFileLock) -> None:
        """Set the path, and the lock."""
        self._path, self._held = path, lock
        self.descriptors = ()

    def release(self) -> None:
        self._held.release()


def _lock_file(path: str) -> _Lock | None:
    """Lock a file, and return the lock; None if another process holds it."""
    if fcntl is None:
        file_lock = filelock.FileLock(path, timeout=0)
        try:
            file_lock.acquire()
        except filelock.Timeout:
            return None
        return _ProcessLock(path, file_lock)
    while True:
        with translate_os_errors(path, "write"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            # If the file system has no locks, every process runs the job.
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
        with suppress(FileNotFoundError):
            if Path(path).stat().st_ino == os.fstat(descriptor).st_ino:
                return _Lock(path, descriptor)
        os.close(descriptor)  # The owner of the lock has removed it.


def _load_summary(path: str) -> dict[str, Any] | None:
    """Return the parts of a verdict document that a sweep keeps, or None.
    The result is None if it is missing or incomplete.
    """
    try:
        document = json.loads(Path(path).read_bytes())
        return None if is_unfinished(document) else cell_summary(document)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes.
    The result is 0 if the system does not report it, as on Windows."""
    if not Path("/proc/self/statm").exists():
        return _resident_bytes(pid, _process_table())
    total, waiting = 0, [pid]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError, ValueError, IndexError):  # The process may have ended.
            pages = int((folder / "statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def _process_table() -> list[tuple[int, int, int]]:
    """Return process ID, parent ID and resident KiB of each process, as listed by POSIX `ps`.
    The result is empty without `ps`."""
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "rss="]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [
            (int(pid), int(parent), int(kib))
            for pid, parent, kib in map(str.split, text.splitlines())
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def _resident_bytes(pid: int, table: Sequence[tuple[int, int, int]]) -> int:
    """Return the resident bytes of a process and its descendants."""
    family = {pid}
    while True:
        members = {number for number, parent, _ in table if parent in family} - family
        if not members:
            break
        family |= members
    return 1024 * sum(kib for number, _, kib in table if number in family)
