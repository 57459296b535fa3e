"""What the end of a check command says about what it checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from attrs import field, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.searches.outcome import Outcome

__all__ = ["SKIP_CODE", "TIMED_OUT", "CheckRules", "Finished"]

SKIP_CODE = 125
"""The exit code that says "cannot be told", as for ``git bisect run``."""

TIMED_OUT = 124
"""The exit code of a command that took too long, as ``timeout`` gives it."""


@frozen
class Finished:
    """How a command ended.

    Attributes:
        code: its exit code; the negative number of the signal that ended it.
        output: what it wrote, to standard output and standard error together.
        seconds: how long it took.
        timed_out: whether it was stopped because it took too long.
    """

    code: int
    output: str
    seconds: float = 0.0
    timed_out: bool = False


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(_pattern, patterns))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{text!r} is no regular expression: {error}.",
            hint="A backslash in front of a special character makes it stand for itself.",
        ) from error


@frozen
class CheckRules:
    """Which ends of a command are failures.

    Attributes:
        fail_codes: the only exit codes that are failures, if there are any; else all but 0 are.
        ignored_codes: exit codes that are none.
        patterns: regular expressions, of which the output has to match one for a failure. Without
            `fail_codes`, a match is a failure whatever the exit code is, but for ignored ones.
        skip_codes: exit codes that say neither.
    """

    fail_codes: Collection[int] = ()
    ignored_codes: Collection[int] = ()
    patterns: tuple[re.Pattern[str], ...] = field(default=(), converter=_compiled)
    skip_codes: Collection[int] = (SKIP_CODE,)

    def __attrs_post_init__(self) -> None:
        if self.fail_codes and self.ignored_codes:
            raise UsageError("Codes that fail and codes that are ignored exclude each other.")

    def outcome(self, finished: Finished) -> Outcome:
        """Return what the end of a command means."""
        code = TIMED_OUT if finished.timed_out else finished.code
        if code in self.fail_codes:
            return self._bad(self._matches(finished.output))
        if code in self.ignored_codes:
            return Outcome.GOOD
        if code in self.skip_codes:
            return Outcome.UNRESOLVED
        if self.fail_codes:
            return Outcome.GOOD
        if self.patterns:
            return self._bad(self._matches(finished.output))
        return self._bad(code != 0)

    def _matches(self, output: str) -> bool:
        return not self.patterns or any(pattern.search(output) for pattern in self.patterns)

    @staticmethod
    def _bad(failed: bool) -> Outcome:
        return Outcome.BAD if failed else Outcome.GOOD
