"""The iterations of a search: something is made, checked, sorted by the answer and shown in a table
of few lines; in the simplest search, the same thing again and again.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, Union
from weakref import finalize

from polygraphy.application.debug.checks import AskUser, CheckCommand
from polygraphy.application.debug.side_by_side import Candidate, CheckFolder, Jobs, StartedCheck
from polygraphy.binding import resolve
from polygraphy.domain.calling import optional_method
from polygraphy.domain.errors import InconclusiveError, PolygraphyException, UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.check_rules import CheckResult
from polygraphy.domain.search.debug_replay import DEFAULT_PATH, DebugReplay, IterationRecord
from polygraphy.domain.tensors.naming import count_text, escape_command, path_word
from polygraphy.logger import G_LOGGER
from polygraphy.ports.reporting import Findings
from polygraphy.ports.storage import (
    check_writable,
    copy_file,
    hold_folder,
    load_debug_replay,
    move_into_folder,
    path_exists,
    remove_path,
    save_debug_replay,
    start_label,
    write_scratch,
    write_text,
)

_BESIDE = (".data", ".build.json")
"""Suffixes of files that belong to a model or an engine."""

_SAVED = ("--load-outputs", "--load-results", "--golden", "--golden-outputs")
"""Options with which a check compares with what was saved."""

_KEPT = 500_000
"""Characters of the beginning and of the end of a check's output that are kept."""

_FAILURE = "failure"
"""Under what a replay keeps the first failure, in what was checked."""

_WORDS = {
    Outcome.GOOD: "PASSED",
    Outcome.BAD: "FAILED",
    Outcome.UNRESOLVED: "UNRESOLVED",
}

Check = Callable[[], Outcome]


def _shorten_log(text: str) -> str:
    """Return the beginning and end of a log that is too large to keep."""
    left_out = len(text) - 2 * _KEPT
    if left_out <= 0:
        return text
    return f"{text[:_KEPT]}\n[... {left_out} characters omitted ...]\n{text[-_KEPT:]}"


def _saved_paths(command: str) -> list[str]:
    """Return the first file of each option with which a command compares with saved outputs."""
    words = shlex.split(command)
    paths = []
    for word, following in zip(words, [*words[1:], ""]):
        option, equals, path = word.partition("=")
        if option in _SAVED and (path or following):
            paths.append(path if equals else following)
    return paths


def _count_with_verb(count: int) -> str:
    """Return a count with its verb: ``is 1``, ``are 2``."""
    return f"is {count}" if count == 1 else f"are {count}"


