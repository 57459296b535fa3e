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
from io import RawIOBase
from typing import TypeVar

__all__ = ["hearing"]

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
    if threading.current_thread() is not threading.main_thread():
        return call()
    heard, written = _pipe()
    before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(heard, before, hear), daemon=True)
    listener.start()
    try:
        try:
            return call()
        finally:
            signal.set_wakeup_fd(before)
    finally:
        signal.set_wakeup_fd(before)  # The handler may have raised before the first time.
        written.close()
        listener.join()
        heard.close()


def _pipe() -> tuple[RawIOBase, RawIOBase]:
    """Return two ends, of which the second one takes signals and never blocks."""
    if os.name == "posix":
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        return os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0)
    import socket  # The only thing that Windows writes signals to; importing it takes a while.

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        return reader.makefile("rb", 0), writer.makefile("wb", 0)


def _listen(heard: RawIOBase, others: int, hear: Callable[[int], None]) -> None:
    while numbers := heard.read(16):
        if others != _NONE:  # Such as an event loop, which hears of signals in the same way.
            with suppress(OSError):
                os.write(others, numbers)
        for number in numbers:
            hear(number)
