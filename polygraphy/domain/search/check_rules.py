"""The meaning of a check command's exit code and messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import isinf, isnan
from typing import Any

from attrs import field, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.search.subsets import Outcome

SKIP_CODE = 125
"""The exit code that says "unknown", as for ``git bisect run``."""

CANNOT_START = frozenset({126, 127})
"""The exit codes with which a shell says that a program cannot be run, or is not there."""

USAGE_CODE = 2
"""The exit code of this package's commands for an invalid command line."""

ERROR_CODE = 3
"""The exit code of this package's commands if a backend, a build or a file failed."""

_ERROR = ": error: "
_CRITICAL = "[!]"
"""Prefix of the last line of a failed command of this package."""

TIMED_OUT = 124
"""The exit code of a command that took too long, as ``timeout`` gives it."""


@frozen
class CommandEnd:
    """The end of a command: exit code, output and time.

    Attributes:
        code: its exit code; the negative number of the signal that ended it.
        output: the text it wrote to standard output and standard error.
        seconds: duration in seconds.
        timed_out: whether it was stopped because it took too long.
    """

    code: int
    output: str
    seconds: float = 0.0
    timed_out: bool = False


def _compile_patterns(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return compiled regular expressions."""
    return tuple(map(_pattern, patterns))


def _pattern(text: str) -> re.Pattern[str]:
    """Return a compiled regular expression; raise UsageError if it is invalid."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{text!r} is not a regular expression: {error}.",
            hint="Escape special characters with a backslash.",
        ) from error


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>")
_WORD = re.compile(r"[A-Za-z]{2,}[.:,;]?")
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit))(?::|$)", re.M)
_ALIKE = 0.7
"""Messages with at least this share of common words mean the same. Chosen, not measured."""


GUESSED = " compared with "
"""Between the names of two outputs that were compared because of their positions alone."""


@frozen
class Failure:
    """The kind of a failed command, to recognize the same failure again.

    Attributes:
        code: its exit code; all signals count as one.
        words: its message without names and numbers; empty if the exit code is enough.
        outputs: by judged output, None if it passed, else the difference: infinity if one side is
            infinite, NaN if it contains NaN. Empty if unknown. An output without a partner of the
            same name is included with `GUESSED` and its partner.
    """

    code: int
    words: frozenset[str] = frozenset()
    outputs: Mapping[str, float | None] = field(factory=dict)

    @classmethod
    def of(
        cls,
        finished: CommandEnd,
        *,
        is_ours: bool,
        outputs: Mapping[str, float | None] | None = None,
    ) -> Failure:
        """Return the kind of failure of a finished command.

        For a command of this package that ended with an error, the message counts; for other
        programs, the kind of the exception that ended them.
        """
        code = TIMED_OUT if finished.timed_out else max(finished.code, -1)
        known_outputs = outputs or {}
        if is_ours and code == ERROR_CODE:
            return cls(code, _words(critical_line(finished.output)), known_outputs)
        if not is_ours and code > 0 and "Traceback" in finished.output:
            return cls(code, frozenset(_RAISED.findall(finished.output)[-1:]), known_outputs)
        return cls(code, outputs=known_outputs)

    @property
    def failed_outputs(self) -> dict[str, float]:
        """Return the failed outputs with their errors."""
        return {name: output for name, output in self.outputs.items() if output is not None}

    def is_like(self, first: Failure) -> bool:
        """Return whether this failure may have the same cause as the first one.
        Different outputs may fail, but not only ones that passed at first, and NaN is no
        difference; outputs without a partner count only if they failed at first."""
        if self.code != first.code:
            return False
        common, all_ = len(self.words & first.words), len(self.words | first.words)
        if common < _ALIKE * all_:
            return False
        kinds = set(map(isnan, first._failures_that_count(first).values()))
        passed = {name for name, output in first.outputs.items() if output is None}
        counting = self._failures_that_count(first).items()
        isnans = {isnan(measured_value) for name, measured_value in counting if name not in passed}
        return not kinds or bool(kinds & isnans)

    def lacks_only_partners(self, first: Failure) -> bool:
        """Return whether all outputs compared by name passed,
        so that only outputs without a partner failed."""
        named = [output for name, output in self.outputs.items() if GUESSED not in name]
        return (
            bool(named)
            and not any(measured_value is not None for measured_value in named)
            and (not self._failures_that_count(first))
        )

    def _failures_that_count(self, first: Failure) -> dict[str, float]:
        """Return the failed outputs, except those that only lack a partner."""
        is_guessed = all(GUESSED in name for name in first.failed_outputs)
        return {
            name: measured_value
            for name, measured_value in self.failed_outputs.items()
            if GUESSED not in name or (is_guessed and name in first.outputs)
        }

    def facts(self) -> dict[str, Any]:
        """Return the failure as plain values for `from_facts`."""
        outputs = {
            name: output if output is None else str(output) for name, output in self.outputs.items()
        }
        return {"code": self.code, "words": sorted(self.words), "outputs": outputs}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Failure:
        """Return the failure that `facts` describe."""
        outputs = {
            name: None if measured_value is None else float(measured_value)
            for name, measured_value in dict(facts.get("outputs", {})).items()
        }
        return cls(int(facts["code"]), frozenset(facts.get("words", ())), outputs)


