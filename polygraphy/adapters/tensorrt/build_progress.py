"""How far a build is, and ctrl-C and SIGTERM while TensorRT builds.

TensorRT tells a progress monitor what it does, and stops when that says so. It loses an exception
that goes through it, so ctrl-C and SIGTERM are only noted while it builds, and handled when it has
stopped. TensorRT 8.6 has no monitors, and builds to its end: ctrl-C ends the process the second
time, SIGTERM at once, so that a build that takes too long can be given up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from polygraphy.adapters.tensorrt.capabilities import capabilities
from polygraphy.adapters.tensorrt.module import ModuleKey, tensorrt_module
from polygraphy.ports.binding import resolve
from polygraphy.ports.progress import Progress

__all__ = ["build_watched"]

_ENDING = (signal.SIGINT, signal.SIGTERM)
_CANNOT_STOP = "TensorRT cannot be stopped; ctrl-C again ends the process"


@contextmanager
def build_watched(config: Any) -> Iterator[None]:
    """Show how far the build inside the block is, and end it at ctrl-C or SIGTERM.

    A configuration that has a progress monitor keeps it: that one alone is told then what is done,
    and decides about the end. Like with TensorRT 8.6, SIGTERM ends the process then.

    Raises:
        KeyboardInterrupt: ctrl-C was pressed; the build has ended.
        SystemExit: or whatever else the handler of SIGTERM raises, likewise.
    """
    can_stop = capabilities().has("progress_monitor") and config.progress_monitor is None
    with (
        resolve(Progress).watch("Building engine") as tell,
        _signals_noted(can_stop, tell) as noted,
    ):
        if not can_stop:
            yield
            return
        monitor = _monitor_class(ModuleKey(tensorrt_module()))(tell, noted)
        config.progress_monitor = monitor
        try:
            yield
        finally:
            config.progress_monitor = None


@contextmanager
def _signals_noted(can_stop: bool, tell: Callable[[str], None]) -> Iterator[list[int]]:
    """Note, in the list that is given, which signals came that ask for the end, and handle the
    first of them after the block; in other threads than the first one, where none arrives, nothing.

    Args:
        can_stop: whether the build ends soon when one has been noted.
        tell: is told what comes of the first one.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        if number == signal.SIGTERM and not can_stop:
            _handled_at_once(before[number], frame)
            return
        noted.append(number)
        if len(noted) == 1:
            tell("stopping" if can_stop else _CANNOT_STOP)
        else:  # Whoever asks again does not want to wait.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noted:
            before[noted[0]](noted[0], None)


def _handled_at_once(handler: Callable[[int, Any], Any], frame: Any) -> None:
    """Call a handler of SIGTERM, and end the process if that is what it asks for."""
    try:
        handler(signal.SIGTERM, frame)
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(1 if isinstance(end.code, str) else int(end.code or 0))


@lru_cache(maxsize=8)
def _monitor_class(key: ModuleKey) -> Any:
    base: Any = key.module.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]
        """Tells what TensorRT does; called by it, from any thread."""

        def __init__(self, tell: Callable[[str], None], noted: list[int]) -> None:
            base.__init__(self)
            self._tell = tell
            self._noted = noted
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Begin a part of the build."""
            self._steps[phase_name] = num_steps
            self._tell_unless_noted(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Take a step in it; return whether the build goes on."""
            steps = self._steps.get(phase_name, 0)
            self._tell_unless_noted(f"{phase_name} ({step + 1} of {steps})")
            return not self._noted

        def phase_finish(self, phase_name: str) -> None:
            """End that part."""

        def _tell_unless_noted(self, part: str) -> None:
            if not self._noted:
                self._tell(part)

    return Monitor
