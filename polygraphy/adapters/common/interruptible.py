"""Calls of libraries that take long, which ctrl-C ends.

Python handles signals in its first thread, between two steps of its own; while that thread is in a
library, ctrl-C and SIGTERM do nothing. So it waits, and another one makes the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field

__all__ = ["interruptible"]

T = TypeVar("T")


@define
class _Outcome(Generic[T]):
    """What a call in another thread returned or raised."""

    value: T | None = None
    error: BaseException | None = None
    done: threading.Event = field(factory=threading.Event)

    def settle(self, call: Callable[[], T]) -> None:
        """Make the call."""
        try:
            self.value = call()
        except BaseException as error:  # The thread that waits raises it.
            self.error = error
        finally:
            self.done.set()


def interruptible(call: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Return what a call returns, and raise what it raises.

    Args:
        call: is made in another thread, if this is the first, where signals are handled.
        cancel: has the call end soon. It is made when a signal handler raises something, such as
            KeyboardInterrupt, which is raised when the call has ended: until then what it uses has
            to stay. What a second signal raises is raised at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: _Outcome[T] = _Outcome()
    threading.Thread(target=outcome.settle, args=(call,), daemon=True).start()
    try:
        outcome.done.wait()
    except BaseException:
        cancel()
        outcome.done.wait()
        raise
    error, outcome.error = outcome.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # Else it would keep itself alive through its frames, and what they use.
    return outcome.value  # type: ignore[return-value]
