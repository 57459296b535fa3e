"""The check of an iteration: a command, or a person."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.catalog.reports import FAULTS_VARIABLE
from polygraphy.domain.errors import UsageError
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.check_rules import (
    CANNOT_START,
    SKIP_CODE,
    CheckResult,
    CheckRules,
    CommandEnd,
    Failure,
    critical_line,
    reason_of,
)
from polygraphy.domain.tensors.naming import escape_command
from polygraphy.logger import G_LOGGER
from polygraphy.ports.running import Commands, RunningCommand, ask, can_ask
from polygraphy.ports.storage import read_text, remove_path, temporary_path

_OURS = "polygraphy"
_ANSWERS = {
    **dict.fromkeys(("p", "pass", "passed", "good", "y", "yes"), Outcome.GOOD),
    **dict.fromkeys(("f", "fail", "failed", "bad", "n", "no"), Outcome.BAD),
    **dict.fromkeys(("s", "skip"), Outcome.UNRESOLVED),
}


class CheckCommand:
    """Runs a command, and decides from its exit code and output whether the check passed."""

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
        runs: int = 1,
    ) -> None:
        """Set the command, and the rules that decide which ends are failures.

        Args:
            command: a program and its arguments, run without a shell. ``polygraphy`` is this
                package, in the same interpreter.
            fail_codes: the exit codes that count as failures (default: all but 0). Exit codes 126
                and 127, and 2 from a command of this package, mean that the check cannot run.
            ignored_codes: exit codes that do not count as failures.
            fail_regex: regular expressions, one of which the output must match for a failure.
                Without `fail_codes`, a match is a failure even if the exit code is 0.
            skip_codes: exit codes that leave the check unresolved.
            show_output: whether to show the output of the command at any verbosity.
            hide_fail_output: whether to hide the output of a failed command at any verbosity.
            timeout: time limit in seconds; a command that exceeds it is stopped, and counts as exit
                code 124.
            runs: number of runs while it passes, for intermittent failures.

        Raises:
            UsageError: the command is empty, a regular expression is invalid, or exit codes
                contradict each other.
        """
        if not command:
            raise UsageError("The check command is empty.", hint="Add a command.")
        self._command = list(command)
        self._rules = CheckRules(
            fail_codes, ignored_codes, fail_regex, skip_codes, is_ours=_is_ours(self._command)
        )
        self._shows, self._hides = show_output, hide_fail_output
        self._timeout = timeout
        self._runs = runs
        self._failed_with: list[int] = []
        self._has_run = False
        self._is_held = False
        self._first: Failure | None = None
        self._may_be_others = not fail_codes and not self._rules.patterns
        resolve(Commands).prepare(self._command)

    def __str__(self) -> str:
        """Return the command line."""
        return shlex.join(self._command)

    def __call__(self) -> Outcome:
        """Run the command and return the outcome.

        Raises:
            UsageError: the program does not exist, or cannot check anything.
        """
        return self.start().wait().outcome

    def start(
        self,
        *,
        folder: str | None = None,
        replacements: Mapping[str, str] | None = None,
        in_new_process: bool = False,
    ) -> RunningCheck:
        """Start the command, and return the running check; several may run in parallel.

        Args:
            folder: its working directory (default: the current folder).
            replacements: texts in the command that are replaced, such as paths.
            in_new_process: whether a command of this package also gets a new interpreter.

        Raises:
            UsageError: the program does not exist.
        """
        words = self._command
        for old, new in (replacements or {}).items():
            words = [word.replace(old, new) for word in words]
        return RunningCheck(self, words, folder, in_new_process=in_new_process)

    def hold_to_first_failure(self, failure_facts: Mapping[str, Any] | None = None) -> None:
        """Count only failures like the first one (or like `failure_facts`) from now on.
        Others are unresolved, unless exit codes or patterns define failures.

        Args:
            failure_facts: the first failure, from `first_failure` (default: the next failure).
        """
        self._is_held = True
        self._first = None if failure_facts is None else Failure.from_facts(failure_facts)

    def first_failure(self) -> Mapping[str, Any] | None:
        """Return the first failure as plain values; None before one occurs."""
        return None if self._first is None else self._first.facts()

    @property
    def runs(self) -> int:
        """Return the maximum number of runs for one answer."""
        return self._runs

    def begin(
        self, words: Sequence[str], folder: str | None, path: str, *, in_new_process: bool
    ) -> RunningCommand:
        """Start the command and return it while it runs; it writes the failed outputs to `path`."""
        G_LOGGER.verbose(f"Running check command: {escape_command(shlex.join(words))}")
        return resolve(Commands).start(
            words,
            timeout=self._timeout,
            folder=folder,
            environment={FAULTS_VARIABLE: path},
            in_new_process=in_new_process,
        )

    def judge(self, finished: CommandEnd, outputs: Mapping[str, float | None]) -> CheckResult:
        """Return the answer for a finished command.

        Args:
            finished: the finished process.
            outputs: the failed outputs, see `Failure`.

        Raises:
            UsageError: the check never worked.
        """
        if self._rules.is_broken(finished):
            return self._stop_or_unresolved(finished)
        self._has_run = True
        outcome, reason = self._rules.outcome(finished), ""
        if outcome is Outcome.BAD:
            failure = Failure.of(finished, is_ours=self._rules.is_ours, outputs=outputs)
            reason = reason_of(finished, failure)
            if self._is_other(failure):
                outcome, reason = Outcome.UNRESOLVED, f"different failure: {reason}"
                if self._first is not None and failure.lacks_only_partners(self._first):
                    outcome, reason = Outcome.GOOD, ""
        if finished.output and not (self._hides and outcome is not Outcome.GOOD):
            show = G_LOGGER.info if self._shows else G_LOGGER.verbose
            show(f"---- Output of the check ----\n{finished.output.rstrip()}")
        G_LOGGER.verbose(f"The check {self._ending(finished)}")
        if outcome is Outcome.BAD and self._may_be_others:
            self._warn_of_other_code(finished.code)
        return CheckResult(outcome, reason, finished.output)

    def _stop_or_unresolved(self, finished: CommandEnd) -> CheckResult:
        """Raise an error if no check ever worked; else return "unresolved"."""
        reason = (
            f": {_end_sentence(critical_line(finished.output))}" if finished.output.strip() else "."
        )
        text = f"The check ended with exit code {finished.code}, which does not count as a failure"
        if self._has_run and finished.code not in CANNOT_START:
            G_LOGGER.verbose(f"{text}{reason}")
            words = f"it cannot be checked{reason}".rstrip(".")
            return CheckResult(Outcome.UNRESOLVED, words, finished.output)
        raise UsageError(
            f"{text}{reason}",
            hint="Fix the command, or count this exit code as a failure with --fail-code"
            f" {finished.code}.",
        )

    def _is_other(self, failure: Failure) -> bool:
        """Return whether this failure differs from the first, if that matters."""
        if not self._is_held or not self._may_be_others:
            return False
        if self._first is None:
            self._first = failure
        return not failure.is_like(self._first)

    def _warn_of_other_code(self, code: int) -> None:
        """Log, once, that a failure has a different exit code than the first one."""
        if code in self._failed_with:
            return
        self._failed_with.append(code)
        first = self._failed_with[0]
        if code != first and not self._is_held:
            G_LOGGER.warning(
                f"This failure exited with code {code}, the first failure with {first}, so it may"
                " be a different failure. Choose with --fail-code or --fail-regex."
            )

    def _ending(self, finished: CommandEnd) -> str:
        """Return the clause on how a command ended."""
        if finished.timed_out:
            return f"took longer than {self._timeout:g} s and was stopped."
        return f"ended with exit code {finished.code} after {finished.seconds:.3f} s."


class RunningCheck:
    """A check that is running."""

    def __init__(
        self, check: CheckCommand, words: Sequence[str], folder: str | None, *, in_new_process: bool
    ) -> None:
        """Start the command of a check in a folder."""
        self._check = check
        self._words = words
        self._folder = folder
        self._in_new_process = in_new_process
        self._running, self._faults = self._start()

    def wait(self) -> CheckResult:
        """Wait for the end and return the answer.
        A passing check that fails intermittently is repeated.

        Raises:
            UsageError: the command cannot check anything.
        """
        judge = self._judge()
        for _ in range(self._check.runs - 1):
            if judge.outcome is Outcome.BAD:
                break
            self._running, self._faults = self._start()
            again = self._judge()
            if again.outcome is not Outcome.GOOD or judge.outcome is Outcome.GOOD:
                judge = again
        return judge

    def stop(self) -> None:
        """Stop the command, because its result is not needed."""
        self._running.stop()
        remove_path(self._faults)

    def _start(self) -> tuple[RunningCommand, str]:
        """Start the command; return it and the path of the file for its failed outputs."""
        path = temporary_path()
        try:
            running = self._check.begin(
                self._words, self._folder, path, in_new_process=self._in_new_process
            )
        except BaseException:
            remove_path(path)
            raise
        return running, path

    def _judge(self) -> CheckResult:
        """Wait for the command, and return the result of the check."""
        try:
            finished = self._running.wait()
            outputs = _outputs_of(read_text(self._faults))
        finally:
            remove_path(self._faults)
        return self._check.judge(finished, outputs)


def _outputs_of(text: str) -> dict[str, float | None]:
    """Return the failed outputs with errors, from the last program that compared any."""
    lines = [json.loads(line) for line in text.splitlines()]
    return lines[-1] if lines else {}


def _end_sentence(line: str) -> str:
    """Return a line that ends with a period, unless it ends with a mark already."""
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _is_ours(command: Sequence[str]) -> bool:
    """Return whether a command runs this package, by name or as a module."""
    name = PurePath(command[0]).stem.lower()
    return name == _OURS or (name.startswith("python") and list(command[1:3]) == ["-m", _OURS])


class AskUser:
    """Asks the person at the terminal whether an artifact works.

    Attributes:
        artifact: the file that the answer is about, if there is one; `Iterations` sets it.
    """

    artifact: str | None = None

    def __init__(self, otherwise: CheckCommand | None = None) -> None:
        """Set the check that decides if no user is present.

        Args:
            otherwise: the check to use if standard input is not a terminal; without it, answers are
                read from standard input anyway.
        """
        self._otherwise = otherwise

    def check(self) -> CheckResult:
        """Return the answer of the user, or of the replacement program."""
        if self._otherwise is not None and not can_ask():
            return self._otherwise.start().wait()
        return CheckResult(self())

    def __call__(self) -> Outcome:
        """Ask until the answer is valid, and return the outcome.

        Raises:
            CheckFailedError: no user answers.
        """
        if self._otherwise is not None and not can_ask():
            return self._otherwise()
        question = "Did this iteration [p]ass or [f]ail? ([s]kip if you do not know)"
        if self.artifact is not None:
            question = f"Check {self.artifact}. {question}"
        while True:
            answer = ask(question)
            if answer.lower() in _ANSWERS:
                return _ANSWERS[answer.lower()]
            G_LOGGER.warning(f"{answer!r} is not a valid answer: type p, f or s.")
