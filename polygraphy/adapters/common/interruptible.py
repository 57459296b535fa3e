"""Calls of libraries that take long, which ctrl-C ends.

Python handles signals in its first thread, between two steps of its own; while that thread is in a
library, ctrl-C and SIGTERM do nothing. So another thread hears of them, and tells the library. (To
make the call in another thread instead would take more memory: allocators keep some for each.)
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")

_NONE = -1


def interruptible(call: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what a call returns, and raise what it raises, or KeyboardInterrupt.

    Args:
        call: gives up Python's lock while it waits. In other threads than the first, where no
            signal is handled, it is only made.
        cancel: has the call end soon; it is made in another thread, at each ctrl-C that is going to
            raise KeyboardInterrupt, and at each SIGTERM that Python handles.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return call()
    heard, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(heard, before, cancel), daemon=True)
    watcher.start()
    try:
        try:
            return call()
        finally:
            signal.set_wakeup_fd(before)
    finally:
        signal.set_wakeup_fd(before)  # The handler may have raised before the first time.
        os.close(written)
        watcher.join()
        os.close(heard)


def _watch(heard: int, others: int, cancel: Callable[[], None]) -> None:
    while numbers := os.read(heard, 16):
        if others != _NONE:  # Such as an event loop, which hears of signals in the same way.
            with suppress(OSError):
                os.write(others, numbers)
        if any(map(_ends_call, numbers)):
            cancel()


def _ends_call(number: int) -> bool:
    """Tell whether a signal asks for the end: ctrl-C unless it is handled in another way, and any
    SIGTERM that does not end the process by itself.
    """
    handler = signal.getsignal(number)
    if number == signal.SIGINT:
        return handler is signal.default_int_handler
    return number == signal.SIGTERM and callable(handler)
