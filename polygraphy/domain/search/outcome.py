"""What a test answers."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """The answer of a test: it passed, it failed, or that is unknown."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"
