"""What came of the cells of a sweep: their states, what changed, which failures have one cause, and
what all of it comes to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from polygraphy.domain.diagnosis.words.quantization import with_saving_command
from polygraphy.domain.quantization.causes import PARAMETER_CAUSES
from polygraphy.domain.sweep.cells import matching_cells
from polygraphy.domain.sweep.plan import KnownFailure
from polygraphy.domain.tensors.aliases import IN_DOCUMENT
from polygraphy.domain.tensors.naming import count_text, join_words

if TYPE_CHECKING:
    from polygraphy.domain.profiling.regression import SlowerNodes

PASSED, FAILED, INCONCLUSIVE, FLAKY = "passed", "failed", "inconclusive", "flaky"
ERROR, CRASHED, HUNG, MEMORY = "error", "crashed", "timeout", "memory"
NO_REFERENCE, MISSING = "no reference", "not run"
FAILURES = (FAILED, ERROR, CRASHED, HUNG, MEMORY)
"""States of a cell that is wrong, or could not be run."""
_JUDGED = (PASSED, FAILED, INCONCLUSIVE, FLAKY)
"""States of a cell that ran."""

_EXIT_FAILED, _EXIT_BROKEN, _EXIT_INCONCLUSIVE = 1, 3, 4
_SLOWER = 1.25
"""An inference is slower if it takes this multiple of the earlier time. Chosen, not measured."""
_LONGEST = 160
_VERDICTS = {0: PASSED, 1: FAILED, 4: INCONCLUSIVE}

NEWLY_FAILING, NEWLY_PASSING, SLOWER, FASTER, SLOWER_NODES, KNOWN_PASSES = (
    "newly failing", "newly passing", "slower", "faster", "with slower nodes", "known, but passes",
)  # fmt: skip


def cell_summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a verdict document that a sweep keeps for a cell."""
    rows = [row for value in document["comparisons"] for row in value["outputs"]]
    worst = max(rows, key=_output_sort_key, default=None)
    times = [value["times"] for value in document["parties"] if value["times"]]
    values: dict[str, Any] = {"summary": document["summary"], "verdict": document["verdict"]}
    if worst is not None:
        values["output"] = worst["name"]
        values["difference"] = worst["metrics"].get("max_absdiff")
        values["excess"] = worst["excess"]
    failed = [row for row in rows if not row["passed"]]
    if failed and all(row.get("is_rounding") for row in failed):
        values["rounding"] = str((failed[0].get("rounding") or {}).get("dtype") or "")
    if times:
        values["inference"] = times[0]["median"]
    if document["culprits"]:
        values["culprits"] = document["culprits"]
    if any(value["kind"] == "profile" for value in document["results"]):
        from polygraphy.domain.profiling.regression import times_in

        values["nodes"] = times_in(document["results"])
    return values


