"""The interpreter that waits for command lines: a line of JSON in, a line of JSON out.

A request holds its ``number``, ``words``, the ``folder`` to run in, where the ``output`` goes, a
``timeout`` in seconds and variables of the ``environment``; the answer the number, an exit
``code``, negative for a signal, and whether it has ``timed_out``. Several may be under way. A
request without words stops the one of its number. The
first argument names the function, as ``module:function``, that returns which modules a command line
needs, as far as that is seen before it has run; the others are the command line that is expected
first.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

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
"""Packages that start nothing when they are imported which would not survive a fork."""

_LINE = 1 << 16


class _Running(NamedTuple):
    """A command line in a process of its own."""

    pid: int
    report: int
    deadline: float | None


_running: dict[int, _Running] = {}
"""What runs now, by the number of the request."""


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What is imported may write something.
    preload, words = sys.argv[1], sys.argv[2:]
    _import_for(words, preload)
    woken = _woken_by_children()
    rest = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [], _patience())
        if woken in ready:
            os.read(woken, _LINE)
        for answer, used in _ended():
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()
            _import(used)
        if 0 not in ready:
            continue
        read = os.read(0, _LINE)
        if not read:
            _end(0, None)
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            _begin(json.loads(line), preload)


def _woken_by_children() -> int:
    """Return a descriptor that can be read after a child has ended."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _patience() -> float | None:
    """Return for how many seconds nothing has to be stopped."""
    deadlines = [each.deadline for each in _running.values() if each.deadline is not None]
    return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None


def _end(signum: int, frame: Any) -> NoReturn:
    """End with what is running, each of which is in a group of its own."""
    for each in _running.values():
        _kill(each.pid)
    os._exit(1)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _begin(request: dict[str, Any], preload: str) -> None:
    """Run a command line in a fork; or stop the one of this number, where there are no words."""
    number = request["number"]
    if not request["words"]:
        if number in _running:
            _kill(_running[number].pid)
        return
    _import_for(request["words"], preload)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run(request, writing)
    with suppress(OSError):  # It does so itself, too; the first one wins.
        os.setpgid(pid, pid)
    os.close(writing)
    limit = request["timeout"]
    deadline = None if limit is None else time.monotonic() + limit
    _running[number] = _Running(pid, reading, deadline)


def _ended() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the answer about each command line that has ended, or whose time is over, and the
    modules that it needed.
    """
    for number, running in list(_running.items()):
        ended, status = os.waitpid(running.pid, os.WNOHANG)
        timed_out = not ended and _is_over(running.deadline)
        if timed_out:
            _kill(running.pid)
            os.waitpid(running.pid, 0)
        elif not ended:
            continue
        del _running[number]
        with os.fdopen(running.report, "rb") as report:
            os.set_blocking(running.report, False)  # What the command left may hold it open.
            used = (report.read() or b"").decode().split()
        code = 0 if timed_out else os.waitstatus_to_exitcode(status)
        yield {"number": number, "code": code, "timed_out": timed_out}, used


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _run(request: dict[str, Any], report: int) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        output = os.open(request["output"], os.O_WRONLY)
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((empty, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        sys.argv[:] = request["words"]
        code = _code_of_program()
        names = [name for name in sys.modules if name.partition(".")[0] in _IMPORTED_EARLY]
        os.set_blocking(report, False)  # What does not fit is imported later.
        with suppress(OSError):
            os.write(report, "\n".join(names).encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code_of_program() -> int:
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
    """Import what a command line is known to need."""
    module, _, function = preload.partition(":")
    if function:
        _import(getattr(import_module(module), function)(words))


def _import(names: Iterable[str]) -> None:
    """Import what the last command line needed, for the next."""
    for name in names:
        if name not in sys.modules and not name.endswith("__main__"):
            with suppress(Exception):
                import_module(name)


if __name__ == "__main__":
    main()
