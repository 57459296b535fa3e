"""Brings a process back to what it was before a command of this package ran in it.

A fork that has run a command has copied the pages that commands write to, and the next command in
it takes a third of the CPU time of one in a new fork. What commands leave behind is known: it is
restored, or the process ends.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

__all__ = ["ProcessState"]

_BOUND = ("stdin", "stdout", "stderr", "excepthook", "unraisablehook")
_CONTAINERS = (dict, list, set)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
_THREADS = ("MainThread", "signals")
_LISTENING = "polygraphy.adapters.os.signals"
"""The thread that waits for signals, and its module, serve all commands of a process."""


class ProcessState:
    """What the next command in a process would notice of an earlier one.

    Attributes:
        modules: how many modules are imported.
    """

    def __init__(self) -> None:
        """Store the state of the process."""
        self._bound = {name: getattr(sys, name) for name in _BOUND}
        self._path, self._finders = sys.path[:], sys.meta_path[:]
        self._filters = warnings.filters[:]
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self.modules = len(sys.modules)
        self._containers = [(value, value.copy()) for value in _module_containers()]

    def restore(self) -> bool:
        """Restore the state; return whether the process may run another command."""
        if len(sys.modules) > self.modules or _has_children():
            return False
        if any(thread.name not in _THREADS for thread in threading.enumerate()):
            return False
        for name, bound in self._bound.items():
            setattr(sys, name, bound)
        sys.path[:], sys.meta_path[:] = self._path, self._finders
        warnings.filters[:] = self._filters  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for value, before in self._containers:
            if value != before:
                value.clear()
                (value.extend if isinstance(value, list) else value.update)(before)
        # An interpreter that ends calls finalizers once, and no later ones.
        weakref.finalize._shutdown = False  # type: ignore[attr-defined]
        weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
        return True

    @staticmethod
    def keep_collecting_garbage() -> None:
        """Let commands that end leave their garbage to the collector."""
        gc.freeze = lambda: None  # type: ignore[assignment]


def _module_containers() -> list[Any]:
    """Return the lists, sets and dictionaries of the modules of this package."""
    return [
        value
        for module_name, module in sys.modules.items()
        if module_name.startswith("polygraphy.") and module_name != _LISTENING
        for name, value in vars(module).items()
        if isinstance(value, _CONTAINERS) and not name.startswith("__")
    ]


def _has_children() -> bool:
    """Return whether this process has child processes."""
    return any(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
