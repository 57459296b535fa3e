"""Records a program for its document; implements the ports `Console` and `Findings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from polygraphy.domain.report.document import Comparison, DataFacts, Party, TensorFacts, Times
from polygraphy.domain.report.plain import plain
from polygraphy.domain.results.runner_names import (
    distinct,
    label_of_runner,
    names_of_runs,
    without_runner,
)

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResult
    from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow, OutputRows
    from polygraphy.domain.accuracy.pairs import PairResult, PairTally
    from polygraphy.domain.compare.result import CompareResult
    from polygraphy.domain.results.results import DeviceTimes
    from polygraphy.domain.results.validation import OutputValidity
    from polygraphy.domain.tensors.metadata import TensorMetadata

Detail = Callable[["CompareResult"], "Mapping[str, Any] | None"]
"""Returns what is known besides about an output that failed."""

_FIRST = 12
"""Outputs that failed first, in the order of the model, of which details are kept."""

_Pair = tuple[str, tuple[int, int]]
"""Which comparison: its function, and the positions of both runs."""
_Run = tuple[str, str]
"""The name of a runner, and the file that its results are from; empty for none."""


@frozen
class _Compared:
    """A comparison, before everyone who took part is known, and so what each is called."""

    function: str
    runs: tuple[_Run, _Run]
    table: OutputRows
    tally: PairTally
    average: bool
    left_out: Sequence[str]


class Recorder:
    """Keeps what happens, and no arrays.

    Attributes:
        notes: what was assumed, each once.
        data: where input data came from, each once.
        results: what commands found besides.
        verdict: what all of it comes to, where the exit code does not tell.
        summary: that in a sentence, where outputs and errors do not tell.
        culprits: what is to blame.
        detail: what is kept about outputs that fail, besides their rows, and then every metric;
            None for neither.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.data: list[DataFacts] = []
        self.results: list[Mapping[str, Any]] = []
        self.verdict: str | None = None
        self.summary = ""
        self.culprits: list[Mapping[str, Any]] = []
        self.detail: Detail | None = None
        self._compared: list[_Compared] = []
        self._parties: dict[_Run, dict[str, Any]] = {}
        self._details: dict[_Pair, dict[str, tuple[float, Mapping[str, Any]]]] = {}
        self._validation: dict[tuple[str, str], dict[str, Any]] = {}

    def look_closer(self, detail: Detail) -> None:
        """Keep more from now on: of outputs every metric, and of those that fail what `detail`
        returns.
        """
        self.detail = detail

    @cached_property
    def _table(self) -> AccuracyTable:
        from polygraphy.domain.accuracy.output_rows import AccuracyTable

        return AccuracyTable(measures=self.detail is not None)

    @property
    def validation(self) -> list[dict[str, Any]]:
        """Per runner and output, in order, what was found of NaN and infinity in its worst
        iteration.
        """
        names = self._names()
        return [
            {"runner": names[runner, ""], **facts}
            for (runner, _), facts in self._validation.items()
        ]

    @property
    def comparisons(self) -> list[Comparison]:
        """What was found about pairs of runs."""
        names = self._names()
        return [
            Comparison(
                function=each.function,
                parties=distinct(names[each.runs[0]], names[each.runs[1]]),
                passed=each.tally.passed,
                matched=each.tally.matched,
                total=each.tally.total,
                average=each.average,
                outputs=self._rows(each),
                left_out=each.left_out,
                iterations=each.table.iterations,
                empty=each.table.empty,
            )
            for each in self._compared
        ]

    def parties(self) -> list[Party]:
        """Return who took part."""
        names = self._names()
        return [
            Party(names[run], label_of_runner(run[0]), **facts)
            for run, facts in self._parties.items()
        ]

    def _names(self) -> dict[_Run, str]:
        return dict(zip(self._parties, names_of_runs([*self._parties])))

    # Findings.

    def found(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.results.append({"kind": kind, **plain(facts)})

    def conclude(
        self,
        verdict: str | None = None,
        culprits: Sequence[Mapping[str, Any]] = (),
        summary: str = "",
    ) -> None:
        self.verdict = verdict
        self.culprits = [plain(culprit) for culprit in culprits]
        self.summary = summary

    # Running.

    def note(self, text: str) -> None:
        note = without_runner(text)
        if note not in self.notes:
            self.notes.append(note)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        facts = DataFacts(source, seed, iterations)
        if facts not in self.data:
            self.data.append(facts)

    def _party(self, runner: str, file: str = "") -> dict[str, Any]:
        return self._parties.setdefault((runner, file), {})

    def runner_activating(self, runner: str) -> None:
        self._party(runner)

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        self.found("segments", {"segments": segments, "tensors": tensors, "budget": budget})

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of an iteration."""

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner is fed with."""
        self._party(runner).setdefault("inputs", _tensors(metadata))

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        facts = self._party(runner)
        known = {tensor.name: tensor for tensor in facts.get("outputs", ())}
        facts["outputs"] = [*{**known, **{each.name: each for each in _tensors(metadata)}}.values()]

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        if len(runtimes):
            self._party(runner)["times"] = Times(
                count=len(runtimes),
                first=runtimes[0],
                mean=fmean(runtimes),
                min=min(runtimes),
                median=median(runtimes),
                max=max(runtimes),
            )

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        mean = {
            part: fmean(getattr(each, part) for each in times)
            for part in ("to_device", "compute", "to_host", "total")
        }
        self._party(runner)
        self.found("device_times", {"runner": self._names()[runner, ""], "mean": mean})

    def runner_failed(self, runner: str, reason: str) -> None:
        self._party(runner)["error"] = reason

    # Comparing.

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        self._table.add(pair)
        if self.detail is not None:
            key = (pair.label, pair.positions)
            self._details_of(pair, self._details.setdefault(key, {}), self.detail)

    def _details_of(
        self, pair: PairResult, known: dict[str, tuple[float, Mapping[str, Any]]], look: Detail
    ) -> None:
        """Look closer at what failed worse than before: at the first outputs, and the worst."""
        from polygraphy.domain.compare.result import CompareResult

        for name, answer in pair.results.items():
            if answer or not isinstance(answer, CompareResult):
                continue
            excess = inf if answer.excess is None else answer.excess
            if name in known:
                is_wanted = excess > known[name][0]
            else:
                is_wanted = len(known) < _FIRST or excess > max(each for each, _ in known.values())
            found = look(answer) if is_wanted else None
            if found is not None:
                known[name] = excess, found

    def comparison_finished(self, result: AccuracyResult) -> None:
        tables = self._table.tables(result)
        if len(tables) != len(result):  # They were loaded.
            tables = self._table.of(result, measures=self._table.measures)
        found = zip(tables, result.tallies(), result.runs())
        for position, (table, tally, (one, other)) in enumerate(found):
            for run in (one, other):
                self._party(*run)
            left_out = list(result.left_out_at.get(position, ()))
            self._compared.append(
                _Compared(result.label, (one, other), table, tally, result.is_average, left_out)
            )

    def _rows(self, each: _Compared) -> list[OutputRow]:
        details = self._details.get((each.function, each.table.positions), {})
        return [
            evolve(row, detail=details[row.name][1]) if row.name in details else row
            for row in each.table.rows()
        ]

    # Validating.

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked."""

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """One output was checked; of many iterations the worst is kept."""
        self._party(runner)
        facts = plain(validity)
        known = self._validation.setdefault((runner, validity.name), facts)
        if facts["nan"] + facts["inf"] > known["nan"] + known["inf"]:
            known.update(facts)

    def validation_finished(self, passed: bool) -> None:
        """All outputs of an iteration were checked."""


def _tensors(metadata: TensorMetadata) -> list[TensorFacts]:
    return [
        TensorFacts(
            name,
            None if meta.dtype is None else str(plain(meta)["dtype"]),
            None if meta.shape is None else list(plain(meta)["shape"]),
        )
        for name, meta in metadata.items()
    ]
