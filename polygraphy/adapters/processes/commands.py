"""Runs commands in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import IO, Any
from weakref import finalize

from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.search.check_rules import TIMED_OUT, Finished
from polygraphy.ports.running import RunningCommand

_ENDED = "The interpreter that runs check commands has ended."
_PATIENCE = 2.0
_SERVER = "polygraphy.adapters.processes.warm_server"


def can_fork() -> bool:
    """Return whether the operating system can fork."""
    return hasattr(os, "fork") and sys.platform != "darwin"  # Frameworks of macOS do not survive.


class WarmInterpreter:
    """Runs command lines in forks of a waiting interpreter, which is started when first needed.

    `preload` names the function that returns which modules a command line needs, as
    ``module:function``; by default only what earlier command lines needed is imported.
    """

    def __init__(self, preload: str = "") -> None:
        self._preload = preload
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], Any] | None = None
        self._environment: Mapping[str, str] = {}
        self._numbers = count()
        self._answers: dict[int, Mapping[str, Any]] = {}

    @staticmethod
    def cold_command() -> list[str]:
        """Return how this package is run in a new interpreter."""
        return [sys.executable, "-m", "polygraphy"]

    def prepare(self, words: Sequence[str] = ()) -> None:
        """Start the interpreter, unless it runs, and have it import what a command line needs."""
        self._started(words)

    def start(
        self,
        words: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> WarmCommand:
        """Start a command line, whose first word is ignored; see `Commands.start`."""
        descriptor, path = tempfile.mkstemp(prefix="polygraphy_check_")
        os.close(descriptor)
        command = WarmCommand(self, next(self._numbers), Path(path))
        request = {
            "number": command.number,
            "words": list(words),
            "output": path,
            "timeout": timeout,
            "folder": str(Path.cwd()) if folder is None else folder,
            "environment": dict(environment or {}),
        }
        try:
            self._send(request)
        except BaseException:
            command.path.unlink(missing_ok=True)
            raise
        return command

    def answer_to(self, number: int) -> Mapping[str, Any]:
        """Wait for the answer to a request, and keep those to others."""
        while number not in self._answers:
            if self._process is None:
                raise BackendError(_ENDED)
            assert self._process.stdout is not None
            try:
                line = self._process.stdout.readline()
            except (
                BaseException
            ):  # Ctrl-C: the command is in a group of its own, and heard nothing.
                self.close()
                raise
            if not line:
                self.close()
                raise BackendError(_ENDED)
            answer = json.loads(line)
            self._answers[answer["number"]] = answer
        return self._answers.pop(number)

    def stop(self, number: int) -> None:
        """End the command of a request, and wait until that is done."""
        with suppress(BackendError):
            if number not in self._answers and self._process is not None:
                self._send({"number": number, "words": []})
            self.answer_to(number)

    def close(self) -> None:
        """End the interpreter."""
        self._process = None
        if self._end is not None:
            self._end()

    def _send(self, request: Mapping[str, Any]) -> None:
        process = self._started(request["words"])
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            self.close()
            raise BackendError(_ENDED) from error
        except BaseException:
            self.close()
            raise

    def _started(self, words: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        environment = dict(os.environ)
        if self._process is not None and self._environment != environment:
            self.close()  # Settings are read when modules are imported.
        if self._process is None:
            self._environment = environment
            self._process = subprocess.Popen(
                [sys.executable, "-m", _SERVER, self._preload, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._end = finalize(self, _stop, self._process)  # Also when the program ends.
        return self._process


class WarmCommand:
    """A command line that was started; what it writes goes to a file.

    Attributes:
        number: that of the request.
        path: the file.
    """

    def __init__(self, interpreter: WarmInterpreter, number: int, path: Path) -> None:
        self.number = number
        self.path = path
        self._interpreter = interpreter
        self._start = time.perf_counter()

    def wait(self) -> Finished:
        try:
            answer = self._interpreter.answer_to(self.number)
            text = self.path.read_bytes().decode("utf-8", errors="replace")
        finally:
            self.path.unlink(missing_ok=True)
        seconds = time.perf_counter() - self._start
        if answer["timed_out"]:
            return Finished(TIMED_OUT, text, seconds, True)
        return Finished(int(answer["code"]), text, seconds)

    def stop(self) -> None:
        self._interpreter.stop(self.number)
        self.path.unlink(missing_ok=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End an interpreter and what it runs."""
    process.terminate()  # It ends what it runs.
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


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
