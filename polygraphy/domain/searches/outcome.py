"""What a test answers."""

from __future__ import annotations

from enum import Enum

__all__ = ["Outcome"]


class Outcome(Enum):
    """The answer of a test: it passed, it failed, or it cannot be told."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"
