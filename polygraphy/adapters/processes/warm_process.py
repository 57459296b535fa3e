"""A process that calls functions and can keep their results: it is not a fork, so that it can use
libraries and devices that do not survive one, and it stays alive, because loading them takes long.

`warm_server` forks for each command line, so that all start from the same state; here, calls share
the state of the process, and nothing is forked.

The process ends with the one that started it. It writes to standard error, and passes on its log
lines.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from weakref import finalize

from polygraphy.adapters.processes.exchange import Message, load, receive
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.lifetime import end_group, forget_group, start_command
from polygraphy.logger import G_LOGGER
from polygraphy.python_command import safe_command

_MAIN = "from polygraphy.adapters.processes.warm_process import main; main()"
_MOST = 2
"""Processes that stay warm: of more settings, the one that was used first has to start again."""
_MOST_CRASHES = 20
"""Crashes after which a process is not started again: each start takes seconds on a device."""
_SECONDS_BETWEEN_LINES = 0.2
"""Log lines that follow a message sooner are sent with the next one."""
_CHANGING = frozenset({"PYTEST_CURRENT_TEST"})
"""Environment variables that change often and are not settings."""


class ObjectHandle:
    """A handle of an object in a persistent process; inside the process, it is that object.

    Attributes:
        is_there: whether the process still has it; False after a crash.
    """

    def __init__(self, owner: WarmProcess, number: int) -> None:
        """Set the process, and the number of the object in it."""
        self._owner, self._number = owner, number
        self._generation = owner.generation
        finalize(self, owner.release, number, self._generation).atexit = False

    @property
    def is_there(self) -> bool:
        """Return whether the process still has the object; False after a crash."""
        return self._owner.is_running and self._generation == self._owner.generation

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the state for pickle, from which the process finds its object."""
        return _object_by_number, (self._number,)


