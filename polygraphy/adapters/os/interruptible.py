"""Calls of libraries that take long, which ctrl-C ends.

The call stays in the first thread: allocators keep memory for each thread that makes one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeVar

from polygraphy.adapters.os.signals import hearing
from polygraphy.termination import interrupt_program

T = TypeVar("T")


def interruptible(call: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what a call returns, and raise what it raises, or KeyboardInterrupt.

    Args:
        call: as for `hearing`.
        cancel: has the call end soon; it is made in another thread, at each ctrl-C that is going to
            raise KeyboardInterrupt, and at each SIGTERM that Python handles.
    """

    def hear(number: int) -> None:
        if _ends_call(number):
            cancel()

    return hearing(hear, call)


def _ends_call(number: int) -> bool:
    """Return whether a signal asks for the end: ctrl-C unless it is handled in another way, and any
    SIGTERM that does not end the process by itself.
    """
    handler = signal.getsignal(number)
    if number == signal.SIGINT:
        return handler in (signal.default_int_handler, interrupt_program)
    return number == signal.SIGTERM and callable(handler)
