"""Signals that come while the first thread is in a library.

Python handles signals in its first thread, between two steps of its own; while that thread is in a
library, ctrl-C and SIGTERM do nothing. So another thread hears of them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_NONE = -1


def hearing(hear: Callable[[int], None], call: Callable[[], T]) -> T:
    """Return what a call returns, and hear of the signals that come meanwhile, without waiting for
    their handlers.

    It is not a context manager, because a handler that raises must not find anything left open,
    wherever it does.

    Args:
        hear: is called in another thread with the number of each signal that has a handler in
            Python, as it comes, for the last time before this returns.
        call: gives up Python's lock while it waits. In other threads than the first, where no
            signal is handled, it is only made.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return call()
    heard, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(heard, before, hear), daemon=True)
    listener.start()
    try:
        try:
            return call()
        finally:
            signal.set_wakeup_fd(before)
    finally:
        signal.set_wakeup_fd(before)  # The handler may have raised before the first time.
        os.close(written)
        listener.join()
        os.close(heard)


def _listen(heard: int, others: int, hear: Callable[[int], None]) -> None:
    while numbers := os.read(heard, 16):
        if others != _NONE:  # Such as an event loop, which hears of signals in the same way.
            with suppress(OSError):
                os.write(others, numbers)
        for number in numbers:
            hear(number)
