"""The verdict about pairs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Union

from attrs import frozen

from polygraphy.domain.compare.average import average_of
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.keyed_list import KeyedList
from polygraphy.domain.results import IterationResult
from polygraphy.ports.binding import resolve
from polygraphy.ports.store import ResultStore

__all__ = ["AccuracyResult", "AccuracyResults", "PairResult", "WorstOutput"]

PathOrFile = Union[str, "Path", IO[Any]]
RunnerPair = tuple[str, str]


@frozen
class PairResult:
    """One iteration of two runs, compared by one function.

    `results` maps output names to answers that are truthy when the output passed; `outputs` are the
    two runs' outputs. Where `is_judged` is false, only the average of all iterations is judged.
    """

    runners: RunnerPair
    iteration: int
    label: str
    results: Mapping[str, Any]
    outputs: tuple[IterationResult, IterationResult]
    is_judged: bool = True

    @property
    def mismatched(self) -> list[str]:
        """Names of the outputs that failed."""
        return [name for name, result in self.results.items() if not result]


@frozen
class WorstOutput:
    """The output that exceeds its tolerance the most: by `excess` times, infinite for NaN.

    `iteration` is None for the average of all iterations.
    """

    runners: RunnerPair
    iteration: int | None
    name: str
    result: CompareResult
    excess: float


class AccuracyResult(KeyedList[RunnerPair, Mapping[str, Any]]):
    """What one comparison function found: per pair of runners, per iteration, an answer per output.

    Truthy when every output of every iteration of every pair passed, and at least one was compared.

    Attributes:
        label: name of the comparison function.
        aggregation: ``per_sample`` where every iteration is judged, ``average`` where the mean of
            each metric over the iterations is.
        left_out: per pair, the outputs that were not compared because only one side has them.
    """

    key_description = "Pair of runners"
    label = "simple"
    aggregation = "per_sample"
    left_out: Mapping[RunnerPair, Sequence[str]] = MappingProxyType({})

    @property
    def is_average(self) -> bool:
        """Whether averages over iterations are judged, rather than iterations."""
        return self.aggregation == "average"

    def __bool__(self) -> bool:
        if self.is_average:
            averages = [self.average_results(pair) for pair, _ in self]
            return any(averages) and all(all(found.values()) for found in averages)
        answers = [
            answer
            for _, iterations in self
            for answers in iterations
            for answer in answers.values()
        ]
        return bool(answers) and all(answers)

    def stats(self, runner_pair: RunnerPair | None = None) -> tuple[int, int, int]:
        """Count the iterations of a pair (the first unless given): ``(matched, mismatched,
        total)``; its outputs where averages are judged.
        """
        if self.is_average:
            verdicts = [bool(average) for average in self.average_results(runner_pair).values()]
            return sum(verdicts), len(verdicts) - sum(verdicts), len(verdicts)
        iterations = self[self.keys()[0] if runner_pair is None else runner_pair]
        matched = sum(bool(answers) and all(answers.values()) for answers in iterations)
        return matched, len(iterations) - matched, len(iterations)

    def percentage(self, runner_pair: RunnerPair | None = None) -> float:
        """Return the share of what `stats` counts that matched, in percent; 100 when there is
        none.
        """
        matched, _, total = self.stats(runner_pair)
        return 100.0 * matched / total if total else 100.0

    def average_results(self, runner_pair: RunnerPair | None = None) -> dict[str, CompareResult]:
        """Return, per output of a pair (the first unless given), the mean of each metric over the
        iterations, held to the thresholds of the first one.

        Raises:
            UsageError: the answers hold no metrics.
        """
        iterations = self[self.keys()[0] if runner_pair is None else runner_pair]
        names = dict.fromkeys(name for answers in iterations for name in answers)
        return {
            name: average_of([answers[name] for answers in iterations if name in answers])
            for name in names
        }

    def output_names(self) -> list[str]:
        """Return the names of all outputs that were compared, each once."""
        names = (name for _, iterations in self for answers in iterations for name in answers)
        return list(dict.fromkeys(names))

    def outputs(self) -> Iterator[tuple[RunnerPair, int, str, Any]]:
        """Yield every answer with its pair, iteration and output name."""
        for pair, iterations in self:
            for iteration, answers in enumerate(iterations):
                for name, answer in answers.items():
                    yield pair, iteration, name, answer

    def worst(self) -> WorstOutput | None:
        """Return the output that exceeds its tolerance the most, or comes closest to it; None
        without metrics.
        """
        candidates = [
            WorstOutput(pair, iteration, name, answer, answer.excess)
            for pair, iteration, name, answer in self._judged()
            if isinstance(answer, CompareResult) and answer.excess is not None
        ]
        return max(candidates, key=lambda candidate: candidate.excess, default=None)

    def _judged(self) -> Iterator[tuple[RunnerPair, int | None, str, Any]]:
        """Yield what decides: every answer, or the averages."""
        if not self.is_average:
            yield from self.outputs()
            return
        for pair, _ in self:
            for name, average in self.average_results(pair).items():
                yield pair, None, name, average


class AccuracyResults(list[AccuracyResult]):
    """What several comparison functions found; truthy when all of them passed."""

    def __bool__(self) -> bool:
        return len(self) > 0 and all(self)

    def save(self, dest: PathOrFile) -> None:
        """Write the verdicts to one file, whole or not at all."""
        resolve(ResultStore).save(self, dest)

    @classmethod
    def load(cls, source: PathOrFile) -> AccuracyResults:
        """Read verdicts; FileError when the file is missing, damaged or holds something else."""
        return resolve(ResultStore).load(source, AccuracyResults)

    def to_json(self) -> str:
        """Return the verdicts as JSON text."""
        return resolve(ResultStore).dumps(self)

    @staticmethod
    def from_json(text: str) -> AccuracyResults:
        """Read verdicts from JSON text."""
        return resolve(ResultStore).loads(text, AccuracyResults)
