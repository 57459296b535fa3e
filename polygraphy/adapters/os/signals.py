"""Signals that arrive while the main thread is in a library, and calls that they cancel.

Python handles signals in its main thread, between two bytecode instructions; while that thread is
in a library, ctrl-C and SIGTERM do nothing. So another thread receives them. The call stays in the
main thread, because allocators keep memory for each thread.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from polygraphy.termination import ENDING_SIGNALS, interrupt_program

T = TypeVar("T")

_NONE = -1


def watch_signals(on_signal: Callable[[int], None], call: Callable[[], T]) -> T:
    """Return the result of a call.
    `on_signal` gets signals at once, without waiting for their handlers.

    It is not a context manager, because a handler may raise at any point and must leave nothing
    open.

    Args:
        on_signal: called at once with the number of each signal that has a Python handler, in
            another thread; in this thread for signals that arrive as the call ends.
        call: a function that releases the GIL while it waits. In other threads than the main
            thread, which handle no signals, it is only called.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return call()
    listener = _running_listener()
    before = signal.set_wakeup_fd(listener.written, warn_on_full_buffer=False)
    depth = listener.enter(on_signal, before)
    try:
        try:
            return call()
        finally:
            signal.set_wakeup_fd(before)
    finally:
        # Again, because a handler may have raised before the call above.
        signal.set_wakeup_fd(before)
        listener.leave(depth)


class _Listener:
    """The thread that receives signals. It is kept, because starting a thread takes 0.3 ms, and
    several on a busy machine, longer than loading a small model.

    Attributes:
        written: the descriptor to which Python writes the numbers of signals.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self._heard, self.written = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self.written, False)
        self._lock = threading.Lock()
        self._calls: list[tuple[Callable[[int], None], int]] = []
        threading.Thread(target=self._listen, name="signals", daemon=True).start()

    def enter(self, on_signal: Callable[[int], None], before: int) -> int:
        """Register a call and the signal descriptor in use before it; return the number of nested
        calls."""
        with self._lock:
            if before != self.written:
                # Remove calls that remained because a signal handler raised in them.
                self._calls.clear()
            self._calls.append((on_signal, before))
            return len(self._calls) - 1

    def leave(self, depth: int) -> None:
        """Handle the signals received so far, and unregister a call."""
        with self._lock:
            self._notify_calls()
            del self._calls[depth:]

    def _listen(self) -> None:
        """Handle signals one after the other, until the process ends."""
        while select.select([self._heard], [], []):
            with self._lock:
                self._notify_calls()

    def _notify_calls(self) -> None:
        """Notify the calls of signals, inner ones first, and pass signals on to an earlier
        listener, such as an event loop.
        """
        try:
            numbers = os.read(self._heard, 16)
        except BlockingIOError:
            return
        for on_signal, before in reversed(self._calls):
            for number in numbers:
                on_signal(number)
            if before != self.written:
                if before != _NONE and numbers:
                    with suppress(OSError):
                        os.write(before, numbers)
                return

    def detach(self) -> None:
        """Stop listening in a forked process, which lacks the thread.
        Calls in progress keep the descriptors.
        """
        self._lock = threading.Lock()
        self._calls.clear()
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_NONBLOCK)
            for descriptor in (self._heard, self.written):
                os.dup2(nowhere, descriptor, inheritable=False)
            os.close(nowhere)


_listeners: list[_Listener] = []
"""The one of this process, as soon as there was a call."""


def _running_listener() -> _Listener:
    """Return the listener of this process; it is started at the first call."""
    if not _listeners:
        _listeners.append(_Listener())
    return _listeners[0]


def _detach_listener() -> None:
    """Stop using the listener, in a forked process."""
    while _listeners:
        _listeners.pop().detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_listener)


def cancellable(call: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return the result of a call, or raise its exception.
    Ctrl-C calls `cancel` and raises KeyboardInterrupt.

    Args:
        call: as for `watch_signals`.
        cancel: makes the call end soon; called in another thread at each ctrl-C that will raise
            KeyboardInterrupt, and at each SIGTERM that Python handles.
    """

    def on_signal(number: int) -> None:
        """Cancel the call, if a signal ends it."""
        if _ends_call(number):
            cancel()

    return watch_signals(on_signal, call)


def _ends_call(number: int) -> bool:
    """Return whether a signal requests the end:
    Ctrl-C unless it has another handler, and a SIGTERM or SIGHUP that does not end the process by
    itself."""
    handler = signal.getsignal(number)
    if number == signal.SIGINT:
        return handler in (signal.default_int_handler, interrupt_program)
    return number in ENDING_SIGNALS and callable(handler)
