"""Calls functions in separate processes, so that a crash does no harm."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from polygraphy.adapters.os.forks import is_fork_safe
from polygraphy.adapters.processes import forked
from polygraphy.adapters.processes.warm_process import WarmProcess

T = TypeVar("T")


def call_isolated(
    function: Callable[[], T],
    *,
    what: str,
    timeout: float | None = None,
    is_silent: bool = False,
    memory: int | None = None,
) -> T:
    """Return the result of a function called in a separate process.
    Raise BackendError if that crashes.

    The process is a fork, which pickles no arguments, unless a library in this process does not
    survive forking: then it is a new process if the function can be pickled, else a fork in which
    that library raises an error. Only forks have a memory limit: libraries that do not survive one
    reserve more address space than they use.
    """
    if not is_fork_safe() and _can_be_pickled(function):
        process = WarmProcess(what)
        try:
            with process.limit_calls(timeout, is_silent):
                result: T = process.call(function)
                return result
        finally:
            process.close()
    return forked.call_isolated(
        function, what=what, timeout=timeout, is_silent=is_silent, memory=memory
    )


def _can_be_pickled(function: Callable[[], object]) -> bool:
    """Return whether a function can be pickled."""
    try:
        pickle.dumps(function)
    except Exception:
        return False
    return True
