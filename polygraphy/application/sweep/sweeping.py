"""Runs the cells of a plan, and says what came of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import PurePath
from typing import Any

from attrs import evolve

from polygraphy.application.sweep.planned import Planned, PlannedCell
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError, DamagedFileError, InconclusiveError, UsageError
from polygraphy.domain.sweep.cells import Job, Limits, is_meant, partition, shard_of
from polygraphy.domain.sweep.outcome import (
    CRASHED,
    ERROR,
    FAILED,
    HUNG,
    MEMORY,
    MISSING,
    NO_REFERENCE,
    PASSED,
    Row,
    SweepOutcome,
    compared,
    groups_of,
    is_slower,
    known_among,
    row_of,
    state_of,
)
from polygraphy.domain.sweep.plan import known_of, plan_of
from polygraphy.domain.tensors.naming import counted
from polygraphy.ports.machine import machine_facts
from polygraphy.ports.reporting import Console, Findings, Progress, Reports
from polygraphy.ports.storage import read_text
from polygraphy.ports.sweeping import (
    SweepEngine,
    claim_folder,
    forget_record,
    holds_sweep,
    read_record,
)

_CONFIRMATIONS = 2
"""How often a cell that seems slower is run again before that is reported."""
_BROKEN, _INCONCLUSIVE = 3, 4
_OF_THE_MOMENT = (CRASHED, HUNG, MEMORY)
"""States of a reference that may be another one next time: --resume computes it again."""
_DIAGNOSES = "Diagnoses"
_DIAGNOSED = (FAILED, ERROR, CRASHED)
"""States of a cell that is diagnosed. A diagnosis runs more: it would run into a limit as well."""

Record = Mapping[str, Any]


def sweep(  # noqa: PLR0917  # Programs name what they give.
    plan: Mapping[str, Any],
    folder: str,
    root: str = ".",
    engine: str = "local",
    jobs: int | None = None,
    shard: str | None = None,
    times: str | None = None,
    resume: bool = False,
    only: str | Sequence[str] | None = None,
    timeout: float = 600.0,
    memory: int | None = None,
    repeat_failed: int = 0,
    baseline: str | None = None,
    known: Sequence[Mapping[str, Any]] = (),
    strict: bool = False,
    diagnose: bool = False,
    dry_run: bool = False,
) -> bool:
    """Run every combination of a plan in a process of its own, and compare it with what is right.

    Args:
        plan: models, runners, precisions and so on, as a plan in TOML has them.
        folder: where results are kept; what is there already is not run again.
        root: the folder that paths in the plan are relative to.
        engine: who runs the processes: ``local``, or ``ray``.
        jobs: how many run at a time (default: as many as there are GPUs or, without several of
            them, cores).
        shard: which part is run, ``i/n``, i from 1 (default: all).
        times: the document of an earlier sweep, by whose times shards become equally long.
        resume: whether to go on with a folder that has results; with `shard`, that is meant. What
            cells are compared with is computed again where it crashed, or ran into a limit.
        only: patterns of the names of cells, which are model and combination, or parts of them.
        timeout: seconds that a process may take.
        memory: bytes that a process may have resident (default: half of what is free, divided by
            `jobs`).
        repeat_failed: how often a cell that fails is run again, to find out whether it always does.
        baseline: the document of an earlier sweep, with which this one is compared.
        known: failures that are known, each with ``cell``, a pattern, ``reason`` and ``until``.
        strict: whether a known failure that passes is a failure.
        diagnose: whether failures are diagnosed, but for those that ran into a limit, so that those
            with one cause become one group.
        dry_run: whether cells are only listed.

    Returns:
        Whether nothing failed that is new: not known and, with a baseline, not failing there.

    Raises:
        UsageError: something in the plan cannot be meant, or the folder has results.
        FileError: a file is missing, or the folder cannot be written.
        BackendError: no cell could be run.
        InconclusiveError: cells neither passed nor failed, and none failed.
    """
    failures = known_of({"known": list(known)}) if known else []
    checked = plan_of(plan)
    if holds_sweep(folder) and not (resume or shard or dry_run):
        raise UsageError(
            f"The folder {folder} has results of an earlier sweep.",
            hint="Go on with --resume, or name another one with --folder.",
        )
    claim_folder(folder)
    planned = Planned(checked, folder, root)
    before = None if baseline is None else _rows_in(baseline)
    chosen = _chosen(planned, shard, times, [only] if isinstance(only, str) else only)
    if dry_run:
        rows = [_Sweep(planned, {}, planned.plan.same_machine).row(cell) for cell in chosen]
        return _told(SweepOutcome(rows, merged=planned.merged, folder=folder), is_dry=True)
    limits = Limits(jobs, timeout, memory)
    running = _Sweep(planned, machine_facts(), planned.plan.same_machine)
    run = _Runner(resolve(SweepEngine, engine), limits)
    running.read(chosen)
    running.run(run, chosen, again=resume)
    if repeat_failed:
        running.repeat(run, chosen, repeat_failed)
    rows = [running.row(cell) for cell in chosen]
    if before is not None:
        rows = compared(running.confirmed(run, chosen, rows, before), before)
    names = [one.cell.name for one in planned.cells]
    rows, notes = known_among(rows, failures, date.today().isoformat(), names)
    diagnoses = running.diagnosed(run if diagnose else None, chosen, rows)
    outcome = SweepOutcome(
        rows,
        groups_of(rows, diagnoses),
        [*running.notes, *notes],
        before is not None,
        strict,
        planned.merged,
        folder,
    )
    return _told(outcome)


def _told(outcome: SweepOutcome, *, is_dry: bool = False) -> bool:
    """Report what came of it; see `sweep` for what is returned and raised."""
    if outcome.merged:
        same = "is" if outcome.merged == 1 else "are"
        text = f"{counted(outcome.merged, 'combination')} {same} the same as others by content."
        resolve(Console).note(text)
    for note in outcome.notes:
        resolve(Console).note(note)
    resolve(Reports).sweep(outcome)
    if is_dry:
        return True
    resolve(Findings).conclude(summary=outcome.summary)
    if outcome.exit_code == _BROKEN:
        raise BackendError(f"No cell could be run: {outcome.groups[0].cause}")
    if outcome.exit_code == _INCONCLUSIVE:
        raise InconclusiveError("No cell failed, but some neither passed nor failed.")
    return outcome.exit_code == 0


def _rows_in(path: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows in the document of an earlier sweep, by name."""
    try:
        document = json.loads(read_text(path))
        found = [each for each in document["results"] if each["kind"] == "sweep"]
        rows = found[0]["rows"]
        made = {row["name"]: row for row in rows}
        if not all(isinstance(row["state"], str) for row in rows):
            raise TypeError("state")
        return made
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedFileError(
            f"{path} is no document of a sweep.",
            path=path,
            hint="Save one with polygraphy sweep --report PATH.json.",
        ) from error


