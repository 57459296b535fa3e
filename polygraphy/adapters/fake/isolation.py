"""An isolation without walls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineIsolation:
    """Calls functions right here, and remembers what for; fails instead for what it is set to.

    Attributes:
        calls: what was called, with the time it was allowed.
    """

    def __init__(self, crashes: dict[str, Exception] | None = None) -> None:
        """Map what is being done to the error that it ends with."""
        self.calls: list[tuple[str, float | None]] = []
        self._crashes = crashes or {}

    def call(self, function: Callable[[], T], *, what: str, timeout: float | None = None) -> T:
        """Call a function, or raise the error that was prepared for it."""
        self.calls.append((what, timeout))
        if what in self._crashes:
            raise self._crashes[what]
        return function()
