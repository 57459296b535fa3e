"""Keeps the values of the outputs that differ the most."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.domain.accuracy.pairs import PairResult, RunnerPair
from polygraphy.domain.asked import ResultStore
from polygraphy.domain.compare import CompareResult
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.ports.binding import resolve

DEFAULT_PATH = "worst.safetensors"


@frozen
class _Kept:
    """An output, how bad it is, and what both runs made of it."""

    badness: tuple[bool, float]
    runners: RunnerPair
    positions: tuple[int, int]
    values: tuple[Any, Any]


class WorstTensors:
    """Holds the outputs that exceed their tolerance the most, or come closest to it, each in the
    iteration in which it is worst. No more than that is held in memory.
    """

    def __init__(self, count: int, path: str | None = None) -> None:
        """Set how many outputs are kept, and where they are saved.

        Raises:
            UsageError: none would be.
            FileError: nothing can be saved there.
        """
        if count < 1:
            raise UsageError(f"At least one of the worst outputs is saved, not {count}.")
        self._count = count
        self._path = path or DEFAULT_PATH
        self._kept: dict[str, _Kept] = {}
        resolve(ResultStore).writer(self._path, RunResults)  # Complains before anything is run.

    def add(self, pair: PairResult) -> None:
        """Look at the outputs of an iteration, while they are at hand."""
        for name, result in pair.results.items():
            values = _values(pair, name, result)
            if values is None:
                continue
            found = _Kept(_badness(result), pair.runners, pair.positions, values)
            known = self._kept.get(name)
            if known is None or found.badness > known.badness:
                self._kept[name] = found
            if len(self._kept) > self._count:
                del self._kept[min(self._kept, key=lambda each: self._kept[each].badness)]

    def save(self) -> None:
        """Save what is kept, the worst output first: one iteration of each of the runs; nothing
        where no output could be compared.
        """
        names = sorted(self._kept, key=lambda name: self._kept[name].badness, reverse=True)
        runs: dict[int, IterationResult] = {}  # By position: names may repeat.
        for name in names:
            kept = self._kept[name]
            for position, runner, value in zip(kept.positions, kept.runners, kept.values):
                runs.setdefault(position, IterationResult(runner_name=runner))[name] = value
        if names:
            results = RunResults((outputs.runner_name, [outputs]) for outputs in runs.values())
            resolve(ResultStore).save(results, self._path)


def _values(pair: PairResult, name: str, result: Any) -> tuple[Any, Any] | None:
    """Return both sides of an output; None where one of them is not there."""
    name0 = name1 = name
    if isinstance(result, CompareResult):
        name0, name1 = result.output0_name or name, result.output1_name or name
    outputs0, outputs1 = pair.outputs
    if name0 not in outputs0 or name1 not in outputs1:
        return None
    return outputs0[name0], outputs1[name1]


def _badness(result: Any) -> tuple[bool, float]:
    """Return what orders outputs: those that failed first, then by how much of their tolerance they
    need.
    """
    excess = result.excess if isinstance(result, CompareResult) else None
    return not result, excess or 0.0