def _chosen(
    planned: Planned, shard: str | None, times: str | None, only: Sequence[str] | None
) -> list[PlannedCell]:
    """Return the cells that are this sweep's to run."""
    cells = planned.cells
    if shard is not None:
        number, count = shard_of(shard)
        seconds = None
        if times is not None:
            took = {name: row.get("seconds") for name, row in _rows_in(times).items()}
            named = ((one.key, took.get(one.cell.name)) for one in cells)
            seconds = {key: float(each) for key, each in named if each is not None}
        mine = set(partition([one.key for one in cells], count, seconds)[number - 1])
        cells = [one for one in cells if one.key in mine]
    if only:
        meant = [one for one in cells if is_meant(one.cell.name, only)]
        if cells and not meant:
            example = cells[0].cell.name
            raise UsageError(
                f"No cell matches {' or '.join(map(repr, only))}.", hint=f"One is {example!r}."
            )
        return meant
    return cells


class _Runner:
    """Runs jobs by an engine, and shows how far they are."""

    def __init__(self, engine: SweepEngine, limits: Limits) -> None:
        self._engine = engine
        self._limits = limits

    def __call__(self, what: str, jobs: Sequence[Job]) -> dict[str, Record]:
        """Return the records of jobs by their keys."""
        made: dict[str, Record] = {}
        failed, start = 0, time.monotonic()
        if not jobs:
            return made
        with resolve(Progress).watch(what) as tell:

            def ended(job: Job, record: Record) -> None:
                nonlocal failed
                made[job.key] = record
                failed += state_of(record)[0] != PASSED
                left = (time.monotonic() - start) / len(made) * (len(jobs) - len(made))
                found = "" if what == _DIAGNOSES else f" {failed} not passed,"
                tell(f"{len(made)} of {len(jobs)},{found} about {left:.0f} s left")

            self._engine.run(jobs, self._limits, ended)
        return made


