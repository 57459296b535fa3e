"""Runs commands in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from polygraphy.adapters.processes.warm import WarmInterpreter, can_fork
from polygraphy.domain.errors import UsageError
from polygraphy.domain.search.check_rules import TIMED_OUT, Finished
from polygraphy.ports.running import RunningCommand

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
            self._warm.prepare(command)

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        afresh: bool = False,
    ) -> RunningCommand:
        """Start a command; see `polygraphy.ports.running.Commands`."""
        words = list(command)
        if words[0] == _OURS:
            if can_fork() and not afresh:
                return self._warm.start(
                    words, timeout=timeout, folder=folder, environment=environment
                )
            words[:1] = WarmInterpreter.cold_command()
        return _ProcessCommand(words, timeout, folder, environment)

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> Finished:
        return self.start(command, timeout=timeout).wait()

    def close(self) -> None:
        """End what waits for commands."""
        self._warm.close()


class _ProcessCommand:
    """A command in a process, and a session, of its own."""

    def __init__(
        self,
        words: Sequence[str],
        timeout: float | None,
        folder: str | None,
        environment: Mapping[str, str] | None,
    ) -> None:
        self._timeout = timeout
        self._start = time.perf_counter()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `wait` or `stop`.
        try:
            self._process = _started(words, self._output, folder, environment)
        except BaseException:
            self._output.close()
            raise

    def wait(self) -> Finished:
        """Wait for its end, or stop it when its time is over."""
        timed_out = False
        try:
            code = self._process.wait(self._left())
        except subprocess.TimeoutExpired:
            timed_out, code = True, TIMED_OUT
            self._kill()
        except BaseException:  # Ctrl-C: the command is in a group of its own, and heard nothing.
            self.stop()
            raise
        with self._output as output:
            output.seek(0)
            text = output.read().decode("utf-8", errors="replace")
        return Finished(code, text, time.perf_counter() - self._start, timed_out)

    def stop(self) -> None:
        self._kill()
        self._output.close()

    def _left(self) -> float | None:
        if self._timeout is None:
            return None
        return max(0.0, self._start + self._timeout - time.perf_counter())

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()


def _started(
    words: Sequence[str],
    output: IO[bytes],
    folder: str | None,
    environment: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, **environment} if environment else None,
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"The check command {words[0]!r} does not exist.",
            hint="Name a program on the PATH, or the path of one; a pipeline needs a shell: sh -c.",
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The check command {words[0]!r} cannot be run: {reason}.") from error
