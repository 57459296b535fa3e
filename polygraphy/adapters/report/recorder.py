"""Records a run for its document; implements the ports `Console` and `Findings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import fmean, median
from typing import Any

from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRows
from polygraphy.domain.accuracy.pairs import PairResult, PairTally
from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.report.document import (
    Comparison,
    DataFacts,
    Party,
    TensorFacts,
    Times,
)
from polygraphy.domain.report.plain import plain
from polygraphy.domain.report.rows import WorstMetrics, document_row
from polygraphy.domain.results.results import DeviceTimes
from polygraphy.domain.results.runner_names import label_of_runner, short_names
from polygraphy.domain.results.validation import OutputValidity
from polygraphy.domain.rounding import Rounding
from polygraphy.domain.tensors.metadata import TensorMetadata

Detail = Callable[[CompareResult], "Mapping[str, Any] | None"]
"""Returns what is known besides about an output that failed."""

_FIRST = 12
"""Outputs that failed first, in the order of the model, of which details are kept."""

_Pair = tuple[str, tuple[int, int]]
"""Which comparison: its function, and the positions of both runs."""


class Recorder:
    """Keeps what happens, and no arrays.

    Attributes:
        notes: what was assumed, each once.
        data: where input data came from, each once.
        comparisons: what was found about pairs of runs.
        results: what commands found besides.
        verdict: what all of it comes to, where the exit code does not tell.
        summary: that in a sentence, where outputs and errors do not tell.
        culprits: what is to blame.
    """

    def __init__(self, detail: Detail | None = None) -> None:
        """Set what is kept about outputs that fail, besides their rows."""
        self.notes: list[str] = []
        self.data: list[DataFacts] = []
        self.comparisons: list[Comparison] = []
        self.results: list[Mapping[str, Any]] = []
        self.verdict: str | None = None
        self.summary = ""
        self.culprits: list[Mapping[str, Any]] = []
        self._parties: dict[str, dict[str, Any]] = {}
        self._table = AccuracyTable()
        self._metrics: dict[_Pair, WorstMetrics] = {}
        self._noise: dict[_Pair, dict[str, Rounding | None]] = {}
        self._details: dict[_Pair, dict[str, tuple[float, Mapping[str, Any]]]] = {}
        self._validation: dict[tuple[str, str], dict[str, Any]] = {}
        self._detail = detail

    @property
    def validation(self) -> list[dict[str, Any]]:
        """Per runner and output, in order, what was found of NaN and infinity in its worst
        iteration.
        """
        return [*self._validation.values()]

    def parties(self) -> list[Party]:
        """Return who took part."""
        return [
            Party(self._short(name), label_of_runner(name), **facts)
            for name, facts in self._parties.items()
        ]

    def _short(self, runner: str) -> str:
        """Return the short name of one who took part."""
        self._party(runner)
        return dict(zip(self._parties, short_names(self._parties)))[runner]

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
        if text not in self.notes:
            self.notes.append(text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        facts = DataFacts(source, seed, iterations)
        if facts not in self.data:
            self.data.append(facts)

    def _party(self, runner: str) -> dict[str, Any]:
        return self._parties.setdefault(runner, {})

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
        self.found("device_times", {"runner": self._short(runner), "mean": mean})

    def runner_failed(self, runner: str, reason: str) -> None:
        self._party(runner)["error"] = reason

    # Comparing.

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        key = (pair.label, pair.positions)
        self._table.add(pair)
        self._metrics.setdefault(key, WorstMetrics()).add(pair.results)
        if self._detail is not None:
            self._details_of(pair, self._details.setdefault(key, {}), self._detail)
            noise = self._noise.setdefault(key, {})
            for name, answer in pair.results.items():
                if isinstance(answer, OutputCompareResult) and name not in noise:
                    noise[name] = answer.rounding

    def _details_of(
        self, pair: PairResult, known: dict[str, tuple[float, Mapping[str, Any]]], look: Detail
    ) -> None:
        """Look closer at what failed worse than before: at the first outputs, and the worst."""
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
        for name in (name for pair in result.keys() for name in pair):  # noqa: SIM118
            self._party(name)
        tables = self._table.tables(result)
        if len(tables) != len(result):  # They were loaded.
            tables = AccuracyTable.of(result)
        for position, (table, tally) in enumerate(zip(tables, result.tallies())):
            self.comparisons.append(self._comparison(position, table, tally, result))

    def _comparison(
        self, position: int, table: OutputRows, tally: PairTally, result: AccuracyResult
    ) -> Comparison:
        key = (result.label, table.positions)
        metrics = self._metrics.get(key)
        if metrics is None or result.is_average:
            metrics = WorstMetrics()
            for answers in result.judged(position):
                metrics.add(answers)
        details, noise = self._details.get(key, {}), self._noise.get(key, {})
        return Comparison(
            function=result.label,
            parties=(self._short(tally.runners[0]), self._short(tally.runners[1])),
            passed=tally.passed,
            matched=tally.matched,
            total=tally.total,
            average=result.is_average,
            outputs=[
                document_row(
                    row,
                    metrics.of(row.name),
                    details.get(row.name, (0, None))[1],
                    noise.get(row.name),
                )
                for row in table.rows()
            ],
            left_out=list(result.left_out_at.get(position, ())),
        )

    # Validating.

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked."""

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """One output was checked; of many iterations the worst is kept."""
        facts = {"runner": self._short(runner), **plain(validity)}
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
