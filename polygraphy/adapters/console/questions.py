"""Questions on the terminal."""

from __future__ import annotations

import sys

from polygraphy.domain.errors import CheckFailedError


def can_ask() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> str:
    """Return the next line of standard input, without surrounding blanks."""
    sys.stdout.write(f"{question} ")
    sys.stdout.flush()
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if not line:
        sys.stdout.write("\n")
        raise CheckFailedError(
            "No answer: standard input has ended.",
            hint="Add --check and a command that fails if the problem is present.",
        )
    return line.strip()
