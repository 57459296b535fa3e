"""Mistakes on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


class BadValue(ValueError):
    """An invalid value of an option; the message gives the reason, without the option.

    Attributes:
        flag: the flag of the value, if an option has several flags; else empty.
    """

    def __init__(self, message: str, flag: str = "") -> None:
        """Create the error; `flag` is the flag in its message, if known."""
        super().__init__(message)
        self.flag = flag


class CommandLineError(Exception):
    """An invalid command line: exit code 2. `usage` is the affected command; by default the one
    that runs."""

    exit_code = 2

    def __init__(self, message: str, usage: str = "") -> None:
        """Create the error; `usage` is the affected command."""
        super().__init__(message)
        self.usage = usage


_said: list[str] = []
"""The warnings and notes of this command line."""


def warn(text: str) -> None:
    """Write a warning about options without effect to standard error."""
    _print_message(f"[W] {text}")


def warn_of_idle_flags(flags: Sequence[str], why: str) -> None:
    """Write a warning about flags without effect, if there are any;
    `why` continues the sentence."""
    if flags:
        warn(f"{', '.join(flags)}: has no effect{why}.")


def inform(text: str) -> None:
    """Write a note about a default decision to standard error."""
    _print_message(f"[I] {text}")


def message_count() -> int:
    """Return the number of warnings and notes about this command line."""
    return len(_said)


def were_mentioned(flags: Iterable[str], since: int = 0) -> bool:
    """Return whether a warning or note after the first `since` messages mentioned one of some
    flags."""
    named = {word.rstrip(",:.") for text in _said[since:] for word in text.split()}
    return not named.isdisjoint(flags)


def forget_messages() -> None:
    """Forget the warnings and notes about earlier command lines."""
    _said.clear()


def _print_message(text: str) -> None:
    """Write a message to standard error, and remember it."""
    _said.append(text)
    from polygraphy.logger.sinks import escape_controls

    sys.stderr.write(f"{escape_controls(text)}\n")