class Iterations:
    """Creates and checks artifacts repeatedly, and records the results.

    Attributes:
        counts: the number of iterations with each outcome.
        unmade: the reasons of iterations in which nothing could be created.
        seconds: duration in seconds.
    """

    def __init__(
        self,
        check: Check,
        artifact: str | None = None,
        *,
        keep_artifact: bool = False,
        artifacts: Sequence[str] = (),
        artifacts_dir: str = "polygraphy_artifacts",
        numbered: Sequence[str] = (),
        results: Sequence[str] = (),
        iter_info: str | None = None,
        load_replay: str | None = None,
        save_replay: str | None = None,
        logs: str = "polygraphy_debug",
        jobs: int = 1,
    ) -> None:
        """Set the check, the artifacts, and the files to keep.

        Args:
            check: the check of the current artifact.
            artifact: the path at which each iteration creates its artifact for the check. It must
                not exist before, and is removed after each iteration.
            keep_artifact: whether the artifact is kept.
            artifacts: files and folders, including those that the check creates, to move into a
                folder ``good`` or ``bad`` after each iteration.
            artifacts_dir: the parent of these folders.
            numbered: files to copy after each iteration, with its number before the extension:
                ``replay.0.json``.
            results: files that are written after the search; the search does not start unless they
                can be written.
            iter_info: the path of a JSON file with the number of the iteration, for the check.
            load_replay: a file of answers; the same iterations are not checked again.
            save_replay: path for the answers after each iteration; `finish` removes the file if it
                has the default name. A file next to it, with ``_skip_current`` in its name, counts
                the running iteration as failed, so that you can continue after a crash.
            logs: a folder for the output of each check: ``00.log`` and so on.
            jobs: the maximum number of parallel checks, in searches that can predict their next
                questions. Each check has its own folder, with links to the contents of the current
                one.

        Raises:
            UsageError: parallel jobs would all get the same number.
        """
        if jobs > 1 and iter_info is not None:
            raise UsageError(
                "Iterations that run in parallel have no number.",
                hint="Use only one of --jobs and --iter-info.",
            )
        self.counts = dict.fromkeys(Outcome, 0)
        self.unmade: list[PolygraphyException] = []
        self._check = check
        if isinstance(check, AskUser):
            check.artifact = artifact
        self._artifact = artifact
        self._keeps = keep_artifact
        self._artifacts = list(artifacts)
        self._folder = artifacts_dir
        self._numbered = list(numbered)
        self._results = list(results)
        self._info = iter_info
        self._load = load_replay
        self._save = save_replay
        self._known: DebugReplay | None = None
        self._replay = DebugReplay()
        self._numbers: dict[str, int] = {}
        self.seconds = 0.0
        self._logs = logs
        self._unlock: list[Callable[[], None]] = []
        self._written: list[str] = []
        self._kept_failure: Mapping[str, Any] | None = None
        self._rows = Rows()
        self._command = check if isinstance(check, CheckCommand) else None
        own_names = [*self._artifact_paths, *self._artifacts, *self._numbered]
        self._jobs = Jobs(self._command, artifact, own_names, str(PurePath(logs) / "jobs"), jobs)

    @property
    def count(self) -> int:
        """Return the number of iterations."""
        return sum(self.counts.values())

    def run(
        self,
        make: Callable[[str], Any] | None = None,
        *,
        suffix: str = "",
        state: Mapping[str, Any] | None = None,
        remaining: int | None = None,
        unmade: Outcome = Outcome.BAD,
        key: Hashable = None,
        ahead: Callable[[int], Sequence[Candidate]] | None = None,
    ) -> Outcome:
        """Create an artifact and return the outcome of its check.

        Args:
            make: creates the artifact at a path (default: no artifact is created).
            suffix: the name of the search, if there are several; each search counts from 0.
            state: the checked state in plain values, which identifies it in a replay.
            remaining: the approximate number of iterations that remain, if known.
            unmade: the outcome if the artifact cannot be created.
            key: its key among candidates.
            ahead: returns up to a number of candidates, one of which is likely to be next; with
                parallel jobs, their checks start now.

        Raises:
            UsageError: the path of the artifact exists.
            FileError: a file of the iteration cannot be read or written.
        """
        self._load_replay()
        number = self._numbers.get(suffix, -1) + 1
        self._numbers[suffix] = number
        remaining_text = (
            "" if remaining is None else f" | Approximately {remaining} iteration(s) remaining"
        )
        title = f"Iteration {number}" + (f" ({suffix})" if suffix else "")
        G_LOGGER.verbose(f"RUNNING | {title}{remaining_text}")
        start = time.perf_counter()
        replay_key, state = DebugReplay.key(number, suffix), dict(state or {})
        checked = self._look_up_answer(replay_key, state)
        if checked is None:
            record = IterationRecord(Outcome.BAD, number, state)
            try:
                self._save_replay(
                    DebugReplay({**self._replay, replay_key: record}), self._skip_path
                )
                if self._info is not None:
                    text = json.dumps({"iteration": number})
                    write_text(self._info, f"{text}\n")
                started = self._jobs.start_check(Candidate(key, make), ahead)
                checked = self._finish_check(started, unmade)
                self._sort_artifacts(started.check_folder, checked.outcome, number, suffix)
                self._jobs.release_folder(started, () if self._keeps else self._artifact_paths)
            except BaseException as error:
                self.close()
                self._unlock_logs()
                if isinstance(error, KeyboardInterrupt) and self._save and self._replay:
                    option = shlex.join(["--load-debug-replay", path_word(self._save)])
                    G_LOGGER.info(f"To continue from here: {escape_command(option)}")
                raise
            finally:
                self._remove_files()
        self._replay[replay_key] = self._record(checked, number, state)
        self._save_replay(self._replay, self._save)
        seconds = time.perf_counter() - start
        self._report_iteration(checked, state, replay_key, seconds)
        G_LOGGER.verbose(f"{_WORDS[checked.outcome]} | {title} | Duration {seconds:.3f}s")
        return checked.outcome

    def _record(
        self, result: CheckResult, number: int, state: Mapping[str, Any]
    ) -> IterationRecord:
        """Return the replay record of an iteration.
        It contains the first failure, if it is the first with one.
        """
        first = self.first_failure
        if first is not None and first != self._kept_failure:
            self._kept_failure = first
            state = {**state, _FAILURE: first}
        return IterationRecord(result.outcome, number, state)

    def prove(self, make: Callable[[str], Any], label: str) -> None:
        """Build the result of a search from saved files, and check it in a new process.

        Args:
            make: creates the artifact at a path.
            label: its name in messages.

        Raises:
            InconclusiveError: it does not fail as it should.
        """
        if self._command is None or self._artifact is None:
            return
        start = time.perf_counter()
        try:
            make(self._artifact)
            checked = self._command.start(in_new_process=True).wait()
        finally:
            self._remove_files()
        log = self._save_log("proof", checked)
        if checked.outcome is Outcome.BAD:
            seconds = time.perf_counter() - start
            G_LOGGER.info(
                f"Verified: {label} also fails the check in a new process ({seconds:.1f} s)."
            )
            return
        reason = "passes the check" if checked.outcome is Outcome.GOOD else checked.reason
        raise InconclusiveError(
            f"Not verified: {label}, loaded in a new process: {reason}. See {log}.",
            hint="For an intermittent failure, run the check several times: --check-runs N.",
        )

    @property
    def check(self) -> str:
        """Return the command line, or a description, of the check."""
        return "you decide" if self._command is None else str(self._command)

    @property
    def compares_with_saved_outputs(self) -> bool:
        """Return whether the check compares with saved outputs, judging by its command line."""
        return bool(_saved_paths(self.check))

    def expect_saved(self, outputs: Collection[str], count: int | None = None) -> None:
        """Raise an error unless the saved outputs that the check compares with include some of a
        model's, for the expected number of input sets.

        Raises:
            FileError: the file of saved outputs cannot be read.
            UsageError: the file has other outputs, or a different number of input sets.
        """
        for path in _saved_paths(self.check):
            saved = RunResults.load(path)
            held_names = {
                name for _, sets in saved for iteration_result in sets for name in iteration_result
            }
            if held_names.isdisjoint(outputs):
                reference_name, text = (
                    ", ".join(map(repr, names)) for names in (sorted(held_names), outputs)
                )
                raise UsageError(
                    f"{path} contains none of the outputs of the model ({text}), but"
                    f" {reference_name or 'no outputs'}.",
                    hint="Save the outputs of the fp32 model (polygraphy run MODEL --onnxrt"
                    " --save-outputs FILE).",
                )
            lengths = {len(sets) for _, sets in saved}
            if count is not None and count not in lengths:
                sets_text = count_text(max(lengths), "input set")
                now = _count_with_verb(count)
                raise UsageError(
                    f"{path} contains results of {sets_text}, but there {now} now.",
                    hint="Use the data of these results (--load-inputs, --iterations).",
                )

    def expect_one_saved_set(self, inputs: str) -> None:
        """Raise UsageError if a check that loads `inputs` compares with results of several sets."""
        for path in _saved_paths(self.check) if inputs in self.check else ():
            count = max((len(sets) for _, sets in RunResults.load(path)), default=1)
            if count > 1:
                raise UsageError(
                    f"{path} contains results of {count} input sets, but each check runs one.",
                    hint="Save the results of one input set (--iterations 1) to search with.",
                )

    @property
    def first_failure(self) -> Mapping[str, Any] | None:
        """Return the first failure as plain values; None if unknown."""
        return None if self._command is None else self._command.first_failure()

    def current_path(self, path: str) -> str:
        """Return the current path of a file that each check has a copy of."""
        return self._jobs.current_path(path)

    def hold_to_first_failure(self) -> None:
        """Make the check count only failures like the first, if it can."""
        if self._command is not None:
            self._command.hold_to_first_failure()

    def finish(self) -> None:
        """Log a summary, stop checks that run ahead, and remove the replay at the default path."""
        self.close()
        self._unlock_logs()
        if self._save == DEFAULT_PATH:
            remove_path(DEFAULT_PATH)
        passed, count = self.counts[Outcome.GOOD], self.count
        rate = f"{100 * passed / count:.1f}%" if count else "none"
        unresolved = self.counts[Outcome.UNRESOLVED]
        text = f" | Unresolved: {unresolved}" if unresolved else ""
        text += f" | Not shown: {self._rows.left_out} (-v)" if self._rows.left_out else ""
        G_LOGGER.finish(
            f"Finished {count} iteration(s) | Passed: {passed}/{count} | Pass Rate: {rate}{text}"
        )
        if self._written:
            first, last = self._written[0], PurePath(self._written[-1]).name
            logs = first if len(self._written) == 1 else f"{first} ... {last}"
            G_LOGGER.info(f"Logs of the checks: {logs}")

    def close(self) -> None:
        """Stop checks that run ahead."""
        self._jobs.close()

    def _load_replay(self) -> None:
        """Load the replay to continue from, and check that the paths to write are free.
        Only the first call does it.
        """
        if self._known is not None:
            return
        self._lock_logs()
        try:
            debug_replay = DebugReplay() if self._load is None else load_debug_replay(self._load)
            for path in (self._artifact, self._info):
                if path is not None and path_exists(path):
                    raise UsageError(
                        f"{path} exists. Each iteration would overwrite and remove it.",
                        hint="Move it, or choose a different path with --iter-artifact or"
                        " --iter-info.",
                    )
            for path in self._results:
                check_writable(path)
        except BaseException:
            self._unlock_logs()
            raise
        self._known = debug_replay

    def _lock_logs(self) -> None:
        """Lock the folder of logs, so that two searches do not mix their files."""
        if self._command is None:
            return
        unlock = hold_folder(self._logs)
        if unlock is None:
            raise UsageError(
                f"Another search is running and writes to {self._logs}.",
                hint="Start this one in a different folder, so that they do not mix files.",
            )
        self._unlock.append(finalize(self, unlock))  # For callers that never finish a search.

    def _unlock_logs(self) -> None:
        """Allow other searches to write to the folder of logs."""
        while self._unlock:
            self._unlock.pop()()

    def _look_up_answer(self, key: str, state: Mapping[str, Any]) -> CheckResult | None:
        """Return the answer recorded for the same iteration; None if there is none."""
        record = self._known.get(key) if self._known else None
        if record is None:
            return None
        if not record.is_about(state):
            G_LOGGER.warning(
                f"{key} of {self._load} belongs to a different state, {dict(record.state)}, and"
                " is checked again."
            )
            return None
        first = record.state.get(_FAILURE)
        if self._command is not None and first is not None:
            self._command.hold_to_first_failure(first)
        G_LOGGER.verbose(f"From the debug replay: {_WORDS[record.outcome]}")
        return CheckResult(record.outcome, "from the debug replay")

    def _finish_check(self, started: StartedCheck, unmade: Outcome) -> CheckResult:
        """Wait for a check and return its answer."""
        if started.error is not None:
            G_LOGGER.verbose(str(started.error))
            self.unmade.append(started.error)
            return CheckResult(unmade, f"cannot be created: {started.error}", str(started.error))
        if started.running is not None:
            return started.running.wait()
        checked = optional_method(self._check, AskUser.check)
        return CheckResult(self._check()) if checked is None else checked()

    def _report_iteration(
        self, result: CheckResult, state: Mapping[str, Any], key: str, seconds: float
    ) -> None:
        """Count, show, save and report an iteration."""
        number = self.count
        self._save_log(f"{number:02}", result)
        self.counts[result.outcome] += 1
        self.seconds += seconds
        self._rows.add(number, state, result.outcome, seconds, result.reason)
        facts = {"name": key, "outcome": result.outcome, "seconds": seconds, "state": state}
        resolve(Findings).report_finding("iteration", facts)

    def _save_log(self, name: str, result: CheckResult) -> str:
        """Save the output of a check and return the path."""
        path = str(PurePath(self._logs) / f"{name}.log")
        if result.output is not None:
            if not self._written:
                self._remove_old_logs()
            write_scratch(path, _shorten_log(result.output))
            self._written.append(path)
        return path

    def _remove_old_logs(self) -> None:
        """Remove the logs of an earlier search."""
        number = 0
        while path_exists(path := str(PurePath(self._logs) / f"{number:02}.log")):
            remove_path(path)
            number += 1

    def _sort_artifacts(
        self, check_folder: CheckFolder, outcome: Outcome, number: int, suffix: str
    ) -> None:
        """Move the artifacts of an iteration to the folder for its outcome,
        with its number in their names.
        """
        for path in self._numbered:
            copy_file(
                check_folder.path(path),
                str(PurePath(path).with_suffix(f".{number}{PurePath(path).suffix}")),
            )
        label = f"{start_label()}_N{number}" + (f"_{suffix}" if suffix else "")
        folder = str(PurePath(self._folder) / outcome.value)
        for path in self._artifacts:
            moved = move_into_folder(check_folder.path(path), folder, label)
            if moved is None:
                G_LOGGER.warning(f"{path} does not exist and was not moved.")
            else:
                G_LOGGER.verbose(f"Moved {path} to {moved}")

    @property
    def _artifact_paths(self) -> list[str]:
        """Return the artifact and the files that may belong to it."""
        if self._artifact is None:
            return []
        return [self._artifact, *(self._artifact + ending for ending in _BESIDE)]

    @property
    def _skip_path(self) -> str | None:
        """Return the path of the replay in which the running check counts as failed, or None.
        The result is None without --save."""
        if self._save is None:
            return None
        path = PurePath(self._save)
        return str(path.with_name(f"{path.stem}_skip_current{path.suffix}"))

    def _save_replay(self, replay: DebugReplay, path: str | None) -> None:
        """Save the replay, if there is a path for it."""
        if path is not None:
            save_debug_replay(replay, path)

    def _remove_files(self) -> None:
        """Remove the files of the search, except artifacts to keep."""
        artifact_paths = [] if self._keeps else self._artifact_paths
        for path in (self._info, self._skip_path, *artifact_paths):
            if path is not None:
                remove_path(path)


