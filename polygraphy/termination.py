"""How ctrl-C and SIGTERM end the programs of this package, and what they must not end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = [
    "count_interrupts",
    "defer_signals",
    "end_program",
    "interrupt_program",
    "remember_interrupts",
    "was_interrupted",
]

_EXIT_TERMINATED = 143


def end_program(number: int, frame: Any) -> NoReturn:
    """Raise SystemExit so that temporary files are removed; the handler of SIGTERM.

    A caller that finds this one set knows that nothing but the end of the process is asked for.
    """
    sys.exit(_EXIT_TERMINATED)


_interrupts: list[int] = []


def interrupt_program(number: int, frame: Any) -> NoReturn:
    """Raise KeyboardInterrupt, as Python does, and record it; the handler of Ctrl-C."""
    _interrupts.append(number)
    raise KeyboardInterrupt


def remember_interrupts() -> None:
    """Record each ctrl-C, unless another handler is installed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt_program)


def was_interrupted() -> bool:
    """Return whether ctrl-C was pressed, even if another error replaced the interrupt, as extension
    modules do during import.
    """
    return bool(_interrupts)


def count_interrupts() -> int:
    """Return how often ctrl-C was pressed so far."""
    return len(_interrupts)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Return a context that delays ctrl-C and SIGTERM until its end; it must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Signal handlers run only in the main thread.
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number, handler in before.items() if callable(handler)]
    try:
        for number in ours:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        for late in dict.fromkeys(came):
            signal.raise_signal(late)
