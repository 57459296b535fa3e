"""The interpreter that waits for command lines: a line of JSON in, a line of JSON out.

A request holds ``words``, the ``folder`` to run in, where the ``output`` goes, and a ``timeout`` in
seconds; the answer an exit ``code``, negative for a signal, and whether it has ``timed_out``. The
first argument names the function, as ``module:function``, that returns which modules a command line
needs, as far as that is seen before it has run; the others are the command line that is expected
first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

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

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What is imported may write something.
    preload, words = sys.argv[1], sys.argv[2:]
    _import_for(words, preload)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _import_for(request["words"], preload)
        answer, used = _answered(request)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
        _import(used)


_running: list[int] = []
"""The process of the command line that is run now, if there is one."""


def _end(signum: int, frame: Any) -> NoReturn:
    """End with what is running, which is in a group of its own."""
    for pid in _running:
        _kill(pid)
    os._exit(1)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _answered(request: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Run a command line in a fork; return the answer, and the modules that it needed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run(request, writing)
    with suppress(OSError):  # It does so itself, too; whoever is first.
        os.setpgid(pid, pid)
    _running.append(pid)
    os.close(writing)
    status = _waited(pid, request["timeout"])
    _running.clear()
    with os.fdopen(reading, "rb") as report:
        os.set_blocking(reading, False)  # A process that the command left behind may hold it open.
        used = (report.read() or b"").decode().split()
    if status is None:
        return {"code": 0, "timed_out": True}, used
    return {"code": os.waitstatus_to_exitcode(status), "timed_out": False}, used


def _run(request: dict[str, Any], report: int) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(request["output"], os.O_WRONLY)
        empty = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((empty, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.chdir(request["folder"])
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


def _waited(pid: int, timeout: float | None) -> int | None:
    """Wait for a process; return its status, None if it had to be stopped."""
    if timeout is None:
        return os.waitpid(pid, 0)[1]
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() >= deadline:
            _kill(pid)
            os.waitpid(pid, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


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
