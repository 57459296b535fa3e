"""How far a build is, and ctrl-C while TensorRT builds.

TensorRT tells a progress monitor what it does, and stops when that says so. No exception may go
through TensorRT, so ctrl-C is only noted while it builds, and raised when it has stopped. TensorRT
8.6 has no monitors: it builds to its end, unless ctrl-C comes a second time: the process ends then.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from attrs import define

from polygraphy.adapters.tensorrt.capabilities import capabilities
from polygraphy.adapters.tensorrt.module import ModuleKey, tensorrt_module
from polygraphy.ports.binding import resolve
from polygraphy.ports.progress import Progress

__all__ = ["build_watched"]


@contextmanager
def build_watched(config: Any) -> Iterator[None]:
    """Show how far the build inside the block is, and end it when ctrl-C is pressed.

    A configuration that has a progress monitor keeps it: that one alone is told then, and decides
    about the end.

    Raises:
        KeyboardInterrupt: ctrl-C was pressed; the build has ended.
    """
    with resolve(Progress).watch("Building engine") as tell, _interruptions() as pressed:
        if not capabilities().has("progress_monitor") or config.progress_monitor is not None:
            yield
            return
        monitor = _monitor_class(ModuleKey(tensorrt_module()))(tell, pressed)
        config.progress_monitor = monitor
        try:
            yield
        finally:
            config.progress_monitor = None


@define
class _Pressed:
    """How often ctrl-C was pressed."""

    times: int = 0


@contextmanager
def _interruptions() -> Iterator[_Pressed]:
    """Count how often ctrl-C is pressed inside the block, and do what it does afterwards; in other
    threads than the first one, where it does not arrive, nothing.
    """
    pressed = _Pressed()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def note(number: int, frame: Any) -> None:
        pressed.times += 1
        if pressed.times > 1:  # Whoever presses again does not want to wait.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed.times:
            before(signal.SIGINT, None)


@lru_cache(maxsize=8)
def _monitor_class(key: ModuleKey) -> Any:
    base: Any = key.module.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]
        """Tells what TensorRT does; called by it, from any thread."""

        def __init__(self, tell: Callable[[str], None], pressed: _Pressed) -> None:
            base.__init__(self)
            self._tell = tell
            self._pressed = pressed
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            """Begin a part of the build."""
            self._steps[phase_name] = num_steps
            self._tell(phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            """Take a step in it; return whether the build goes on."""
            self._tell(f"{phase_name} ({step + 1} of {self._steps.get(phase_name, 0)})")
            return not self._pressed.times

        def phase_finish(self, phase_name: str) -> None:
            """End that part."""

    return Monitor