@frozen
class CheckResult:
    """The outcome of a check, with the reason and the output of its command.

    Attributes:
        outcome: the answer.
        reason: the reason in a few words; empty if it passed.
        output: the output of the check; None if nothing can have been written.
    """

    outcome: Outcome
    reason: str = ""
    output: str | None = None


def reason_of(finished: CommandEnd, failure: Failure) -> str:
    """Return a few lines on how a command failed: the output that differs most, or the error."""
    failing = failure.failed_outputs
    failing = {name: most for name, most in failing.items() if GUESSED not in name} or failing
    if failing:
        name, most = max(failing.items(), key=lambda item: (isnan(item[1]), item[1]))
        if isnan(most):
            return f"{name!r} is not finite"
        return f"{name!r} differs" if isinf(most) else f"{name!r} differs by {most:.2g}"
    if finished.timed_out:
        return "stopped: time limit"
    line = critical_line(finished.output)
    named = f"exit code {finished.code}" if finished.code >= 0 else f"signal {-finished.code}"
    return f"{named}: {line.rstrip('.')}" if failure.words or failure.code == ERROR_CODE else named


def critical_line(output: str) -> str:
    """Return the line that explains the end of a command: its last critical message,
    else its last error, else its last line."""
    lines = output.rstrip().splitlines()
    if _CRITICAL not in output and _ERROR not in output:
        return lines[-1].strip() if lines else ""
    lines = [line.strip() for line in lines if line.strip()]
    reported = [line for line in lines if line.startswith(_CRITICAL)]
    reported = reported or [line for line in lines if _ERROR in line] or lines
    return reported[-1].removeprefix(_CRITICAL).strip() if reported else ""


def _words(message: str) -> frozenset[str]:
    """Return the words of a message without names, numbers, shapes and paths,
    which differ between parts of a model.
    """
    text, before = _QUOTED.sub(" ", message), ""
    while text != before:
        text, before = _BRACKETED.sub(" ", text), text
    matches = (_WORD.fullmatch(word) for word in text.split())
    return frozenset(match[0].rstrip(".:,;").lower() for match in matches if match)


@frozen
class CheckRules:
    """The rules that decide which ends of a command are failures.

    Attributes:
        fail_codes: the only exit codes that are failures, if there are any; else all but 0 are.
        ignored_codes: exit codes that are none.
        patterns: regular expressions, of which the output has to match one for a failure. Without
            `fail_codes`, a match is a failure whatever the exit code is, but for ignored ones.
        skip_codes: exit codes that say neither.
        is_ours: whether the command is one of this package.
    """

    fail_codes: Collection[int] = ()
    ignored_codes: Collection[int] = ()
    patterns: tuple[re.Pattern[str], ...] = field(default=(), converter=_compile_patterns)
    skip_codes: Collection[int] = (SKIP_CODE,)
    is_ours: bool = False

    def __attrs_post_init__(self) -> None:
        """Raise UsageError for contradicting exit codes."""
        if self.fail_codes and self.ignored_codes:
            raise UsageError("Exit codes that fail and exit codes to ignore cannot be combined.")

    def outcome(self, finished: CommandEnd) -> Outcome:
        """Return the outcome of a finished command."""
        code = TIMED_OUT if finished.timed_out else finished.code
        if code in self.fail_codes:
            return self._outcome_of(self._matches(finished.output))
        if code in self.ignored_codes:
            return Outcome.GOOD
        if code in self.skip_codes:
            return Outcome.UNRESOLVED
        if self.fail_codes:
            return Outcome.GOOD
        if self.patterns:
            return self._outcome_of(self._matches(finished.output))
        return self._outcome_of(code != 0)

    def is_broken(self, finished: CommandEnd) -> bool:
        """Return whether a command could not check at all:
        it did not start, or its arguments were invalid. Such an end is no outcome, unless its
        exit code or output is listed."""
        code = finished.code
        if finished.timed_out or code in (*self.fail_codes, *self.ignored_codes, *self.skip_codes):
            return False
        if code not in CANNOT_START and not (self.is_ours and code == USAGE_CODE):
            return False
        return not self.patterns or not self._matches(finished.output)

    def _matches(self, output: str) -> bool:
        """Return whether an output matches a pattern, or there are no patterns."""
        return not self.patterns or any(pattern.search(output) for pattern in self.patterns)

    @staticmethod
    def _outcome_of(failed: bool) -> Outcome:
        """Return BAD for a failed check, else GOOD."""
        return Outcome.BAD if failed else Outcome.GOOD
