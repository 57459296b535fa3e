"""Runs commands in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from polygraphy.adapters.processes.warm import WarmInterpreter, can_fork
from polygraphy.domain.errors import UsageError
from polygraphy.domain.search.check_rules import TIMED_OUT, Finished

_OURS = "polygraphy"


class ProcessCommands:
    """Runs commands; those of this package in an interpreter that has it imported already, and
    what `preload` returns for them, see `WarmInterpreter`.
    """

    def __init__(self, preload: str = "") -> None:
        self._warm = WarmInterpreter(preload)

    def prepare(self, command: Sequence[str]) -> None:
        """Start the interpreter for a command of this package, which imports what that needs."""
        if command[0] == _OURS and can_fork():
            self._warm.start(command)

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> Finished:
        """Run a command to its end; see `polygraphy.ports.running.Commands`."""
        words = list(command)
        if words[0] == _OURS:
            if can_fork():
                return self._warm.run(words, timeout=timeout)
            words[:1] = WarmInterpreter.cold_command()
        return _run(words, timeout)

    def close(self) -> None:
        """End what waits for commands."""
        self._warm.close()


def _run(words: Sequence[str], timeout: float | None) -> Finished:
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = _started(words, output)
        timed_out = False
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out, code = True, TIMED_OUT
            _stop(process)
        except BaseException:  # Ctrl-C: the command is in a group of its own, and heard nothing.
            _stop(process)
            raise
        output.seek(0)
        text = output.read().decode("utf-8", errors="replace")
    return Finished(code, text, time.perf_counter() - start, timed_out)


def _started(words: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"The check command {words[0]!r} does not exist.",
            hint="Name a program on the PATH, or the path of one; a pipeline needs a shell: sh -c.",
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The check command {words[0]!r} cannot be run: {reason}.") from error


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
