"""How far a build is, and ctrl-C and SIGTERM while TensorRT builds.

TensorRT tells a progress monitor what it does, and stops when that says so. It loses an exception
that goes through it, so ctrl-C and SIGTERM are only noted while it builds, and handled when it has
stopped. TensorRT 8.6 has no monitors: what it does is read from its log. It builds to its end:
there SIGTERM ends the process at once, so that a build that takes too long can be given up. A
second ctrl-C does so everywhere.

When it compiles a large part of a network, TensorRT may make no call for minutes, and Python
handles no signal: another thread hears of them.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeVar

from polygraphy.adapters.os.last_words import dismiss_witnesses, last_words
from polygraphy.adapters.os.signals import watch_signals
from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.logger import log_listener
from polygraphy.adapters.tensorrt.library.module import ModuleKey, tensorrt_module
from polygraphy.binding import resolve
from polygraphy.ports.reporting import Progress
from polygraphy.termination import end_program

T = TypeVar("T")

_CAN_STOP = "stopping; ctrl-C again ends the process"
_CANNOT_STOP = "TensorRT cannot be stopped; ctrl-C again ends the process"

_CRASHED = "[!] The process ended while TensorRT built an engine: it crashed, or it was killed."

_PARTS = (
    (re.compile(r"^-+ Timing Runner: (.+)"), "timing {}"),
    (re.compile(r"^After (.+): (\d+) layers"), "optimizing the network: {1} layers after {0}"),
)
"""Details that TensorRT logs, which say what it does where it has no progress monitor."""

_PATIENCE = 5.0
"""Seconds that a build has to stop after SIGTERM, half of those until a SIGKILL usually follows."""


def build_watched(config: Any, build: Callable[[], T]) -> T:
    """Return what a build returns, show how far it is, and end it at ctrl-C or SIGTERM.

    A configuration that has a progress monitor keeps it: that one alone hears then what is done,
    and decides about the end. Like with TensorRT 8.6, SIGTERM ends the process then.

    Raises:
        KeyboardInterrupt: ctrl-C was pressed; the build has ended.
        SystemExit: or whatever else the handler of SIGTERM raises, for the same reason.
    """
    can_stop = capabilities().has("progress_monitor") and config.progress_monitor is None
    with resolve(Progress).watch("Building engine") as tell, last_words(_CRASHED):
        signals = _Signals(can_stop, tell)
        if not can_stop:
            with log_listener(partial(_tell_part, tell, signals.have_come)):
                return signals.handled(build)
        monitor = _monitor_class(ModuleKey(tensorrt_module()))(tell, signals.have_come)
        config.progress_monitor = monitor
        try:
            return signals.handled(build)
        finally:
            config.progress_monitor = None


class _Signals:
    """Ctrl-C and SIGTERM during a build, where Python handles them."""

    def __init__(self, can_stop: bool, tell: Callable[[str], None]) -> None:
        """Take what is needed.

        Args:
            can_stop: whether the build ends soon when it is asked to.
            tell: called with what comes of the first signal.
        """
        self._can_stop = can_stop
        self._tell = tell
        self._handlers: dict[int, Callable[[int, Any], Any]] = {}
        self._first: int | None = None  # As the first thread knows, which is to handle it.
        self._heard: list[int] = []  # All of them, as soon as they have come.
        self._patience = threading.Timer(_PATIENCE, partial(_end_as_by, signal.SIGTERM))
        self._patience.daemon = True

    def have_come(self) -> bool:
        """Return whether one has come; from any thread."""
        return bool(self._heard)

    def handled(self, call: Callable[[], T]) -> T:
        """Make a call, and be there for them meanwhile; afterwards, call the handler of the first.

        In other threads than the first one, where none arrives, only make the call.
        """
        if threading.current_thread() is not threading.main_thread():
            return call()
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._handlers = {number: each for number, each in found.items() if callable(each)}
        for number in self._handlers:
            signal.signal(number, self._handle)
        try:
            return watch_signals(self._hear, call)
        finally:
            self._patience.cancel()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            if self._first is not None:
                self._handlers[self._first](self._first, None)

    def _handle(self, number: int, frame: Any) -> None:
        """Be the handler; in the first thread, when TensorRT calls or has ended."""
        if not self._may_wait(number):
            _handle_or_end(self._handlers[number], number, frame)
        elif self._first is None:
            self._first = number

    def _hear(self, number: int) -> None:
        """Do what must not wait for the first thread, in another one."""
        handler = self._handlers.get(number)
        if handler is end_program and not self._may_wait(number):
            _end_as_by(number)
        if handler is None or not self._may_wait(number):
            return  # A handler of the user's may only want to note something, in the first thread.
        self._heard.append(number)
        if len(self._heard) > 1:  # A second signal: the user does not want to wait.
            _end_as_by(number)
        if handler is end_program:
            self._patience.start()
        self._tell(_CAN_STOP if self._can_stop else _CANNOT_STOP)

    def _may_wait(self, number: int) -> bool:
        """Return whether a signal is handled when the build has ended."""
        return self._can_stop or number != signal.SIGTERM


def _tell_part(tell: Callable[[str], None], is_stopping: Callable[[], bool], line: str) -> None:
    """Report what a line of TensorRT's log says about the part of the build that begins."""
    for pattern, form in _PARTS:
        found = pattern.match(line)
        if found is not None and not is_stopping():
            tell(form.format(*(" ".join(group.split()) for group in found.groups())))


def _handle_or_end(handler: Callable[[int, Any], Any], number: int, frame: Any) -> None:
    """Call a handler, and end the process if that is what it asks for."""
    try:
        handler(number, frame)
    except SystemExit as end:
        _end_process(1 if isinstance(end.code, str) else int(end.code or 0))


def _end_as_by(number: int) -> NoReturn:
    """End the process with the exit code that shells give one that a signal has ended."""
    _end_process(128 + number)


def _end_process(code: int) -> NoReturn:
    dismiss_witnesses()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@lru_cache(maxsize=8)
def _monitor_class(key: ModuleKey) -> Any:
    base: Any = key.module.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]
        """Tells what TensorRT does; called by it, from any thread."""

        def __init__(
            self, tell: Callable[[str], None], is_asked_to_stop: Callable[[], bool]
        ) -> None:
            base.__init__(self)
            self._tell = tell
            self._is_asked_to_stop = is_asked_to_stop
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Begin a part of the build."""
            self._steps[phase_name] = num_steps
            self._tell_unless_stopping(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Take a step in it; return whether the build goes on."""
            steps = self._steps.get(phase_name, 0)
            self._tell_unless_stopping(f"{phase_name} ({step + 1} of {steps})")
            return not self._is_asked_to_stop()

        def phase_finish(self, phase_name: str) -> None:
            """End that part."""

        def _tell_unless_stopping(self, part: str) -> None:
            if not self._is_asked_to_stop():
                self._tell(part)

    return Monitor