class WarmProcess:
    """Implements the port `WarmProcess`; the process starts on first use, and again after a
    crash.
    """

    def __init__(self, what: str) -> None:
        """Set the name for messages; the process starts on first use."""
        self._what = what
        self.generation = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], Any] | None = None
        self._environment: Mapping[str, str] = {}
        self._numbers = count()
        self._released: list[int] = []
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._limits: tuple[float | None, bool] = (None, False)
        self._crashes = 0
        self._begun: tuple[ObjectHandle, Message] | None = None

    @property
    def is_running(self) -> bool:
        """Return whether the process runs and was started by this process."""
        return self._process is not None and self._owner == os.getpid()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function called in the process."""
        return self._request(function, arguments, None)

    def keep(self, function: Callable[..., Any], *arguments: Any) -> ObjectHandle:
        """Return a handle of the result of a function called in the process,
        which stores the result."""
        number = next(self._numbers)
        self._request(function, arguments, number)
        return ObjectHandle(self, number)

    def begin_to_keep(self, function: Callable[..., Any], *arguments: Any) -> ObjectHandle:
        """Return a handle of a result that the process is still computing."""
        number = next(self._numbers)
        with self._lock:
            self._finish_call()
            message = self._send(function, arguments, number)
            to_keep = ObjectHandle(self, number)
            self._begun = to_keep, message
            return to_keep

    def release(self, number: int, generation: int) -> None:
        """Let the process drop an object with the next call; can be called at any time."""
        if generation == self.generation:
            self._released.append(number)

    @contextmanager
    def limit_calls(self, timeout: float | None = None, is_silent: bool = False) -> Iterator[None]:
        """Limit the time of each call in the block, and discard its output if `is_silent`.
        See the port.
        """
        before, self._limits = self._limits, (timeout, is_silent)
        try:
            yield
        finally:
            self._limits = before

    def close(self) -> None:
        """End the process and drop the objects that it keeps."""
        with self._lock:
            if self._begun is not None:
                self._begun[1].close()
            self._process = self._begun = None
            self._released.clear()
            self.generation += 1
            if self._end is not None:
                self._end()

    def _request(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], number: int | None
    ) -> Any:
        """Send a call to the process, and return its result or raise its exception."""
        with self._lock:
            self._finish_call()
            message = self._send(function, arguments, number)
            succeeded, answer = self._receive(message, self._limits[0])
        if succeeded:
            return answer
        raise answer

    def _send(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], number: int | None
    ) -> Message:
        """Send a call to the process, which is started if it does not run; return the message,
        which has to stay open until the answer has come.
        """
        uses_kept = any(isinstance(argument, ObjectHandle) for argument in arguments)
        self._start(is_setting_up=number is not None and not uses_kept)
        released, self._released = self._released, []
        how = (str(Path.cwd()), G_LOGGER.module_severity, self._limits[1], released, number)
        try:
            message = Message((how, function, arguments))
        except Exception as error:
            self._released += released
            raise UsageError(f"{self._what} cannot be sent to a subprocess: {error}") from error
        with ExitStack() as stack:
            stack.enter_context(message)
            with self._close_on_failure():
                message.send(self._channel)
            stack.pop_all()
        return message

    def _receive(self, message: Message, timeout: float | None) -> tuple[bool, Any]:
        """Return whether a call succeeded, and its result or its exception.
        Write its log lines as soon as they arrive."""
        end = None if timeout is None else time.monotonic() + timeout
        with message:
            while True:
                with self._close_on_failure():
                    succeeded, answer, lines = load(self._answer(timeout, end))
                for text, severity in lines:
                    G_LOGGER.log(text, severity)
                if succeeded is not None:
                    return succeeded, answer

    def _finish_call(self) -> None:
        """Wait for the call in progress; raise its exception."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        kept_value, message = begun
        if not kept_value.is_there:
            message.close()
            return
        succeeded, answer = self._receive(message, self._limits[0])
        if not succeeded:
            self.close()  # The process could not receive what it should keep, so it is not usable.
            raise answer

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        """Close the process if an exchange with it fails, and raise an error with the reason."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            raise self._close_after_crash() from error
        except OSError as error:
            self.close()
            raise BackendError(
                f"{self._what} cannot exchange data with its subprocess: {error.strerror}.",
                hint="There may not be enough memory: use a smaller batch, or a smaller model.",
            ) from error
        except BaseException:  # Ctrl-C does not reach a process in a separate group.
            self.close()
            raise

    def _answer(self, timeout: float | None, end: float | None) -> Any:
        """Return the parts of the next message of the process.
        Raise BackendError if the time limit ends before it."""
        left = None if end is None else max(end - time.monotonic(), 0.0)
        if left is not None and not select.select([self._channel], [], [], left)[0]:
            self.close()
            raise stop_error(self._what, timeout)
        return receive(self._channel)

    def _close_after_crash(self) -> BackendError:
        """Close the process, and return the error that explains how it ended."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.poll()
        self.close()
        self._crashes += 1
        if code is not None and code < 0:
            return crash_error(self._what, -code)
        return BackendError(f"{self._what} ended its process with exit code {code}.")

    def _start(self, is_setting_up: bool) -> None:
        """Start the process, if it does not run in this interpreter."""
        if self._owner != os.getpid():  # In a forked process, the process belongs to the parent.
            self._owner, self._process, self._end = os.getpid(), None, None
            self.generation += 1
        if self._process is not None and not is_setting_up:
            return
        environment = {k: v for k, v in os.environ.items() if k not in _CHANGING}
        if self._process is not None and self._environment != environment:
            # Libraries in the process read settings when they were loaded, so start a new one.
            self.close()
        if self._process is not None:
            return
        if self._crashes >= _MOST_CRASHES:
            raise BackendError(
                f"{self._what} crashed {self._crashes} times, and is not started again.",
                hint="Run the model by itself to see why: polygraphy run with -vv.",
            )
        self._environment = environment
        self._channel, other_socket = socket.socketpair()
        paths = json.dumps([path for path in sys.path if path])
        with other_socket:
            process = start_command(
                safe_command([sys.executable, "-c", _MAIN, paths]),
                stdin=other_socket.fileno(),
                stdout=subprocess.DEVNULL,
            )
        self._process = process
        # Stops the process when the interpreter exits.
        self._end = finalize(self, _stop, process, self._channel, os.getpid())


def _stop(process: subprocess.Popen[bytes], channel: socket.socket, owner: int) -> None:
    """End a warm process, if this is the process that started it."""
    channel.close()
    if owner != os.getpid():
        return
    if process.poll() is None:
        end_group(process)
        process.wait()
    else:
        forget_group(process)


def crash_error(what: str, number: int) -> BackendError:
    """Return the error that a signal ended a process."""
    name = signal.Signals(number).name
    reason = " It may have run out of memory: use a smaller batch." if name == "SIGKILL" else ""
    error = BackendError(f"{what} crashed: its process was ended by {name}.{reason}")
    error.is_crash = True
    return error


