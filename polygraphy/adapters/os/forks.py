"""Libraries whose threads a forked process lacks."""

from __future__ import annotations

import os

from polygraphy.domain.errors import UsageError


class OneProcess:
    """The process in which a library computes: one that is forked of it would wait for ever for
    threads that it does not have, and is refused.
    """

    def __init__(self, library: str) -> None:
        self._library = library
        self._pid: int | None = None

    def enter(self) -> None:
        """Take note that the library is going to compute here.

        Raises:
            UsageError: it did so in the process from which this one was forked.
        """
        if self._pid is None:
            self._pid = os.getpid()
        self.check()

    @property
    def is_entered(self) -> bool:
        """Whether the library has computed here, or was about to."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raise as `enter` does."""
        if self._pid not in (None, os.getpid()):
            raise UsageError(
                f"{self._library} has computed in the process from which this one was forked, and"
                " would wait for its threads for ever.",
                hint=f"Start the processes before anything runs in {self._library}.",
            )
