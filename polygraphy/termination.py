"""How ctrl-C, SIGTERM and a closed terminal (SIGHUP) end the programs of this package, and what
they must not end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = [
    "ENDING_SIGNALS",
    "Termination",
    "count_interrupts",
    "defer_signals",
    "end_on_signals",
    "end_program",
    "interrupt_program",
    "remember_interrupts",
    "was_interrupted",
]

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that ask a program to end."""


class Termination(SystemExit):
    """Ends the program because of a signal.

    Attributes:
        name: the name of the signal.
        is_reported: whether the user was told.
    """

    def __init__(self, number: int) -> None:
        """Set the exit code that shells use for a signal."""
        super().__init__(128 + number)
        self.name = signal.Signals(number).name
        self.is_reported = False


def end_program(number: int, frame: Any) -> NoReturn:
    """Raise SystemExit so that temporary files are removed; the handler of SIGTERM and SIGHUP.

    A caller that finds this one set knows that nothing but the end of the process is asked for.
    """
    raise Termination(number)


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the program; `nohup` and other handlers of SIGHUP stay."""
    for number in ENDING_SIGNALS:
        if number == signal.SIGTERM or signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end_program)


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
    """Return whether ctrl-C was pressed, even if another error replaced the interrupt,
    as extension modules do during import.
    """
    return bool(_interrupts)


def count_interrupts() -> int:
    """Return how often ctrl-C was pressed so far."""
    return len(_interrupts)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Return a context that delays ctrl-C, SIGTERM and SIGHUP until its end; it must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Signal handlers run only in the main thread.
        return
    came: list[int] = []
    numbers = (signal.SIGINT, *ENDING_SIGNALS)
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
