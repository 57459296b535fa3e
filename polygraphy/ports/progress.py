"""How far a long job is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["Progress"]


class Progress(Protocol):
    """Shows how far jobs are that take many steps, to whoever watches."""

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Follow a job for the length of a `with` block.

        Args:
            what: what the job is called.
            total: how many steps it takes; None where nobody knows.

        Returns:
            A context manager whose value is called after each step.
        """

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Follow a job that somebody else does, for the length of a `with` block: how long it has
        taken, and what is being done.

        Args:
            what: what the job is called.

        Returns:
            A context manager whose value is called, from any thread, with what is done now; it
            need not be.
        """