Until = Union[int, Literal["good", "bad"]]
"""Number of iterations, or the answer that ends them."""


_ENOUGH = 3
"""The search stops if this number of checks fail for one reason, and none differently."""


def repeat(
    iterations: Iterations, until: Until, make: Callable[[str], Any] | None = None
) -> dict[Outcome, int]:
    """Repeat the check, and return the count of each outcome;
    it ends after a number of times, or at an outcome.

    Args:
        iterations: the iterations of checks.
        until: a number of iterations, ``good`` or ``bad``.
        make: creates the artifact at a path; if that fails, the check has failed.

    Returns:
        The number of iterations with each outcome.

    Raises:
        UsageError: `until` is invalid.
        PolygraphyException: no artifact could be created, or creating it failed three times for the
            same reason from the start.
    """
    if until not in ("good", "bad") and not (isinstance(until, int) and until > 0):
        raise UsageError(
            f"until={until!r} is invalid.", hint="Use 'good', 'bad', or a number of at least 1."
        )
    while True:
        remaining_index = until - iterations.count - 1 if isinstance(until, int) else None
        outcome = iterations.run(make, remaining=remaining_index)
        is_last = until in (iterations.count, outcome.value)
        _require_artifacts(iterations, is_last=is_last)
        if is_last:
            break
    iterations.finish()
    return dict(iterations.counts)


