"""Runs the cells of a plan, and says what came of them."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from attrs import evolve

from polygraphy.application.sweep.planning import PlannedCell, PlannedSweep
from polygraphy.binding import resolve
from polygraphy.domain.errors import (
    BackendError,
    DamagedFileError,
    InconclusiveError,
    UsageError,
)
from polygraphy.domain.sweep.cells import (
    Job,
    Limits,
    matches_pattern,
    partition,
    shard_of,
)
from polygraphy.domain.sweep.outcome import (
    CRASHED,
    ERROR,
    FAILED,
    FLAKY,
    HUNG,
    INCONCLUSIVE,
    MEMORY,
    MISSING,
    NO_REFERENCE,
    PASSED,
    Row,
    SweepOutcome,
    compare_with_baseline,
    groups_of,
    is_slower,
    mark_known_failures,
    row_of,
    rows_before,
    state_of,
)
from polygraphy.domain.sweep.plan import (
    plan_of,
    read_known_failures,
)
from polygraphy.domain.tensors.naming import count_text, escape_command, path_word
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

if TYPE_CHECKING:
    from polygraphy.domain.profiling.regression import Times


_CONFIRMATIONS = 2
"""How often a cell that seems slower is repeated before it is reported."""
_BROKEN, _INCONCLUSIVE = 3, 4
_OF_THE_MOMENT = (CRASHED, HUNG, MEMORY)
"""States of a reference that may be another one next time: --resume computes it again."""
_DIAGNOSES = "Diagnoses"
_PROFILED = (PASSED, FAILED, INCONCLUSIVE, FLAKY)
"""States of a cell that ran, so that it can be profiled."""
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
    profile: int | None = None,
) -> bool:
    """Run all combinations of a plan, each in its own process, and return whether nothing new
    fails: no cell that is not a known failure and, with a baseline, did not fail there.

    Args:
        plan: models, runners, precisions and so on, as a plan in TOML has them.
        folder: the folder of results; cells with a result are not run again.
        root: the folder that paths in the plan are relative to.
        engine: the engine that runs the processes: ``local`` or ``ray``.
        jobs: the number of parallel cells (default: the number of GPUs or, without several of
            them, cores).
        shard: the part to run, ``i/n``, i from 1 (default: all).
        times: the document of an earlier sweep, whose times balance the shards.
        resume: whether to continue in a folder that has results (always with `shard`). References
            that crashed or exceeded a limit are computed again.
        only: patterns for the names of cells, which consist of model and combination, or for parts
            of them.
        timeout: time limit for a process, in seconds.
        memory: memory limit (RSS) for a process, in bytes (default: half of the free memory,
            divided by `jobs`).
        repeat_failed: number of retries for a failed cell, to find out whether it always fails.
        baseline: the document of an earlier sweep to compare with.
        known: known failures, each with ``cell`` (a pattern), ``reason`` and ``until``.
        strict: whether a known failure that passes is a failure.
        diagnose: whether failures are diagnosed and grouped by cause, except cells that exceeded a
            limit.
        dry_run: whether cells are only listed.
        profile: the number of profiled runs of each cell that ran, 1 to 50, one cell at a time in
            its own process. With `baseline`, nodes that became slower are listed (default: no
            profiles).

    Returns:
        Whether there are no new failures. Known failures, and cells that also fail in the baseline,
        are not new.

    Raises:
        UsageError: the plan is invalid, or the folder has results.
        FileError: a file is missing, or the folder cannot be written.
        BackendError: no cell could be run.
        InconclusiveError: cells neither passed nor failed, and none failed.
    """
    failures = read_known_failures({"known": list(known)}) if known else []
    checked = plan_of(plan)
    if profile is not None:
        from polygraphy.domain.profiling.execution import check_runs

        check_runs(profile)
    _claim_folder(folder, may_continue=bool(resume or shard or dry_run))
    planned = PlannedSweep(checked, folder, root)
    before = None if baseline is None else _rows_in(baseline)
    chosen = _select_cells(planned, shard, times, [only] if isinstance(only, str) else only)
    if dry_run:
        rows = [_Sweep(planned, {}, planned.plan.same_machine).row(cell) for cell in chosen]
        return _report_outcome(
            SweepOutcome(rows, merged=planned.merged, folder=folder), is_dry=True
        )
    limits = Limits(jobs, timeout, memory)
    running = _Sweep(planned, machine_facts(), planned.plan.same_machine)
    run = partial(_run, resolve(SweepEngine, engine), limits)
    running.read(chosen)
    running.run(run, chosen, repeats_failed=resume)
    if repeat_failed:
        running.repeat(run, chosen, repeat_failed)
    rows = _compared_rows(running, run, chosen, profile, before)
    today = date.today().isoformat()
    rows, notes = mark_known_failures(rows, failures, today, _labels(planned))
    diagnoses = running.diagnose_cells(run if diagnose else None, chosen, rows)
    outcome = SweepOutcome(
        rows,
        groups_of(rows, diagnoses, running.saving_command),
        [*running.notes, *notes, *_place_of_commands(root, rows)],
        before is not None,
        strict,
        planned.merged,
        folder,
    )
    return _report_outcome(outcome)


def _place_of_commands(root: str, rows: Sequence[Row]) -> list[str]:
    """Return a sentence about the folder in which commands for failed cells run, unless it is the
    current one.
    """
    folder = os.path.relpath(root)
    if folder == os.curdir or not any(row.failed for row in rows):
        return []
    word = escape_command(shlex.join(["cd", path_word(folder)]))
    return [f"Run the commands of this report in the folder of the plan: {word}"]


def _labels(planned: PlannedSweep) -> list[str]:
    """Return the names of all cells."""
    names: list[str] = []
    for planned_cell in planned.cells:
        cell = planned_cell.cell
        names += [f"{cell.model} {label}" for label in cell.labels]
        names += planned_cell.equal_names
    return names


def _claim_folder(folder: str, *, may_continue: bool) -> None:
    """Claim the folder of a sweep for this process.

    Raises:
        UsageError: it has results, and the sweep may not continue.
        FileError: it cannot be written, or another sweep uses it.
    """
    if holds_sweep(folder) and not may_continue:
        raise UsageError(
            f"The folder {folder} contains results of an earlier sweep.",
            hint="Continue with --resume, or choose a different folder with --folder.",
        )
    claim_folder(folder)


def _compared_rows(
    running: _Sweep,
    run: Callable[[str, Sequence[Job]], dict[str, Record]],
    chosen: Sequence[PlannedCell],
    profile: int | None,
    before: Mapping[str, Record] | None,
) -> list[Row]:
    """Return the rows of cells, with their profiles, and compared with an earlier sweep."""
    rows = [running.row(cell) for cell in chosen]
    if profile is not None:
        rows = running.profile_rows(run, chosen, rows, profile, before)
    if before is not None:
        rows = compare_with_baseline(running.confirm_slow_cells(run, chosen, rows, before), before)
    return rows


def _report_outcome(outcome: SweepOutcome, *, is_dry: bool = False) -> bool:
    """Log the outcome, and return whether nothing new failed; see `sweep` for the errors."""
    if outcome.merged:
        equal_name = "is" if outcome.merged == 1 else "are"
        text = f"{count_text(outcome.merged, 'combination')} {equal_name} identical to others"
        pairs = (f"{name!r} to {row.name!r}" for row in outcome.rows for name in row.equal_names)
        example = next(pairs, "")
        resolve(Console).note(f"{text}{', such as ' * bool(example)}{example}.")
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
        sweeps = [value for value in document["results"] if value["kind"] == "sweep"]
        rows = sweeps[0]["rows"]
        rows_in = {row["name"]: row for row in rows}
        if not all(isinstance(row["state"], str) for row in rows):
            raise TypeError("state")
        return rows_in
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedFileError(
            f"{path} is not a sweep document.",
            path=path,
            hint="Save one with polygraphy sweep --report PATH.json.",
        ) from error


def _select_cells(
    planned: PlannedSweep, shard: str | None, times: str | None, only: Sequence[str] | None
) -> list[PlannedCell]:
    """Return the cells that this sweep runs."""
    cells = planned.cells
    if shard is not None:
        number, count = shard_of(shard)
        seconds = None
        if times is not None:
            took = {name: row.get("seconds") for name, row in _rows_in(times).items()}
            named = ((cell.key, took.get(cell.cell.name)) for cell in cells)
            seconds = {key: float(value) for key, value in named if value is not None}
        names = set(partition([cell.key for cell in cells], count, seconds)[number - 1])
        cells = [cell for cell in cells if cell.key in names]
    if only:
        planned_cells = [
            cell
            for cell in cells
            if any(matches_pattern(name, only) for name in (cell.cell.name, *cell.equal_names))
        ]
        if cells and not planned_cells:
            example = cells[0].cell.name
            raise UsageError(
                f"No cell matches {' or '.join(map(repr, only))}.",
                hint=f"For example, one cell is {example!r}.",
            )
        return planned_cells
    return cells


def _run(engine: SweepEngine, limits: Limits, label: str, jobs: Sequence[Job]) -> dict[str, Record]:
    """Run jobs, show progress, and return their records by key."""
    run: dict[str, Record] = {}
    failed, start = 0, time.monotonic()
    if not jobs:
        return run
    with resolve(Progress).watch(label) as tell:

        def record_cell(job: Job, record: Record) -> None:
            """Store the record of a finished cell, and show the progress."""
            nonlocal failed
            run[job.key] = record
            failed += state_of(record)[0] != PASSED
            remaining_value = (time.monotonic() - start) / len(run) * (len(jobs) - len(run))
            text = "" if label == _DIAGNOSES else f" {failed} not passed,"
            tell(f"{len(run)} of {len(jobs)},{text} about {remaining_value:.0f} s left")

        engine.run(jobs, limits, record_cell)
    return run


class _Sweep:
    """The records of a plan's cells: existing ones and new ones."""

    def __init__(
        self, planned: PlannedSweep, machine: Mapping[str, Any], same_machine: bool
    ) -> None:
        """Set the planned cells, and the machine whose records are valid."""
        self._planned = planned
        self._machine = machine
        self._same_machine = same_machine
        self._records: dict[str, list[Record]] = {}
        self._ran_now: set[str] = set()
        self._no_reference: dict[str, str] = {}
        self.notes: list[str] = []

    def read(self, cells: Sequence[PlannedCell]) -> None:
        """Load existing records; damaged ones are removed with a warning."""
        for cell in cells:
            record = self._read(self._planned.job(cell))
            if record is not None:
                self._records[cell.key] = [record, *self._attempts(cell)]

    def _attempts(self, cell: PlannedCell) -> list[Record]:
        """Return the records of all runs of a cell after the first."""
        attempts: list[Record] = []
        while (record := self._read(self._planned.job(cell, f".{len(attempts) + 2}"))) is not None:
            attempts.append(record)
        return attempts

    def _read(self, job: Job) -> Record | None:
        """Return the record of a job; None if there is none."""
        try:
            record = read_record(job.result)
        except DamagedFileError as error:
            self.notes.append(f"{error} The cell was run again.")
            record = None
        else:
            if record is None or not (self._same_machine and self._is_foreign(record)):
                return record
        forget_record(job.result)
        return None

    def _is_foreign(self, record: Record) -> bool:
        """Return whether a record comes from another machine."""
        return bool(record["machine"] != self._machine)

    def run(self, run: Callable[[str, Sequence[Job]], dict[str, Record]],
            cells: Sequence[PlannedCell], *, repeats_failed: bool) -> None:  # fmt: skip
        """Run the cells without a record, and their references first.
        `repeats_failed` also repeats references that failed for a reason that may be temporary.
        """
        waiting = [cell for cell in cells if cell.key not in self._records]
        shared = {job.key: job for cell in waiting if (job := self._planned.reference_job(cell))}
        records = {key: self._read(job) for key, job in shared.items()}
        for key, record in records.items():
            if repeats_failed and record is not None and state_of(record)[0] in _OF_THE_MOMENT:
                forget_record(shared[key].result)
                records[key] = None
        missing = [job for key, job in shared.items() if records[key] is None]
        records.update(run("References", missing))
        failed = {key: state_of(record) for key, record in records.items() if record is not None}
        self._no_reference = {
            key: summary for key, (state, summary) in failed.items() if state != PASSED
        }
        ready = [cell for cell in waiting if cell.shared_key not in self._no_reference]
        values = run("Cells", [self._planned.job(cell) for cell in ready])
        self._records.update((key, [record]) for key, record in values.items())
        self._ran_now.update(values)

    def repeat(self, run: Callable[[str, Sequence[Job]], dict[str, Record]],
               cells: Sequence[PlannedCell], times: int) -> None:  # fmt: skip
        """Run failed cells again, each up to a total number of times."""
        failed = [cell for cell in cells if self.row(cell).failed]
        for number in range(times):
            suffix = f".{number + 2}"
            again = [cell for cell in failed if len(self._records[cell.key]) == number + 1]
            values = run("Repetitions", [self._planned.job(cell, suffix) for cell in again])
            for cell in again:
                self._records[cell.key].append(values[cell.key + suffix])

    def confirm_slow_cells(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]],
        cells: Sequence[PlannedCell],
        rows: Sequence[Row],
        before: Mapping[str, Record],
    ) -> list[Row]:
        """Return rows with the shortest times of cells that seem slower, which are run again."""
        slow_cells = list(rows)
        pairs = zip(rows, rows_before(rows, before))
        slower = [at for at, (row, earlier) in enumerate(pairs) if is_slower(row, earlier or {})]
        for number in range(_CONFIRMATIONS):
            suffix = f".time{number + 1}"
            again = {at: evolve(self._planned.job(cells[at], suffix), exclusive=True)
                     for at in slower}  # fmt: skip
            for at, job in again.items():
                if cells[at].key in self._ran_now:
                    forget_record(job.result)
            records = {job.key: self._read(job) for job in again.values()}
            records.update(run("Times", [job for job in again.values() if not records[job.key]]))
            for at, job in again.items():
                record = records[job.key]
                is_ours = record is not None and not self._is_foreign(record)
                took = record.get("essence", {}).get("inference") if record and is_ours else None
                times = [time for time in (slow_cells[at].inference, took) if time is not None]
                slow_cells[at] = evolve(slow_cells[at], inference=min(times, default=None))
        return slow_cells

    def profile_rows(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]],
        cells: Sequence[PlannedCell],
        rows: Sequence[Row],
        runs: int,
        before: Mapping[str, Record] | None,
    ) -> list[Row]:
        """Return rows with profiles, and the nodes that became slower since a baseline.
        Cells with such nodes are profiled again, and the shortest times count.
        """
        new_rows = list(rows)
        able = [at for at, row in enumerate(rows) if row.state in _PROFILED]
        jobs = {at: self._planned.profile_job(cells[at], runs) for at in able}
        records = self._run_missing(run, "Profiles", jobs)
        failed: dict[str, list[str]] = {}
        for at, record in records.items():
            times = record.get("essence", {}).get("nodes")
            if times:
                path = PurePath(f"{jobs[at].stem}.nodes.json").relative_to(self._planned.folder)
                is_comparable = not (self._is_foreign(record) or record["shared"])
                nodes = times if is_comparable else ()
                new_rows[at] = evolve(new_rows[at], profile=path.as_posix(), nodes=nodes)
            else:
                failed.setdefault(state_of(record)[1], []).append(rows[at].name)
        for reason, names in failed.items():
            self.notes.append(f"{count_text(len(names), 'cell')} without a profile: {reason}")
        if before is not None:
            self._find_slower_nodes(run, cells, new_rows, runs, before)
        return new_rows

    def _find_slower_nodes(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]],
        cells: Sequence[PlannedCell],
        rows: list[Row],
        runs: int,
        before: Mapping[str, Record],
    ) -> None:
        """Add the nodes that became slower since an earlier sweep to rows."""
        from polygraphy.domain.profiling.regression import find_slower_nodes, shortest_row_times

        earlier: dict[int, Times] = {
            at: old["nodes"]
            for at, (row, old) in enumerate(zip(rows, rows_before(rows, before)))
            if row.nodes and old is not None and old.get("nodes") and not old.get("is_foreign")
        }
        if not earlier and any(row.nodes for row in rows):
            self.notes.append("The baseline has no profiles to compare with: add --profile to it.")
        now: dict[int, list[Times]] = {at: [rows[at].nodes] for at in earlier}
        for number in range(_CONFIRMATIONS + 1):
            slower = {
                at: slower_nodes
                for at, times in now.items()
                if (slower_nodes := find_slower_nodes(earlier[at], shortest_row_times(times)))
            }
            if number == _CONFIRMATIONS:
                break
            suffix = f".time{number + 1}"
            jobs = {at: self._planned.profile_job(cells[at], runs, suffix) for at in slower}
            for at, job in jobs.items():
                if cells[at].key in self._ran_now:
                    forget_record(job.result)
            for at, record in self._run_missing(run, "Times", jobs).items():
                if times := record.get("essence", {}).get("nodes"):
                    now[at].append(times)
            now = {at: now[at] for at in slower}
        for at, slower_nodes in slower.items():
            rows[at] = evolve(rows[at], slower_nodes=slower_nodes)

    def _run_missing(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]],
        label: str,
        jobs: Mapping[int, Job],
    ) -> dict[int, Record]:
        """Return the records of jobs; those without a record are run."""
        read_records = {at: self._read(job) for at, job in jobs.items()}
        ran = run(label, [job for at, job in jobs.items() if read_records[at] is None])
        records = {at: read_records[at] or ran.get(job.key) for at, job in jobs.items()}
        return {at: record for at, record in records.items() if record is not None}

    def diagnose_cells(
        self,
        run: Callable[[str, Sequence[Job]], dict[str, Record]] | None,
        cells: Sequence[PlannedCell],
        rows: Sequence[Row],
    ) -> dict[str, Record]:
        """Return the records of diagnoses of failing cells, by key;
        without `run`, those of an earlier sweep.
        """
        failed = [cell for cell, row in zip(cells, rows) if row.state in _DIAGNOSED]
        jobs = {cell.key: self._planned.diagnosis(cell) for cell in failed}
        records = {key: self._read(job) for key, job in jobs.items()}
        if run is not None:
            values = run(_DIAGNOSES, [job for key, job in jobs.items() if records[key] is None])
            records.update((key, values[job.key]) for key, job in jobs.items() if job.key in values)
        return {key: record for key, record in records.items() if record is not None}

    def saving_command(self, key: str) -> str:
        """Return the command that saves the corrected model of a cell, by the cell's key."""
        [cell] = [cell for cell in self._planned.cells if cell.key == key]
        return self._planned.saving_command(cell)

    def row(self, cell: PlannedCell) -> Row:
        """Return the row of a cell."""
        job, axes = self._planned.job(cell), cell.cell.axes
        row = Row(
            cell.cell.name,
            cell.cell.model,
            cell.cell.label,
            cell.key,
            command=self._planned.command_line(job),
            runner=axes.runner,
            precision=axes.precision,
            shape=axes.shape,
            seed=axes.seed,
            environment=axes.environment,
            labels=cell.cell.labels,
            equal_names=cell.equal_names,
        )
        records = self._records.get(cell.key)
        if records:
            report = PurePath(job.report).relative_to(self._planned.folder).as_posix()
            new_row = row_of(row, records)
            foreign = bool(self._machine) and any(map(self._is_foreign, records))
            return evolve(new_row, is_foreign=foreign, report=report)
        if cell.shared_key in self._no_reference:
            why = f"Its reference failed: {self._no_reference[cell.shared_key]}"
            return evolve(row, state=NO_REFERENCE, summary=why)
        return evolve(row, state=MISSING)
