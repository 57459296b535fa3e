"""The interpreter that waits for command lines: a line of JSON in, two lines of JSON out.

A request holds its ``number``, ``words``, the ``folder`` to run in, a ``timeout`` in seconds and
variables of the ``environment``; with it come open files, ``descriptors`` in number, through the
socket that is standard input: the first is what the command line writes to, it holds the others
until it ends. Answers are the number and the ``pid`` once it runs; then the number, an exit
``code``, negative for a signal, whether it has ``timed_out``, and what it used: seconds of the
processor as ``cpu``, bytes of ``memory`` at most. Several may run at the same time. A request
without words stops the one with its number.

The first argument names the function, as ``module:function``, that returns which modules a command
line needs, as far as that is seen before it has run; the others are the command line that is
expected first.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from polygraphy.lifetime import make_follower

_IMPORTED_EARLY = (
    "attr",
    "attrs",
    "jinja2",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "polygraphy",
    "tensorrt",
    "tensorrt_rtx",
)
"""Packages whose import starts nothing that would not survive a fork."""

_LINE = 1 << 16
_MOST_FILES = 64
"""Open files that come with what is read at a time."""


class _Running(NamedTuple):
    """A command line in a separate process."""

    pid: int
    report: int
    deadline: float | None


_running: dict[int, _Running] = {}
"""Current requests by number."""


def main() -> None:
    """Answer requests until standard input is closed."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Imported modules may write output, which must not mix with answers.
    channel = socket.socket(fileno=os.dup(0))
    files: deque[int] = deque()
    prepare = make_follower(os.getpid())

    def send_answer(**facts: Any) -> None:
        """Write facts as a line of JSON."""
        answers.write(json.dumps(facts).encode() + b"\n")
        answers.flush()

    preload, words = sys.argv[1], sys.argv[2:]
    _import_for(words, preload)
    woken = _child_exit_descriptor()
    remainder = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [], _seconds_to_next_deadline())
        if woken in ready:
            os.read(woken, _LINE)
        for facts, used in _collect_answers():
            send_answer(**facts)
            _import(used)
        if 0 not in ready:
            continue
        read, came, _, _ = socket.recv_fds(channel, _LINE, _MOST_FILES)
        if not read:
            _exit_on_signal(0, None)
        files.extend(came)
        *lines, remainder = (remainder + read).split(b"\n")
        for line in lines:
            request = json.loads(line)
            poplefts = [files.popleft() for _ in range(request["descriptors"])]
            if not request["words"]:
                _stop_run(request["number"])
                continue
            _import_for(request["words"], preload)
            send_answer(
                number=request["number"], pid=_start_command_line(request, poplefts, prepare)
            )


def _child_exit_descriptor() -> int:
    """Return a descriptor that becomes readable when a child process ends."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _seconds_to_next_deadline() -> float | None:
    """Return the seconds until the next time limit; None if there is none."""
    deadlines = [indices.deadline for indices in _running.values() if indices.deadline is not None]
    return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None


def _exit_on_signal(signum: int, frame: Any) -> NoReturn:
    """Kill all running process groups, and end this process."""
    for indices in _running.values():
        _kill_group(indices.pid)
    os._exit(1)


def _kill_group(pid: int) -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _stop_run(number: int) -> None:
    """Kill the process of a request, if it runs."""
    if number in _running:
        _kill_group(_running[number].pid)


def _start_command_line(
    request: dict[str, Any], files: Sequence[int], prepare: Callable[[], None]
) -> int:
    """Run a command line in a forked process, which takes over the files; return its process ID."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns about threads, which imported libraries may start.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        prepare()
        os.close(reading)
        _run_forked(request, files[0], writing)
    with suppress(OSError):
        # The child sets its group as well, because either process may run first.
        os.setpgid(pid, pid)
    for descriptor in (writing, *files):
        os.close(descriptor)
    limit = request["timeout"]
    deadline = None if limit is None else time.monotonic() + limit
    _running[request["number"]] = _Running(pid, reading, deadline)
    return pid


def _collect_answers() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield an answer for each command line, and the modules that it imported.
    A command line is answered when it has ended or exceeded its time limit.
    """
    for number, running in list(_running.items()):
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        has_ended = os.waitid(os.P_PID, running.pid, how) is not None
        timed_out = not has_ended and _has_expired(running.deadline)
        if not (has_ended or timed_out):
            continue
        _kill_group(running.pid)  # Kill the processes that the command started as well.
        _, status, usage = os.wait4(running.pid, 0)
        del _running[number]
        with os.fdopen(running.report, "rb") as report:
            # Do not wait for the end of the pipe: processes that the command started may keep it
            # open.
            os.set_blocking(running.report, False)
            used = (report.read() or b"").decode().split()
        code = 0 if timed_out else os.waitstatus_to_exitcode(status)
        facts: dict[str, Any] = {"number": number, "code": code, "timed_out": timed_out}
        facts["cpu"] = usage.ru_utime + usage.ru_stime
        facts["memory"] = peak_memory(usage)
        yield facts, used


def peak_memory(usage: Any) -> int:
    """Return the peak resident memory of a process in bytes, from the result of `os.wait4`."""
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _has_expired(deadline: float | None) -> bool:
    """Return whether a time limit has passed."""
    return deadline is not None and time.monotonic() >= deadline


def _run_forked(request: dict[str, Any], output: int, report: int) -> NoReturn:
    """Run a request in this forked process, report the result, and end the process."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((empty, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        sys.argv[:] = request["words"]
        code = _exit_code_of_program()
        names = [name for name in sys.modules if name.partition(".")[0] in _IMPORTED_EARLY]
        # Names that do not fit into the pipe are dropped; their modules are imported later.
        os.set_blocking(report, False)
        with suppress(OSError):
            os.write(report, "\n".join(names).encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _exit_code_of_program() -> int:
    """Run the command line, and return its exit code."""
    import atexit
    import runpy
    import traceback

    try:
        runpy.run_module("polygraphy", run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        atexit._run_exitfuncs()
    return 0


def _import_for(words: Sequence[str], preload: str) -> None:
    """Import the modules that a command line is known to need."""
    module, _, function = preload.partition(":")
    if function:
        _import(getattr(import_module(module), function)(words))


def _import(names: Iterable[str]) -> None:
    """Import modules that the last command line needed, for the next one."""
    for name in names:
        if name not in sys.modules and not name.endswith("__main__"):
            with suppress(Exception):
                import_module(name)


if __name__ == "__main__":
    main()
