"""Mistakes on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


class BadValue(ValueError):
    """An invalid value of an option; the message gives the reason, without the option.

    Attributes:
        flag: the flag that has the value, where an option has a flag for each; empty otherwise.
    """

    def __init__(self, message: str, flag: str = "") -> None:
        super().__init__(message)
        self.flag = flag


class CommandLineError(Exception):
    """A command line that cannot be meant: exit code 2. `usage` is the command that it is about;
    by default the one that is run.
    """

    exit_code = 2

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


_said: list[str] = []
"""The warnings and notes of this command line."""


def warn(text: str) -> None:
    """Name options that have no effect; on standard error, because a program may go to standard
    output.
    """
    _say(f"[W] {text}")


def warn_idle(flags: Sequence[str], why: str) -> None:
    """Name options that have no effect, if there are any; `why` goes on behind these words."""
    if flags:
        warn(f"{', '.join(flags)}: without effect{why}.")


def inform(text: str) -> None:
    """Name what was decided without being asked; see `warn`."""
    _say(f"[I] {text}")


def message_count() -> int:
    """Return how many warnings and notes there were about this command line."""
    return len(_said)


def was_named(flags: Iterable[str], since: int = 0) -> bool:
    """Return whether a warning or a note has named one of some flags, `since` so many others."""
    named = {word.rstrip(",:.") for text in _said[since:] for word in text.split()}
    return not named.isdisjoint(flags)


def forget_what_was_said() -> None:
    """Forget what was said about other command lines."""
    _said.clear()


def _say(text: str) -> None:
    _said.append(text)
    from polygraphy.logger.sinks import plain

    sys.stderr.write(f"{plain(text)}\n")