class _Sweep:
    """The records of a plan's cells, those that were there and those that come."""

    def __init__(self, planned: Planned, machine: Mapping[str, Any], same_machine: bool) -> None:
        self._planned = planned
        self._machine = machine
        self._same_machine = same_machine
        self._records: dict[str, list[Record]] = {}
        self._ran_now: set[str] = set()
        self._no_reference: dict[str, str] = {}
        self.notes: list[str] = []

    def read(self, cells: Sequence[PlannedCell]) -> None:
        """Take the records that are there; what is damaged is removed, and said."""
        for cell in cells:
            found = self._read(self._planned.job(cell))
            if found is not None:
                self._records[cell.key] = [found, *self._attempts(cell)]

    def _attempts(self, cell: PlannedCell) -> list[Record]:
        made: list[Record] = []
        while (found := self._read(self._planned.job(cell, f".{len(made) + 2}"))) is not None:
            made.append(found)
        return made

    def _read(self, job: Job) -> Record | None:
        try:
            found = read_record(job.result)
        except DamagedFileError as error:
            self.notes.append(f"{error} It was run again.")
            found = None
        else:
            if found is None or not (self._same_machine and self._is_foreign(found)):
                return found
        forget_record(job.result)
        return None

    def _is_foreign(self, record: Record) -> bool:
        return bool(record["machine"] != self._machine)

    def run(self, run: Callable[[str, Sequence[Job]], dict[str, Record]],
            cells: Sequence[PlannedCell], *, again: bool) -> None:  # fmt: skip
        """Run the cells that have no record, and before that what they are compared with: `again`,
        where that has a record of a failure that may be one of the moment.
        """
        waiting = [cell for cell in cells if cell.key not in self._records]
        shared = {job.key: job for cell in waiting if (job := self._planned.shared_job(cell))}
        found = {key: self._read(job) for key, job in shared.items()}
        for key, record in found.items():
            if again and record is not None and state_of(record)[0] in _OF_THE_MOMENT:
                forget_record(shared[key].result)
                found[key] = None
        missing = [job for key, job in shared.items() if found[key] is None]
        found.update(run("References", missing))
        failed = {key: state_of(record) for key, record in found.items() if record is not None}
        self._no_reference = {
            key: summary for key, (state, summary) in failed.items() if state != PASSED
        }
        ready = [cell for cell in waiting if cell.shared_key not in self._no_reference]
        made = run("Cells", [self._planned.job(cell) for cell in ready])
        self._records.update((key, [record]) for key, record in made.items())
        self._ran_now.update(made)

    def repeat(self, run: Callable[[str, Sequence[Job]], dict[str, Record]],
               cells: Sequence[PlannedCell], times: int) -> None:  # fmt: skip
        """Run cells that failed again, each up to so many times in all."""
        failed = [cell for cell in cells if self.row(cell).failed]
        for number in range(times):
            suffix = f".{number + 2}"
            again = [cell for cell in failed if len(self._records[cell.key]) == number + 1]
            made = run("Repetitions", [self._planned.job(cell, suffix) for cell in again])
            for cell in again:
                self._records[cell.key].append(made[cell.key + suffix])

    def confirmed(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]],
        cells: Sequence[PlannedCell],
        rows: Sequence[Row],
        before: Mapping[str, Record],
    ) -> list[Row]:
        """Return rows with the shortest times of cells that seem slower, which are run again."""
        made = list(rows)
        slower = [at for at, row in enumerate(rows) if is_slower(row, before.get(row.name, {}))]
        for number in range(_CONFIRMATIONS):
            suffix = f".time{number + 1}"
            again = {at: evolve(self._planned.job(cells[at], suffix), exclusive=True)
                     for at in slower}  # fmt: skip
            for at, job in again.items():
                if cells[at].key in self._ran_now:
                    forget_record(job.result)
            found = {job.key: self._read(job) for job in again.values()}
            found.update(run("Times", [job for job in again.values() if not found[job.key]]))
            for at, job in again.items():
                record = found[job.key]
                is_ours = record is not None and not self._is_foreign(record)
                took = record.get("essence", {}).get("inference") if record and is_ours else None
                times = [time for time in (made[at].inference, took) if time is not None]
                made[at] = evolve(made[at], inference=min(times, default=None))
        return made

    def diagnosed(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]] | None,
        cells: Sequence[PlannedCell],
        rows: Sequence[Row],
    ) -> dict[str, Record]:
        """Return the records of diagnoses of the cells that fail, by their keys; without `run`,
        those that an earlier sweep left.
        """
        failed = [cell for cell, row in zip(cells, rows) if row.state in _DIAGNOSED]
        jobs = {cell.key: self._planned.diagnosis(cell) for cell in failed}
        found = {key: self._read(job) for key, job in jobs.items()}
        if run is not None:
            made = run(_DIAGNOSES, [job for key, job in jobs.items() if found[key] is None])
            found.update((key, made[job.key]) for key, job in jobs.items() if job.key in made)
        return {key: record for key, record in found.items() if record is not None}

    def row(self, cell: PlannedCell) -> Row:
        """Return the row of a cell."""
        job = self._planned.job(cell)
        row = Row(
            cell.cell.name,
            cell.cell.model,
            cell.cell.label,
            cell.key,
            command=self._planned.shown(job),
        )
        records = self._records.get(cell.key)
        if records:
            report = PurePath(job.report).relative_to(self._planned.folder).as_posix()
            made = row_of(row, records)
            foreign = bool(self._machine) and any(map(self._is_foreign, records))
            return evolve(made, is_foreign=foreign, report=report)
        if cell.shared_key in self._no_reference:
            why = f"What it is compared with failed: {self._no_reference[cell.shared_key]}"
            return evolve(row, state=NO_REFERENCE, summary=why)
        return evolve(row, state=MISSING)
