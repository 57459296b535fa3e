"""Work that must not take the process down with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Isolation"]

T = TypeVar("T")


class Isolation(Protocol):
    """Calls a function where a crash, or memory that runs out, does no harm to the caller."""

    def call(self, function: Callable[[], T], *, what: str, timeout: float | None = None) -> T:
        """Call a function and hand over what it returns, or raise what it raised.

        Args:
            function: what to call; changes that it makes to objects of the caller are lost.
            what: what is being done, for messages: the name of a runner.
            timeout: how long it may take, in seconds; None for as long as it takes.

        Raises:
            BackendError: it crashed, was killed, or took too long.
        """
