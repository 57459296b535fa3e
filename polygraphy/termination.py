"""How ctrl-C and SIGTERM end the programs of this package, and what they must not end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["end_program", "undisturbed"]

_EXIT_TERMINATED = 143


def end_program(number: int, frame: Any) -> NoReturn:
    """End as after an exception, so that temporary files are removed: the handler of SIGTERM.

    Whoever finds this one set knows that nothing but the end of the process is asked for.
    """
    sys.exit(_EXIT_TERMINATED)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off ctrl-C and SIGTERM until the block is over, which has to be soon."""
    if threading.current_thread() is not threading.main_thread():
        yield  # No handler runs here.
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
