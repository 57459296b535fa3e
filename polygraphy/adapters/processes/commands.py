"""Runs commands in separate processes."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
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
from polygraphy.domain.search.check_rules import TIMED_OUT, CommandEnd
from polygraphy.lifetime import end_group, forget_group, start_command
from polygraphy.ports.running import RunningCommand
from polygraphy.python_command import safe_command

_ENDED = "The interpreter that runs check commands has exited."
_PATIENCE = 2.0
_BLOCK = 1 << 16
_SERVER = "polygraphy.adapters.processes.warm_server"


def can_fork() -> bool:
    """Return whether the operating system can fork."""
    # On macOS, system frameworks do not work after a fork.
    return hasattr(os, "fork") and sys.platform != "darwin"


class WarmInterpreter:
    """Runs command lines in forks of a waiting interpreter, which starts on first use.

    `preload` names the function, as ``module:function``, that returns the modules for a command
    line; by default, only modules that earlier command lines needed are imported.
    """

    def __init__(
        self,
        preload: str = "",
        interpreter: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Create an interpreter with modules to preload and additional environment variables.
        It starts when it is needed.
        """
        self._command = safe_command([interpreter, "-m", _SERVER, preload])
        self._variables = environment or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], Any] | None = None
        self._environment: Mapping[str, str] = {}
        self._numbers = count()
        self._rest = b""
        self._answers: dict[int, Mapping[str, Any]] = {}
        self.pids: dict[int, int] = {}
        """The processes of the command lines that run, by the numbers of their requests."""

    @staticmethod
    def cold_command() -> list[str]:
        """Return the command that runs this package in a new interpreter."""
        return safe_command([sys.executable, "-m", "polygraphy"])

    def prepare(self, words: Sequence[str] = ()) -> None:
        """Start the interpreter unless it runs, and import the modules that a command line
        needs."""
        self._start(words)

    def start(
        self,
        words: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> WarmCommand:
        """Start a command line, whose first word is ignored, and return the running command."""
        output = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `wait` or `stop`.
        try:
            number = self.request(
                words, [output.fileno()], timeout=timeout, folder=folder, environment=environment
            )
        except BaseException:
            output.close()
            raise
        return WarmCommand(self, number, output)

    def request(
        self,
        words: Sequence[str],
        files: Sequence[int],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Start a command line, and return the number of the request;
        it writes to the first of some open files and inherits the others.
        """
        number = next(self._numbers)
        request = {
            "number": number,
            "words": list(words),
            "timeout": timeout,
            "folder": str(Path.cwd()) if folder is None else folder,
            "environment": dict(environment or {}),
        }
        self._send(request, files)
        return number

    def answer_to(self, number: int, wait: float | None = None) -> Mapping[str, Any] | None:
        """Return the answer to a request once it is there, and keep answers to others;
        None after `wait` seconds.

        Args:
            number: the number of the request.
            wait: the time limit in seconds; None to wait without a limit.
        """
        end = None if wait is None else time.monotonic() + wait
        while number not in self._answers:
            if self._process is None:
                raise BackendError(_ENDED)
            assert self._process.stdout is not None
            heard = self._process.stdout.fileno()
            remaining_value = None if end is None else max(0.0, end - time.monotonic())
            try:
                if not select.select([heard], [], [], remaining_value)[0]:
                    return None
                read = os.read(heard, _BLOCK)
            except (
                BaseException
            ):  # The command is in a separate process group, so Ctrl-C did not reach it.
                self.close()
                raise
            if not read:
                self.close()
                raise BackendError(_ENDED)
            *lines, self._rest = (self._rest + read).split(b"\n")
            for answer in map(json.loads, lines):
                if "pid" in answer:
                    self.pids[answer["number"]] = answer["pid"]
                else:
                    self.pids.pop(answer["number"], None)
                    self._answers[answer["number"]] = answer
        return self._answers.pop(number)

    def stop(self, number: int) -> Mapping[str, Any]:
        """End the command of a request, and return its answer;
        empty if the interpreter has ended."""
        with suppress(BackendError):
            if number not in self._answers and self._process is not None:
                self._send({"number": number, "words": []})
            return self.answer_to(number) or {}
        return {}

    def close(self) -> None:
        """End the interpreter."""
        self._process, self._rest = None, b""
        self.pids.clear()
        if self._end is not None:
            self._end()

    def _send(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """Send a request with open files to the interpreter, which is started if necessary."""
        self._start(request["words"])
        line = json.dumps({**request, "descriptors": len(files)}).encode() + b"\n"
        try:
            sent = socket.send_fds(self._channel, [line], files) if files else 0
            self._channel.sendall(line[sent:])
        except (BrokenPipeError, ConnectionResetError) as error:
            self.close()
            raise BackendError(_ENDED) from error
        except BaseException:
            self.close()
            raise

    def _start(self, words: Sequence[str] = ()) -> None:
        """Start the interpreter, or replace it if the environment changed."""
        environment = {**os.environ, **self._variables}
        if self._process is not None and self._environment != environment:
            # The waiting process read its settings when it imported modules, so start a new one.
            self.close()
        if self._process is not None:
            return
        self._environment = environment
        self._channel, other_socket = socket.socketpair()
        with other_socket:
            self._process = start_command(
                [*self._command, *words],
                stdin=other_socket.fileno(),
                stdout=subprocess.PIPE,
                env=environment,
            )
        self._end = finalize(
            self, _stop_interpreter, self._process, self._channel
        )  # Stops the process when the interpreter exits.


class WarmCommand:
    """A running command line; its output goes to a file."""

    def __init__(self, interpreter: WarmInterpreter, number: int, output: IO[bytes]) -> None:
        """Set the interpreter, the number of the request, and the output file."""
        self._interpreter, self._number, self._output = interpreter, number, output
        self._start = time.perf_counter()

    def wait(self) -> CommandEnd:
        """Wait for the command, and return its exit code, output and time."""
        with self._output as output:
            answer = self._interpreter.answer_to(self._number)
            assert answer is not None
            output.seek(0)
            text = output.read().decode("utf-8", errors="replace")
        seconds = time.perf_counter() - self._start
        if answer["timed_out"]:
            return CommandEnd(TIMED_OUT, text, seconds, True)
        return CommandEnd(int(answer["code"]), text, seconds)

    def stop(self) -> None:
        """Stop the command."""
        self._interpreter.stop(self._number)
        self._output.close()


def _stop_interpreter(process: subprocess.Popen[bytes], channel: socket.socket) -> None:
    """End an interpreter and the processes that it runs."""
    process.terminate()  # The process then stops the command that it runs.
    channel.close()
    forget_group(process)
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


_OURS = "polygraphy"
_AS_MODULE = ["-m", _OURS]


def _own_path(interpreter: str) -> str:
    """Return the path of this process's interpreter if a name stands for it, else the name."""
    which = shutil.which(interpreter)
    return (
        sys.executable
        if which and Path(which).parent == Path(sys.executable).parent
        else interpreter
    )


class ProcessCommands:
    """Runs commands; those of this package run in an interpreter that has already imported it and
    the modules from `preload`; see `WarmInterpreter`."""

    def __init__(self, preload: str = "") -> None:
        """Set the function that returns modules to import in advance."""
        self._warm = WarmInterpreter(preload)

    def prepare(self, command: Sequence[str]) -> None:
        """Start the interpreter for a command of this package, with the modules that it needs."""
        if command[0] == _OURS and can_fork():
            self._warm.prepare(command)

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        in_new_process: bool = False,
    ) -> RunningCommand:
        """Start a command, and return it; see `polygraphy.ports.running.Commands`."""
        words = list(command)
        if words[0] == _OURS:
            if can_fork() and not in_new_process:
                return self._warm.start(
                    words, timeout=timeout, folder=folder, environment=environment
                )
            words[:1] = WarmInterpreter.cold_command()
        elif words[1:3] == _AS_MODULE:
            words = safe_command([_own_path(words[0]), *words[1:]])
        return _ProcessCommand(words, timeout, folder, environment)

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> CommandEnd:
        """Run a command to its end, and return its exit code, output and time."""
        return self.start(command, timeout=timeout).wait()

    def close(self) -> None:
        """End the warm interpreter."""
        self._warm.close()


class _ProcessCommand:
    """A command in a separate process and session."""

    def __init__(
        self,
        words: Sequence[str],
        timeout: float | None,
        folder: str | None,
        environment: Mapping[str, str] | None,
    ) -> None:
        """Start the command."""
        self._timeout = timeout
        self._start = time.perf_counter()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `wait` or `stop`.
        try:
            self._process = _start_process(words, self._output, folder, environment)
        except BaseException:
            self._output.close()
            raise

    def wait(self) -> CommandEnd:
        """Return the finished command; stop it at its timeout."""
        timed_out = False
        try:
            code = self._process.wait(self._seconds_left())
        except subprocess.TimeoutExpired:
            timed_out, code = True, TIMED_OUT
            self._kill()
        # The command is in a separate process group, so Ctrl-C did not reach it.
        except BaseException:
            self.stop()
            raise
        forget_group(self._process)
        with self._output as output:
            output.seek(0)
            text = output.read().decode("utf-8", errors="replace")
        return CommandEnd(code, text, time.perf_counter() - self._start, timed_out)

    def stop(self) -> None:
        """Kill the command and the processes that it started."""
        self._kill()
        self._output.close()

    def _seconds_left(self) -> float | None:
        """Return the seconds before the timeout; None without one."""
        if self._timeout is None:
            return None
        return max(0.0, self._start + self._timeout - time.perf_counter())

    def _kill(self) -> None:
        """Kill the processes of the command, and wait for it."""
        end_group(self._process)
        self._process.wait()


def _start_process(
    words: Sequence[str],
    output: IO[bytes],
    folder: str | None,
    environment: Mapping[str, str] | None,
) -> subprocess.Popen[bytes]:
    """Return the process of a command that writes to a file; raise UsageError if it cannot run."""
    try:
        return start_command(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment} if environment else None,
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"The check command {words[0]!r} does not exist.",
            hint="Use a program on the PATH or its path; a pipeline needs a shell: sh -c.",
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The check command {words[0]!r} cannot be run: {reason}.") from error
