"""Who runs commands that check something, and who asks a person instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.check_rules import Finished

__all__ = ["Commands", "Questions"]


class Commands(Protocol):
    """Runs commands."""

    def prepare(self, command: Sequence[str]) -> None:
        """Get ready to run a command soon, as far as that takes no waiting."""

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> Finished:
        """Run a command to its end, without a shell; it reads nothing.

        Args:
            command: the program and its arguments. ``polygraphy`` is the package that this is.
            timeout: how long it may take, in seconds; then it is stopped, with what it started.

        Raises:
            UsageError: there is no such program, or it cannot be run.
        """


class Questions(Protocol):
    """Asks a person."""

    def can_ask(self) -> bool:
        """Tell whether somebody is there."""

    def ask(self, question: str) -> str:
        """Return the line that answers a question.

        Raises:
            CheckFailedError: nothing more will be answered.
        """
