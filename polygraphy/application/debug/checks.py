"""What decides whether an iteration passed: a command, or a person."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath

from polygraphy.domain.errors import UsageError
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.check_rules import (
    CANNOT_START,
    SKIP_CODE,
    CheckRules,
    Failure,
    Finished,
    critical_line,
)
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.running import Commands, Questions

_OURS = "polygraphy"
_ANSWERS = {
    **dict.fromkeys(("p", "pass", "passed", "good", "y", "yes"), Outcome.GOOD),
    **dict.fromkeys(("f", "fail", "failed", "bad", "n", "no"), Outcome.BAD),
    **dict.fromkeys(("s", "skip"), Outcome.UNRESOLVED),
}


class CheckCommand:
    """Runs a command, and judges by how it ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        fail_codes: Collection[int] = (),
        ignored_codes: Collection[int] = (),
        fail_regex: Iterable[str] = (),
        skip_codes: Collection[int] = (SKIP_CODE,),
        show_output: bool = False,
        hide_fail_output: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Say which command, and which of its ends are failures.

        Args:
            command: a program and its arguments; no shell takes part. ``polygraphy`` is this
                package, in the same interpreter.
            fail_codes: the only exit codes that are failures; unless given, all but 0 are, and but
                for 126 and 127, and 2 of a command of this package: with these a check ends that
                cannot be run.
            ignored_codes: exit codes that are none.
            fail_regex: regular expressions, of which what the command writes has to match one for
                a failure. Without `fail_codes`, a match is a failure although the command ends
                with 0.
            skip_codes: exit codes that say neither.
            show_output: whether what it writes is shown, too, when it passes.
            hide_fail_output: whether it is not shown when it fails.
            timeout: how long it may take, in seconds; then it is stopped, as if it had ended with
                exit code 124.

        Raises:
            UsageError: the command is empty, a regular expression is none, or codes exclude each
                other.
        """
        if not command:
            raise UsageError("The check command is empty.", hint="Name a program.")
        self._command = list(command)
        self._rules = CheckRules(
            fail_codes, ignored_codes, fail_regex, skip_codes, is_ours=_is_ours(self._command)
        )
        self._shows = {
            Outcome.GOOD: show_output,
            Outcome.BAD: not hide_fail_output,
            Outcome.UNRESOLVED: not hide_fail_output,
        }
        self._timeout = timeout
        self._failed_with: list[int] = []
        self._has_run = False
        self._is_held = False
        self._first: Failure | None = None
        self._may_be_others = not fail_codes and not self._rules.patterns
        resolve(Commands).prepare(self._command)

    def __call__(self) -> Outcome:
        """Run the command.

        Raises:
            UsageError: there is no such program, or it cannot check anything.
        """
        G_LOGGER.info(f"Running check command: {shlex.join(self._command)}")
        finished = resolve(Commands).run(self._command, timeout=self._timeout)
        if self._rules.is_broken(finished):
            return self._broken(finished)
        self._has_run = True
        outcome = self._rules.outcome(finished)
        if outcome is Outcome.BAD and self._is_other(finished):
            outcome = Outcome.UNRESOLVED
        if self._shows[outcome] and finished.output:
            G_LOGGER.info(f"---- Output of the check ----\n{finished.output.rstrip()}")
        G_LOGGER.verbose(f"The check {self._told(finished)}")
        if outcome is Outcome.BAD and self._may_be_others:
            self._compare(finished.code)
        return outcome

    def hold_to_first_failure(self) -> None:
        """Judge from now on that only a failure like the first one is one; another is unresolved,
        unless exit codes or patterns say which failures count.
        """
        self._is_held = True

    def _broken(self, finished: Finished) -> Outcome:
        """Stop at a check that never worked; what one that did work cannot check is unresolved."""
        reason = f": {_ended(critical_line(finished.output))}" if finished.output.strip() else "."
        text = f"The check ended with exit code {finished.code}, which is no failure of the model"
        if self._has_run and finished.code not in CANNOT_START:
            G_LOGGER.warning(f"{text}{reason}")
            return Outcome.UNRESOLVED
        raise UsageError(
            f"{text}{reason}",
            hint=f"Mend the command, or say that it is one with --fail-code {finished.code}.",
        )

    def _is_other(self, finished: Finished) -> bool:
        """Return whether this is another failure than the first one, where that matters."""
        if not self._is_held or not self._may_be_others:
            return False
        failure = Failure.of(finished, is_ours=self._rules.is_ours)
        if self._first is None:
            self._first = failure
        if failure.is_like(self._first):
            return False
        G_LOGGER.warning(
            f"This is another failure than the first one: {self._of(finished)}. It counts as"
            " unresolved; --fail-code or --fail-regex tell which failures count."
        )
        return True

    @staticmethod
    def _of(finished: Finished) -> str:
        line = critical_line(finished.output)
        return f"exit code {finished.code}" + (f", {line.rstrip('.')}" if line else "")

    def _compare(self, code: int) -> None:
        """Say, once, that a failure ended with another exit code than the first."""
        if code in self._failed_with:
            return
        self._failed_with.append(code)
        first = self._failed_with[0]
        if code != first:
            G_LOGGER.warning(
                f"This failure ended with exit code {code}, the first one with {first}: it may be"
                " another failure. --fail-code or --fail-regex tell which one counts."
            )

    def _told(self, finished: Finished) -> str:
        if finished.timed_out:
            return f"took longer than {self._timeout:g} s and was stopped."
        return f"ended with exit code {finished.code} after {finished.seconds:.3f} s."


def _ended(line: str) -> str:
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _is_ours(command: Sequence[str]) -> bool:
    """Return whether a command is one of this package: by its name, or as a module of Python."""
    name = PurePath(command[0]).stem.lower()
    return name == _OURS or (name.startswith("python") and list(command[1:3]) == ["-m", _OURS])


class AskUser:
    """Asks the person at the terminal."""

    def __init__(self, otherwise: CheckCommand | None = None) -> None:
        """Say what decides where nobody is there.

        Args:
            otherwise: takes the place of the person where standard input is no terminal; without
                it, answers are read from there all the same.
        """
        self._otherwise = otherwise

    def hold_to_first_failure(self) -> None:
        """As of the check that takes the person's place."""
        if self._otherwise is not None:
            self._otherwise.hold_to_first_failure()

    def __call__(self) -> Outcome:
        """Ask until the answer is understood.

        Raises:
            CheckFailedError: nobody answers.
        """
        questions = resolve(Questions)
        if self._otherwise is not None and not questions.can_ask():
            return self._otherwise()
        question = "Did this iteration [p]ass or [f]ail? ([s]kip if that cannot be told)"
        while True:
            answer = questions.ask(question)
            if answer.lower() in _ANSWERS:
                return _ANSWERS[answer.lower()]
            G_LOGGER.warning(f"{answer!r} is no answer: type p, f or s.")