def _require_artifacts(iterations: Iterations, *, is_last: bool) -> None:
    """Raise the error that prevented every artifact from being created."""
    unmade = iterations.unmade
    if not unmade or len(unmade) < iterations.count:
        return
    is_the_same = len({str(error) for error in unmade}) == 1
    if is_last or (is_the_same and len(unmade) == _ENOUGH):
        raise unmade[-1]


_ALL = 6
"""The first rows, which are shown whatever their result is."""
_MOST = 9
"""Most rows that are shown: after the first ones, failures of half the size."""
_WIDTH = 76
_ANSWERS = {
    Outcome.GOOD: "passes",
    Outcome.BAD: "fails",
    Outcome.UNRESOLVED: "unresolved",
}
_COLUMNS = {"num_nodes": "nodes", "raised": "layers"}
"""Titles of columns, by the name of the value in the state of an iteration."""


class Rows:
    """The table of iterations; each row is logged when its iteration ends.

    Attributes:
        left_out: the number of rows that are not shown.
    """

    def __init__(self) -> None:
        """Create a table without rows."""
        self.left_out = 0
        self._shown = 0
        self._column: str | None = None
        self._least: int | None = None

    def add(
        self,
        number: int,
        state: Mapping[str, Any],
        outcome: Outcome,
        seconds: float,
        reason: str = "",
    ) -> None:
        """Add a row.

        Args:
            number: the number of the iteration.
            state: the checked state.
            outcome: the answer.
            seconds: duration in seconds.
            reason: the reason in a few words; may be empty.
        """
        size = self._size(state)
        if not self._is_shown(outcome, size):
            self.left_out += 1
            return
        if not self._shown:
            named = f" {_COLUMNS[self._column]:>6}" if self._column else ""
            G_LOGGER.info(f"{'#':>4}{named}  {'check':10} {'time':>8}")
        self._shown += 1
        sized = f" {'' if size is None else size:>6}" if self._column else ""
        line = f"{number:>4}{sized}  {_ANSWERS[outcome]:10} {seconds:6.1f} s  {_cut(reason)}"
        G_LOGGER.info(line.rstrip())

    def _size(self, state: Mapping[str, Any]) -> int | None:
        """Return the number in the last column for an iteration, such as the layers or nodes
        that remain; None without one.
        """
        if self._column is None and not self._shown:
            self._column = next((name for name in _COLUMNS if name in state), None)
        return None if self._column is None else state.get(self._column)

    def _is_shown(self, outcome: Outcome, size: int | None) -> bool:
        """Return whether an iteration is shown."""
        is_less = size is not None and (self._least is None or 2 * size <= self._least)
        if self._shown >= _MOST:
            return False
        if self._shown >= _ALL and not (outcome is Outcome.BAD and (is_less or size is None)):
            return False
        if outcome is Outcome.BAD and size is not None:
            self._least = size
        return True


def _cut(text: str) -> str:
    """Return a text on one line, truncated if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
