"""What is found of two runs: of one iteration, of all of them, and the output that is worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsIndex, Union

from attrs import frozen

from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.results.results import IterationResult

RunnerPair = tuple[str, str]
PairKey = Union[RunnerPair, SupportsIndex, None]
"""Which pair is asked about: by position, or by names, which several pairs may have; the first pair
for None.
"""


@frozen
class PairResult:
    """One iteration of two runs, compared by one function.

    `results` maps output names to answers that are truthy when the output passed; `outputs` are the
    two runs' outputs. Where `is_judged` is false, only the average of all iterations is judged.
    Names of runners may repeat: `positions` says which runs were compared, `origins` which files
    they were read from (empty for none).
    """

    runners: RunnerPair
    iteration: int
    label: str
    results: Mapping[str, Any]
    outputs: tuple[IterationResult, IterationResult]
    is_judged: bool = True
    positions: tuple[int, int] = (0, 1)
    origins: tuple[str, str] = ("", "")

    @property
    def mismatched(self) -> list[str]:
        """Names of the outputs that failed."""
        return [name for name, result in self.results.items() if not result]


@frozen
class PairTally:
    """How many of a pair's iterations matched; of its outputs, where averages are judged.

    An iteration without any output matches nothing.
    """

    runners: RunnerPair
    matched: int
    total: int

    @property
    def passed(self) -> bool:
        """Whether there was something to match, and all of it did."""
        return 0 < self.matched == self.total

    @property
    def percentage(self) -> float:
        """The share that matched, in percent; 0 where there was nothing to match."""
        return 100.0 * self.matched / self.total if self.total else 0.0


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


class FirstFailure(NamedTuple):
    """The first output that fails, in the order of iterations and outputs; `output` is None where
    an iteration was not compared at all.
    """

    iteration: int
    output: str | None


def first_failure(iterations: Iterable[Mapping[str, Any]]) -> FirstFailure | None:
    """Return what fails first; None when every iteration passed."""
    for index, answers in enumerate(iterations):
        if not answers:
            return FirstFailure(index, None)
        for name, answer in answers.items():
            if not answer:
                return FirstFailure(index, name)
    return None
