"""Mistakes on the command line."""

from __future__ import annotations

__all__ = ["BadValue", "CommandLineError"]


class BadValue(ValueError):
    """A word that is no value of an option; the message says why, without naming the option."""


class CommandLineError(Exception):
    """A command line that cannot be meant: exit code 2. `usage` is the command that it is about."""

    def __init__(self, message: str, usage: str = "polygraphy") -> None:
        super().__init__(message)
        self.usage = usage
