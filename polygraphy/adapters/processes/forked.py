"""Calls functions in forked processes.

A fork pickles no arguments, so any runner and any data loader works. It is safe if the caller has
not created anything that does not survive a fork, such as sessions and device contexts: runners
create these when they are activated, inside the new process.
"""

from __future__ import annotations

import errno
import gc
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, cast

from polygraphy.adapters.processes.warm_process import crash_error, stop_error
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.lifetime import ParentLink

T = TypeVar("T")

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05

_NO_ROOM = 74
"""Exit code of a process whose result cannot be written."""


def call_isolated(
    function: Callable[[], T],
    *,
    what: str,
    timeout: float | None = None,
    is_silent: bool = False,
    memory: int | None = None,
) -> T:
    """Return the result of a function called in a new process; see the port."""
    if not hasattr(os, "fork"):
        raise UsageError("Runners in subprocesses require an operating system that supports fork.")
    sys.stdout.flush()  # Otherwise, both processes would write the buffered output.
    sys.stderr.flush()
    with tempfile.TemporaryFile() as exchange:
        link = ParentLink()
        pid = _fork()
        if pid == 0:
            link.follow()
            if is_silent:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            if memory is not None:
                _limit_memory(memory)
            _answer_and_exit(function, exchange)
        link.hold()
        try:
            status = _wait(pid, timeout)
        except BaseException:
            _kill(pid)
            raise
        finally:
            link.close()
        if status is None:
            _kill(pid)
            raise stop_error(what, timeout)
        return cast("T", _receive_result(exchange, status, what))


def _fork() -> int:
    """Fork and return the process ID.
    Garbage collection is disabled in the child, because it might collect a session that waits
    for threads of the parent."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Python warns about threads. They belong to numerical libraries, which prepare for
            # forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            gc.freeze()
        return pid
    finally:
        if is_enabled:
            gc.enable()


def _limit_memory(nbytes: int) -> None:
    """Limit the additional memory of this process to a number of bytes (Linux only)."""
    with suppress(ImportError, OSError, ValueError, KeyError):
        import resource

        status = Path("/proc/self/status").read_text()
        lines = dict(line.split(":", 1) for line in status.splitlines())
        reserved = int(lines["VmData"].split()[0]) * 1024
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (reserved + nbytes, most))


def _answer_and_exit(function: Callable[[], Any], exchange: IO[bytes]) -> NoReturn:
    """Write the result of a function, or its exception, to a file, and end the process."""
    code = 1
    try:
        try:
            answer = (True, function())
        except BaseException as error:
            answer = (False, error)
        try:
            pickle.dump(answer, exchange, protocol=pickle.HIGHEST_PROTOCOL)
            exchange.flush()
        except Exception as error:  # Values that cannot be pickled are sent as text.
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                os._exit(_NO_ROOM)
            raised = None if answer[0] else _describe_error(answer[1])
            text = raised or f"The subprocess cannot return its result: {_describe_error(error)}."
            exchange.seek(0)
            exchange.truncate()
            pickle.dump((False, BackendError(text)), exchange)
            exchange.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)  # Functions that the caller registered for its exit do not run here.


def _describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _wait(pid: int, timeout: float | None) -> int | None:
    """Wait for a process; return its status, or None if it still runs after `timeout` seconds."""
    if timeout is None:
        return os.waitpid(pid, 0)[1]
    deadline = time.monotonic() + timeout
    _wait_for_end(pid, timeout)
    pause = _FIRST_PAUSE
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _wait_for_end(pid: int, timeout: float) -> None:
    """Sleep until a process ends, on systems that report it: Linux 5.3 and later."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(timeout * 1000)
    finally:
        os.close(descriptor)


def _kill(pid: int) -> None:
    """Kill a process and wait for its end."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _receive_result(exchange: IO[bytes], status: int, what: str) -> Any:
    """Return the result of a forked function; raise its exception, or BackendError for a crash."""
    if os.WIFSIGNALED(status):
        raise crash_error(what, os.WTERMSIG(status))
    if os.WEXITSTATUS(status) == _NO_ROOM:
        raise BackendError(
            f"{what} ended without a result: the disk with {tempfile.gettempdir()} is full.",
            hint="Free some space, or set the environment variable TMPDIR to a different folder.",
        )
    exchange.seek(0)
    try:
        succeeded, answer = pickle.load(
            exchange
        )  # Unpickling is safe, because the data is from our own process, through an unnamed file.
    except Exception as error:
        code = os.WEXITSTATUS(status)
        raise BackendError(f"{what} ended without a result, with exit code {code}.") from error
    if succeeded:
        return answer
    if isinstance(answer, MemoryError):
        raise BackendError(
            f"{what} ran out of memory.", hint="Use a smaller batch, or fewer outputs at a time."
        )
    if isinstance(answer, SystemExit):
        # A library or SIGTERM ended the forked process, not this one.
        raise BackendError(f"{what} ended its process with exit code {answer.code}.")
    raise answer
