"""Mistakes on the command line."""

from __future__ import annotations

import sys


class BadValue(ValueError):
    """A word that is no value of an option; the message says why, without naming the option."""


class CommandLineError(Exception):
    """A command line that cannot be meant: exit code 2. `usage` is the command that it is about."""

    exit_code = 2

    def __init__(self, message: str, usage: str = "polygraphy") -> None:
        super().__init__(message)
        self.usage = usage


def warn(text: str) -> None:
    """Tell about options that have no effect; on standard error, because a program may go to
    standard output.
    """
    sys.stderr.write(f"[W] {text}\n")


def inform(text: str) -> None:
    """Tell what was decided without being asked, likewise."""
    sys.stderr.write(f"[I] {text}\n")