def _output_sort_key(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Return the sort key of an output: whether it failed, and its excess over the tolerance."""
    excess = row["excess"]
    number = excess if isinstance(excess, (int, float)) else float("inf") if excess else 0.0
    return not row["passed"], number


@frozen
class Row:
    """A cell with its result.

    Attributes:
        name: of the cell.
        model: its model.
        label: its combination.
        key: its key in the folder.
        state: one of the words above.
        summary: the reason, in a sentence.
        output: the output that differs most.
        difference: its largest absolute difference.
        inference: seconds that an inference took, in the median; None where that is not known.
        seconds: that its process took.
        memory: that its process took at most, in bytes.
        is_shared: whether other cells ran beside it.
        is_foreign: whether another machine ran it.
        known: the reason why its failure is expected; empty if it is not.
        changes: the changes since the baseline.
        command: the command line that repeats it.
        report: the path of its verdict document, from the folder of the sweep on.
        attempts: the states of its repetitions, the first attempt included, if there were any.
        runner: its value on that axis of the plan, as `precision`, `shape`, `seed` and
            `environment` are; empty where the plan lacks the axis.
        rounding: the data type whose rounding explains all differences; empty where it does not.
        profile: the path of its profile, from the folder of the sweep on; empty if there is none.
        nodes: the times in its profile, for later sweeps to compare with; see
            `polygraphy.domain.profiling.regression`.
        slower_nodes: the nodes that take longer than in the baseline.
        labels: its label, and those that it has in plans with fewer axes.
        equal_names: the names of other combinations that are the same, which are not run again.
    """

    name: str
    model: str
    label: str
    key: str
    state: str = MISSING
    summary: str = ""
    output: str | None = None
    difference: Any = None
    inference: float | None = None
    seconds: float | None = None
    memory: int | None = None
    is_shared: bool = False
    is_foreign: bool = False
    known: str = ""
    changes: Sequence[str] = ()
    command: str = ""
    report: str = ""
    attempts: Sequence[str] = ()
    runner: str = ""
    precision: str = ""
    shape: str = ""
    seed: int | None = None
    environment: str = ""
    rounding: str = ""
    profile: str = ""
    nodes: Sequence[Mapping[str, Any]] = ()
    slower_nodes: Sequence[SlowerNodes] = ()
    labels: Sequence[str] = field(default=(), metadata={IN_DOCUMENT: False})
    equal_names: Sequence[str] = field(default=(), metadata={IN_DOCUMENT: False})

    @property
    def names(self) -> list[str]:
        """Return its name, its names in plans with fewer axes, and those of equal combinations."""
        labels = (f"{self.model} {label}" for label in self.labels)
        return [self.name, *labels, *self.equal_names]

    @property
    def failed(self) -> bool:
        """Return whether outputs are incorrect, or the cell could not run."""
        return self.state in FAILURES


def state_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state that the record of a process means, and the reason."""
    ended, code, seconds = record["ended"], record["code"], record["seconds"]
    name = str(record.get("essence", {}).get("summary") or record["said"] or "")
    if ended == HUNG:
        return HUNG, f"Stopped after {seconds:.0f} s: the time limit."
    if ended == MEMORY:
        return MEMORY, f"Stopped at {record['memory'] / (1 << 20):.0f} MiB: the memory limit."
    if code is None or code < 0:
        last = f" Last line: {name}" if name else ""
        return CRASHED, f"Stopped by signal {-(code or 0)}.{last}"
    state = _VERDICTS.get(code, ERROR)
    if "essence" not in record and state != ERROR:
        return ERROR, f"Exited with code {code} and left no verdict."
    return state, name or f"Exited with code {code} and no output."


def row_of(row: Row, records: Sequence[Mapping[str, Any]]) -> Row:
    """Return the row of a cell with the results of its runs, the first run first."""
    states = [state_of(record) for record in records]
    state, summary = states[0]
    if any(name != state for name, _ in states):
        summary = f"Verdicts differ: {', '.join(name for name, _ in states)}."
        state = FLAKY
    first = records[0]
    measured_value = first.get("essence", {})
    return evolve(
        row,
        state=state,
        summary=summary,
        output=measured_value.get("output"),
        difference=measured_value.get("difference"),
        inference=measured_value.get("inference"),
        seconds=first["seconds"],
        memory=first["memory"],
        rounding=measured_value.get("rounding", "") if state == FAILED else "",
        is_shared=first["shared"],
        attempts=[name for name, _ in states] if len(states) > 1 else (),
    )


def mark_known_failures(
    rows: Sequence[Row],
    known_failures: Sequence[KnownFailure],
    today: str,
    names: Sequence[str] | None = None,
) -> tuple[list[Row], list[str]]:
    """Return rows with reasons of known failures, and sentences on outdated ones.
    Those are expired, pass now, or match no cell.

    Args:
        rows: the cells of this sweep.
        known_failures: the failures.
        today: the day, as in ``2026-12-31``.
        names: those of all cells of the plan, where this sweep runs a part of them.
    """
    cell_indexes: dict[str, set[int]] = {name: set() for name in names or ()}
    for at, row in enumerate(rows):
        for name in row.names:
            cell_indexes.setdefault(name, set()).add(at)
    new_rows, notes = list(rows), []
    for known_failure in known_failures:
        intended_names = matching_cells(cell_indexes.keys(), known_failure.cell)
        if known_failure.is_expired(today):
            notes.append(
                f"Known failure {known_failure.cell!r} ({known_failure.reason}) expired on"
                f" {known_failure.until}."
            )
            continue
        if not intended_names:
            notes.append(
                f"Known failure {known_failure.cell!r} ({known_failure.reason}) matches no cell."
            )
        for at in sorted(set().union(*(cell_indexes[name] for name in intended_names))):
            row = new_rows[at]
            if row.failed:
                new_rows[at] = evolve(row, known=known_failure.reason)
            elif row.state == PASSED:
                notes.append(
                    f"{row.name} passes, but is listed as a known failure ({known_failure.reason})."
                )
                new_rows[at] = evolve(row, changes=[*row.changes, KNOWN_PASSES])
    return new_rows, notes


def compare_with_baseline(
    rows: Sequence[Row], baseline: Mapping[str, Mapping[str, Any]]
) -> list[Row]:
    """Return rows with their changes since a baseline: the rows of an earlier sweep, by name."""
    earlier = rows_before(rows, baseline)
    return [evolve(row, changes=[*_changes(row, before), *row.changes])
            for row, before in zip(rows, earlier)]  # fmt: skip


def rows_before(
    rows: Sequence[Row], baseline: Mapping[str, Mapping[str, Any]]
) -> list[Mapping[str, Any] | None]:
    """Return, for each cell, its row in an earlier sweep; None for a new cell.

    Cells with the same key are the same. If a model, a package or a flag changed, the key did too:
    then the name decides, or a name that the cell has in a plan with fewer axes.
    """
    keys = {(before.get("model"), before.get("key")): before for before in baseline.values()}
    return [
        keys.get((row.model, row.key))
        or next((baseline[name] for name in row.names if name in baseline), None)
        for row in rows
    ]


def _changes(row: Row, before: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the changes of a cell since its row in an earlier sweep."""
    if row.failed and (before is None or before["state"] not in FAILURES):
        yield NEWLY_FAILING
    if before is None:
        return
    if row.state == PASSED and before["state"] in FAILURES:
        yield NEWLY_PASSING
    if row.slower_nodes:
        yield SLOWER_NODES
    factor = slowdown(row, before)
    if factor is not None and factor > _SLOWER:
        yield SLOWER
    elif factor is not None and factor < 1 / _SLOWER:
        yield FASTER


def slowdown(row: Row, before: Mapping[str, Any]) -> float | None:
    """Return the ratio of inference time to the earlier one, or None.
    The result is None if the cell did not pass, or the times are not comparable because of
    parallel cells or another machine."""
    times = (row.inference, before.get("inference"))
    is_alone = not (row.is_shared or before.get("is_shared", True))
    is_here = not (row.is_foreign or before.get("is_foreign", True))
    if not (is_alone and is_here) or row.state != PASSED or not all(times):
        return None
    return float(times[0] or 0) / float(times[1] or 1)


def is_slower(row: Row, before: Mapping[str, Any]) -> bool:
    """Return whether inferences seem slower than before, which a repetition must confirm."""
    return (slowdown(row, before) or 0.0) > _SLOWER


# Common properties of failures.


@frozen
class Group:
    """Cells that fail for the same cause.

    Attributes:
        cause: in a sentence.
        remedy: the command that helps, or what else does; empty where that is not known.
        proven: whether the remedy was tried.
        cells: their names.
        is_diagnosed: whether a diagnosis says so; otherwise they say the same.
    """

    cause: str
    cells: Sequence[str]
    remedy: str = ""
    proven: bool = False
    is_diagnosed: bool = False


_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b\d[\d.,]*(?:e[+-]?\d+)?\b")


def groups_of(
    rows: Sequence[Row],
    diagnoses: Mapping[str, Mapping[str, Any]],
    saving: Callable[[str], str] = lambda key: "",
) -> list[Group]:
    """Return the causes of failures and of missing references, most cells first.
    A cell without a cause of its own gets that of another cell of its model with the same error.

    Args:
        rows: all cells.
        diagnoses: the records of diagnoses, by the key of a cell.
        saving: returns the command that saves the corrected model of a cell, by its key.
    """
    rows_found: dict[str, list[Row]] = {}
    first: dict[str, Group] = {}
    parameters: dict[str, dict[str, Row]] = {}
    failed = [row for row in rows if row.failed or row.state == NO_REFERENCE]
    culprits = {row.key: diagnoses.get(row.key, {}).get("essence", {}).get("culprits")
                for row in failed}  # fmt: skip
    causes = {(row.model, _normalize(row.summary, row)): culprits[row.key]
              for row in failed if row.state == ERROR and culprits[row.key]}  # fmt: skip
    for row in failed:
        reason = (row.model, _normalize(row.summary, row))
        blamed = culprits[row.key] or (causes.get(reason) if row.state == ERROR else None)
        group = (
            _culprit_group(blamed[0])
            if blamed
            else _group_without_names(row, diagnoses.get(row.key))
        )
        cause = group.cause if blamed else _normalize(group.cause, row)
        rows_found.setdefault(cause, []).append(row)
        first.setdefault(cause, group)
        if blamed and blamed[0].get("cause") in PARAMETER_CAUSES:
            parameters.setdefault(cause, {}).setdefault(group.remedy, row)
    groups = [
        evolve(
            first[cause],
            cells=[row.name for row in rows_found[cause]],
            remedy=_join_remedies(
                parameters.get(cause, {first[cause].remedy: rows_found[cause][0]}), saving
            ),
        )
        for cause in rows_found
    ]
    return sorted(groups, key=lambda group: (-len(group.cells), group.cause))


_REMEDIES = 3
"""Most different remedies that are shown for one cause."""


def _join_remedies(cells: Mapping[str, Row], saving: Callable[[str], str]) -> str:
    """Return the remedies of a group: one for all cells, or each with its first cell, because the
    correct value of a parameter only helps there."""
    shown = [
        (row.name, with_saving_command(remedy, partial(saving, row.key)))
        for remedy, row in islice(cells.items(), _REMEDIES)
        if remedy
    ]
    if len(cells) == 1:
        return shown[0][1] if shown else ""
    more = " ..." if len(cells) > _REMEDIES else ""
    return " ".join(f"{name}: {remedy}" for name, remedy in shown) + more


_OLD_CAUSES = {"quantisation": "quantization"}
"""Names of causes in reports of earlier versions, by which a resumed sweep may group cells."""


def _culprit_group(culprit: Mapping[str, Any]) -> Group:
    """Return the group of a culprit: of one node, party and pass."""
    nodes = [str(node) for node in culprit.get("nodes") or ()]
    kind = _OLD_CAUSES.get(str(culprit.get("cause")), culprit.get("cause"))
    if kind in PARAMETER_CAUSES:  # Such faults of any model and node are one group.
        nodes, culprit = [], {**culprit, "op": "Quantization"}
    name = f"{culprit.get('op') or ''} {join_words(list(map(repr, nodes[:4])))}".strip()
    by = f" by {culprit['rewrite']}" if culprit.get("rewrite") else ""
    cause = f"{name or 'Data'}: {kind}{by} ({culprit.get('party')})"
    remedy = culprit.get("remedy") or {}
    helps = str(remedy.get("command") or remedy.get("note") or "")
    return Group(cause, (), helps, bool(remedy.get("proven")), True)


def _group_without_names(row: Row, diagnosis: Mapping[str, Any] | None) -> Group:
    """Return the group of a cell by its reason, ignoring model names and numbers."""
    if row.state == FAILED and row.rounding:
        return Group(f"{row.rounding} rounding explains the differences. The tolerance of the plan"
                     " is too strict for this precision.", (), _TOLERANCE)  # fmt: skip
    if row.state == FAILED:
        if diagnosis is None:
            return Group("Outputs differ; not diagnosed (add --diagnose)", ())
        state, text = state_of(diagnosis)
        has_ended = state in _JUDGED
        why = "and the diagnosis found no fault" if has_ended else "but their diagnosis failed"
        first = text.partition(". ")[0].rstrip(".")
        return Group(f"Outputs differ, {why}: {_shorten(first)}", ())
    if row.state in (HUNG, MEMORY):
        return Group({HUNG: "The time limit", MEMORY: "The memory limit"}[row.state], ())
    return Group(f"{row.state}: {_shorten(row.summary)}", ())


_TOLERANCE = 'flags = "--rtol auto --atol auto" in the plan'


def _shorten(text: str) -> str:
    """Return the first line of a text; for a long one the sentences, else the words, that fit."""
    line = text.partition("\n")[0]
    if len(line) <= _LONGEST:
        return line
    sentence, word = (line.rfind(end, 0, _LONGEST) for end in (". ", " "))
    if sentence > 0:
        return line[: sentence + 1]
    return f"{line[: word if word > 0 else _LONGEST]} ..."


def _normalize(text: str, row: Row) -> str:
    """Return the first line of a text without the model of a cell, and without numbers."""
    return _NUMBER.sub("N", text.partition("\n")[0].replace(row.model, "MODEL"))


@frozen
class SweepOutcome:
    """The result of a sweep.

    Attributes:
        rows: the cells, in the order of the plan.
        groups: the causes of failures.
        notes: further notes.
        has_baseline: whether it was compared with an earlier one.
        is_strict: whether a known failure that passes counts.
        merged: the number of combinations that equal others.
        folder: the folder of the reports.
    """

    rows: Sequence[Row]
    groups: Sequence[Group] = ()
    notes: Sequence[str] = ()
    has_baseline: bool = False
    is_strict: bool = False
    merged: int = 0
    folder: str = ""

    @property
    def labels(self) -> list[str]:
        """Return the combinations, in order."""
        return list(dict.fromkeys(row.label for row in self.rows))

    @property
    def matrix(self) -> dict[str, dict[str, Row]]:
        """Return the cells by model and combination."""
        new_rows: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            new_rows.setdefault(row.model, {})[row.label] = row
        return new_rows

    @property
    def new_failures(self) -> list[Row]:
        """Return the unknown failures that, with a baseline, did not fail in it."""
        failures = [row for row in self.rows if row.failed and not row.known]
        if self.has_baseline:
            return [row for row in failures if NEWLY_FAILING in row.changes]
        return failures

    @property
    def exit_code(self) -> int:
        """Return the exit code of a sweep; see the page on exit codes."""
        states = {row.state for row in self.rows} - {MISSING}
        has_run = states & {*_JUDGED, NO_REFERENCE}
        if not has_run and any(row.failed and not row.known for row in self.rows):
            return _EXIT_BROKEN
        if self.new_failures or (self.is_strict and self._passing_known_failures):
            return _EXIT_FAILED
        return _EXIT_INCONCLUSIVE if states & {INCONCLUSIVE, FLAKY, NO_REFERENCE} else 0

    @property
    def _passing_known_failures(self) -> int:
        """Return the number of known failures that pass now."""
        return sum(KNOWN_PASSES in row.changes for row in self.rows)

    @property
    def summary(self) -> str:
        """Return the result of the sweep in one or two sentences."""
        counts = Counter(row.state for row in self.rows)
        if self.rows and counts[MISSING] == len(self.rows):
            return f"{count_text(len(self.rows), 'cell')}; none was run."
        known_count = sum(bool(row.known) for row in self.rows)
        words = [f"{count} {state}" for state, count in counts.most_common() if state != PASSED]
        text = f"{counts[PASSED]} of {count_text(len(self.rows), 'cell')} passed"
        text += f"; {', '.join(words)}" if words else ""
        if known_count:
            text += f"; {known_count} of the failures {'is' if known_count == 1 else 'are'} known"
        if passing := self._passing_known_failures:
            text += (
                f"; {count_text(passing, 'known failure')} {'passes' if passing == 1 else 'pass'}"
            )
        if self.has_baseline:
            changes = Counter(change for row in self.rows for change in row.changes)
            kinds = (NEWLY_FAILING, NEWLY_PASSING, SLOWER, FASTER, SLOWER_NODES)
            parts = [f"{changes[kind]} {kind}" for kind in kinds if changes[kind]]
            text += f"; since the baseline: {', '.join(parts) or 'nothing new'}"
        causes = len(self.groups)
        return f"{text}; {count_text(causes, 'cause')}." if causes else f"{text}."
