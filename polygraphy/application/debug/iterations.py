"""The iterations of a search: something is made, checked, and sorted by the answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol

from polygraphy.domain.calling import supporting
from polygraphy.domain.errors import (
    FileError,
    MissingDependencyError,
    ModelError,
    PolygraphyException,
    UsageError,
)
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.debug_replay import DebugReplay, IterationRecord
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.reporting import Findings
from polygraphy.ports.storage import DebugReplays, TextFiles, WorkFiles

_BESIDE = (".data", ".build.json")
"""What models and engines may have beside them, after their names."""

_TOLD = {
    Outcome.GOOD: "PASSED",
    Outcome.BAD: "FAILED",
    Outcome.UNRESOLVED: "UNRESOLVED",
}

Check = Callable[[], Outcome]


class HoldsToFirstFailure(Protocol):
    """What a check may have besides: it can tell failures apart."""

    def hold_to_first_failure(self) -> None:
        """Judge from now on that only failures like the first one are failures."""


def _ends_the_search(error: PolygraphyException) -> bool:
    """Return whether an error says nothing about what was to be made: it will be the same next
    time, or a file cannot be read or written, because the disk is full for example.
    """
    if isinstance(error, FileError):
        return not isinstance(error, ModelError)
    return isinstance(error, (UsageError, MissingDependencyError))


class Iterations:
    """Checks what is made, again and again, and keeps the books.

    Attributes:
        counts: how many iterations had each outcome.
        unmade: why nothing could be made, for each iteration in which that was so.
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
    ) -> None:
        """Say what is checked how, and what is kept.

        Args:
            check: answers about what is there now.
            artifact: the path of what is made in each iteration, for the check to find. It must not
                exist before, and is removed after each iteration.
            keep_artifact: whether it is left there instead.
            artifacts: files and folders, those that the check makes among them, that are moved into
                a folder ``good`` or ``bad`` after each iteration.
            artifacts_dir: where these folders are.
            numbered: files of which a copy is kept after each iteration, with its number in front
                of the extension: ``replay.0.json``.
            results: files that are written when the search is over: that they can be is made sure
                of before it begins.
            iter_info: the path of a JSON file that tells the check the number of the iteration.
            load_replay: a file of answers: what they are about is not checked again.
            save_replay: where answers are saved after each iteration. Beside it, with
                ``_skip_current`` in the name, is a file in which the iteration that is under way
                has failed: to go on with after a crash.
        """
        self.counts = dict.fromkeys(Outcome, 0)
        self.unmade: list[PolygraphyException] = []
        self._check = check
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

    @property
    def count(self) -> int:
        """How many iterations there were."""
        return sum(self.counts.values())

    def run(
        self,
        make: Callable[[str], Any] | None = None,
        *,
        suffix: str = "",
        state: Mapping[str, Any] | None = None,
        remaining: int | None = None,
        unmade: Outcome = Outcome.BAD,
    ) -> Outcome:
        """Make something and check it.

        Args:
            make: makes it, at the path of the artifact (default: nothing is made).
            suffix: the name of the search, where there are several: each counts from 0.
            state: what is checked, in plain values, to know it by in a replay.
            remaining: about how many more iterations there will be, if that is known.
            unmade: the answer if it cannot be made.

        Raises:
            UsageError: something is in the place of the artifact.
            FileError: a file of the iteration cannot be read or written.
        """
        self._begin()
        number = self._numbers.get(suffix, -1) + 1
        self._numbers[suffix] = number
        left = "" if remaining is None else f" | Approximately {remaining} iteration(s) remaining"
        title = f"Iteration {number}" + (f" ({suffix})" if suffix else "")
        G_LOGGER.start(f"RUNNING | {title}{left}")
        start = time.perf_counter()
        key = DebugReplay.key(number, suffix)
        outcome = self._remembered(key, state or {})
        if outcome is None:
            record = IterationRecord(Outcome.BAD, number, state or {})
            try:
                with G_LOGGER.indent():
                    self._note(DebugReplay({**self._replay, key: record}), self._skipping)
                    outcome = self._checked(make, number, unmade)
                    self._sort(outcome, number, suffix)
            except KeyboardInterrupt:
                if self._save is not None and self._replay:
                    G_LOGGER.info(f"To go on from here: --load-debug-replay {self._save}")
                raise
            finally:
                self._clean_up()
        self._replay[key] = IterationRecord(outcome, number, state or {})
        self._note(self._replay, self._save)
        self.counts[outcome] += 1
        report = G_LOGGER.finish if outcome is Outcome.GOOD else G_LOGGER.error
        seconds = time.perf_counter() - start
        report(f"{_TOLD[outcome]} | {title} | Duration {seconds:.3f}s")
        found = {"name": key, "outcome": outcome, "seconds": seconds, "state": state or {}}
        resolve(Findings).found("iteration", found)
        return outcome

    def hold_to_first_failure(self) -> None:
        """Have the check judge that only failures like the first one are some, where it can."""
        holding = supporting(self._check, HoldsToFirstFailure)
        if holding is not None:
            holding.hold_to_first_failure()

    def finish(self) -> None:
        """Sum up."""
        passed, count = self.counts[Outcome.GOOD], self.count
        rate = f"{100 * passed / count:.4g}%" if count else "none"
        unresolved = self.counts[Outcome.UNRESOLVED]
        more = f" | Unresolved: {unresolved}" if unresolved else ""
        G_LOGGER.finish(
            f"Finished {count} iteration(s) | Passed: {passed}/{count} | Pass Rate: {rate}{more}"
        )

    def _begin(self) -> None:
        if self._known is not None:
            return
        known = DebugReplay() if self._load is None else resolve(DebugReplays).load(self._load)
        files = resolve(WorkFiles)
        for path in (self._artifact, self._info):
            if path is not None and files.exists(path):
                raise UsageError(
                    f"{path} exists, and would be overwritten and removed by each iteration.",
                    hint="Move it away, or name another path with --iter-artifact or --iter-info.",
                )
        for path in self._results:
            files.check_writable(path)
        self._known = known

    def _remembered(self, key: str, state: Mapping[str, Any]) -> Outcome | None:
        """Return the answer of the replay, if it is about the same."""
        record = self._known.get(key) if self._known else None
        if record is None:
            return None
        if not record.is_about(state):
            G_LOGGER.warning(
                f"{key} of {self._load} is about something else, {dict(record.state)}: it is"
                " checked again."
            )
            return None
        G_LOGGER.info(f"The debug replay knows the answer: {_TOLD[record.outcome]}")
        return record.outcome

    def _checked(self, make: Callable[[str], Any] | None, number: int, unmade: Outcome) -> Outcome:
        if self._info is not None:
            resolve(TextFiles).write(self._info, json.dumps({"iteration": number}) + "\n")
        if make is not None:
            assert self._artifact is not None
            try:
                make(self._artifact)
            except PolygraphyException as error:
                if _ends_the_search(error):
                    raise
                G_LOGGER.error(f"Could not make {self._artifact}: {error}")
                self.unmade.append(error)
                return unmade
        return self._check()

    def _sort(self, outcome: Outcome, number: int, suffix: str) -> None:
        files = resolve(WorkFiles)
        for path in self._numbered:
            files.copy(path, str(PurePath(path).with_suffix(f".{number}{PurePath(path).suffix}")))
        label = f"{files.started()}_N{number}" + (f"_{suffix}" if suffix else "")
        folder = str(PurePath(self._folder) / outcome.value)
        for path in self._artifacts:
            moved = files.sort(path, folder, label)
            if moved is None:
                G_LOGGER.warning(f"There is no {path} to sort.")
            else:
                G_LOGGER.verbose(f"Moved {path} to {moved}")

    @property
    def _skipping(self) -> str | None:
        if self._save is None:
            return None
        path = PurePath(self._save)
        return str(path.with_name(f"{path.stem}_skip_current{path.suffix}"))

    def _note(self, replay: DebugReplay, path: str | None) -> None:
        if path is not None:
            resolve(DebugReplays).save(replay, path)

    def _clean_up(self) -> None:
        files = resolve(WorkFiles)
        paths = [self._info, self._skipping]
        if self._artifact is not None and not self._keeps:
            paths += [self._artifact, *(self._artifact + ending for ending in _BESIDE)]
        for path in paths:
            if path is not None:
                files.remove(path)