def stop_error(what: str, seconds: float | None) -> BackendError:
    """Return the error that a call was stopped at its time limit."""
    error = BackendError(
        f"{what} took longer than {seconds or 0:g} s and was stopped.",
        hint="Raise the time limit, or find where it hangs with -vv.",
    )
    error.is_stopped = True
    return error


_warm: dict[str, WarmProcess] = {}


def warm_process(what: str, key: str) -> WarmProcess:
    """Return the process for a setting, such as a backend with its options; see the port."""
    if not (hasattr(socket, "send_fds") and hasattr(os, "fork")):
        raise UsageError("Warm subprocesses require sockets that can pass file descriptors.")
    process = _warm.pop(key, None) or WarmProcess(what)
    while len(_warm) >= _MOST:
        _warm.pop(next(iter(_warm))).close()
    _warm[key] = process
    return process


_kept_objects: dict[int, Any] = {}
"""Objects that this process keeps, if it stays warm."""


def _object_by_number(number: int) -> Any:
    """Return an object that this process keeps, by number."""
    return _kept_objects[number]


def main() -> None:
    """Answer calls until the channel is closed."""
    sys.path += [path for path in json.loads(sys.argv.pop(1)) if path not in sys.path]
    channel = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.dup(2)
    os.dup2(nowhere, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sender = _Sender(channel)
    G_LOGGER.letter, G_LOGGER.console_gate = False, sender.add_lines
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    while True:
        try:
            received = receive(channel)
        except (EOFError, OSError):
            os._exit(0)  # Destructors of libraries may crash or hang.
        answer = _answer_to(received, nowhere, errors)
        del received
        sender.send(answer)
        del answer


class _Sender:
    """Sends answers to the process that called, and log lines: with the answer, or before it."""

    def __init__(self, channel: socket.socket) -> None:
        """Set the socket to which it writes."""
        self._channel = channel
        self._lines: list[tuple[str, int]] = []
        self._sent_at = -_SECONDS_BETWEEN_LINES
        # Libraries log from threads of their own.
        self._lock = threading.RLock()

    def add_lines(self, logged: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Take log lines, and return an empty list, so that this process writes none.

        A call can take minutes, so its lines do not wait for the answer, except for those that
        follow others immediately.
        """
        with self._lock:
            self._lines += logged
            if time.monotonic() - self._sent_at >= _SECONDS_BETWEEN_LINES:
                self.send((None, None))
        return []

    def send(self, answer: tuple[bool | None, Any]) -> None:
        """Send whether a call succeeded, with its result or its exception;
        (None, None) while it continues."""
        with self._lock, _message(answer, self._lines) as message:
            try:
                message.send(self._channel)
            except OSError:
                if answer[0] is not None:
                    raise
                os._exit(0)  # The process that called has ended.
            self._lines.clear()
            self._sent_at = time.monotonic()


def _answer_to(received: Any, nowhere: int, errors: int) -> tuple[bool, Any]:
    """Return whether a requested call succeeded, and its result or its exception."""
    try:
        (folder, severity, is_silent, released, number), function, arguments = load(received)
        if folder != str(Path.cwd()):
            os.chdir(folder)
        G_LOGGER.module_severity = severity
        for removed_value in released:
            _kept_objects.pop(removed_value, None)
        _redirect_output(nowhere if is_silent else errors)
        result = function(*arguments)
        if number is None:
            return True, result
        _kept_objects[number] = result
        return True, None
    except MemoryError:
        hint = "Use a smaller batch, or fewer outputs at a time."
        return False, BackendError("It ran out of memory.", hint=hint)
    except SystemExit as end:  # A library called `sys.exit`.
        return False, BackendError(f"It ended its process with exit code {end.code}.")
    except BaseException as error:
        return False, error


_written_to = [-1]


def _redirect_output(descriptor: int) -> None:
    """Redirect standard output and standard error to an open file."""
    if _written_to[0] != descriptor:
        _written_to[0] = descriptor
        for output in (1, 2):
            os.dup2(descriptor, output)


def _message(answer: tuple[bool | None, Any], lines: Sequence[tuple[str, int]]) -> Message:
    """Return an answer as a message; as text if it cannot be pickled."""
    try:
        return Message((*answer, lines))
    except Exception as error:
        text = f"The subprocess cannot return its result: {_describe_error(error)}."
        if answer[0] is False:
            text = _describe_error(answer[1])
        return Message((False, BackendError(text), lines))


def _describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception as text."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
