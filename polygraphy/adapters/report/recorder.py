"""Records a run for its document; implements the ports `Console` and `Findings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.report.document import (
    Comparison,
    DataFacts,
    OutputRow,
    Party,
    TensorFacts,
    Times,
)
from polygraphy.domain.report.plain import plain
from polygraphy.domain.report.rows import Rows, rows_of
from polygraphy.domain.results.device_times import DeviceTimes
from polygraphy.domain.results.runner_names import label_of_runner, short_names
from polygraphy.domain.results.validation import OutputValidity
from polygraphy.domain.tensors.metadata import TensorMetadata

Detail = Callable[[PairResult, str], Mapping[str, Any] | None]
"""Returns what is known besides about an output of a pair that failed."""

_Pair = tuple[str, tuple[int, int], tuple[str, str]]
"""Which comparison: its function, positions and names of both runs."""


class Recorder:
    """Keeps what happens, and no arrays.

    Attributes:
        notes: what was assumed, each once.
        data: where input data came from, each once.
        comparisons: what was found about pairs of runs.
        results: what commands found besides.
        verdict: what all of it comes to, where the exit code does not tell.
        culprits: what is to blame.
    """

    def __init__(self, detail: Detail | None = None) -> None:
        """Say what is kept about outputs that fail, besides their rows."""
        self.notes: list[str] = []
        self.data: list[DataFacts] = []
        self.comparisons: list[Comparison] = []
        self.results: list[Mapping[str, Any]] = []
        self.verdict: str | None = None
        self.culprits: list[Mapping[str, Any]] = []
        self._parties: dict[str, dict[str, Any]] = {}
        self._rows: dict[_Pair, Rows] = {}
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
        """Something was found."""
        self.results.append({"kind": kind, **plain(facts)})

    def conclude(self, verdict: str, culprits: Sequence[Mapping[str, Any]] = ()) -> None:
        """Say what all of it comes to."""
        self.verdict = verdict
        self.culprits = [plain(culprit) for culprit in culprits]

    # Running.

    def note(self, text: str) -> None:
        """Something was assumed that the user may want to know."""
        if text not in self.notes:
            self.notes.append(text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Input data are about to be taken from a data loader."""
        facts = DataFacts(source, seed, iterations)
        if facts not in self.data:
            self.data.append(facts)

    def _party(self, runner: str) -> dict[str, Any]:
        return self._parties.setdefault(runner, {})

    def runner_activating(self, runner: str) -> None:
        """A runner is about to build or load its model."""
        self._party(runner)

    def stretches_planned(self, stretches: int, tensors: int, budget: int) -> None:
        """A model is about to be run in stretches of layers."""
        self.found("stretches", {"stretches": stretches, "tensors": tensors, "budget": budget})

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of an iteration."""

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner is fed with."""
        self._party(runner).setdefault("inputs", _tensors(metadata))

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner gave."""
        facts = self._party(runner)
        known = {tensor.name: tensor for tensor in facts.get("outputs", ())}
        facts["outputs"] = [*{**known, **{each.name: each for each in _tensors(metadata)}}.values()]

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """A runner is done."""
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
        """What a runner's device measured."""
        mean = {
            part: fmean(getattr(each, part) for each in times)
            for part in ("to_device", "compute", "to_host", "total")
        }
        self.found("device_times", {"runner": self._short(runner), "mean": mean})

    def runner_failed(self, runner: str, reason: str) -> None:
        """A runner failed where the others go on."""
        self._party(runner)["error"] = reason

    # Comparing.

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        """The outputs of one iteration of two runs were compared."""
        key = (pair.label, pair.positions, pair.runners)
        rows = self._rows.setdefault(key, Rows())
        for name in rows.add(pair.iteration, pair.results):
            detail = None if self._detail is None else self._detail(pair, name)
            if detail is not None:
                rows.detail(name, detail)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """All iterations of all pairs of runs were compared."""
        for name in (name for pair in result.keys() for name in pair):  # noqa: SIM118
            self._party(name)
        followed = [key for key in self._rows if key[0] == result.label]
        for position, tally in enumerate(result.tallies()):
            names = tally.runners
            rows: list[OutputRow]
            if result.is_average:
                rows = rows_of([result.average_results(position)])
            elif position < len(followed) and followed[position][2] == names:
                rows = self._rows[followed[position]].rows()
            else:  # They were loaded.
                rows = rows_of(result.judged(position))
            self.comparisons.append(
                Comparison(
                    function=result.label,
                    parties=(self._short(names[0]), self._short(names[1])),
                    passed=tally.passed,
                    matched=tally.matched,
                    total=tally.total,
                    average=result.is_average,
                    outputs=rows,
                    left_out=list(result.left_out_at.get(position, ())),
                )
            )
        for key in followed:
            del self._rows[key]

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
