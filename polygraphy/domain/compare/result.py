"""What a comparison function answers about one output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf, isnan
from typing import Any

import numpy as np
from attrs import fields, frozen

from polygraphy.domain.arithmetic.moments import exact_sum
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.pickling import pickled_as


@pickled_as("polygraphy.comparator.compare")
@frozen
class ComparedTensor:
    """One side of a comparison, for the record."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(name: str, array: np.ndarray[Any, Any]) -> ComparedTensor:
        """Describe an array."""
        return _described(name, array.dtype, array.shape)

    def __str__(self) -> str:
        return f"{self.name!r} (dtype={self.dtype}, shape={self.shape})"


@lru_cache(maxsize=1024)
def _described(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ComparedTensor:
    """Describe a tensor; those of many iterations share one description."""
    return ComparedTensor(name, str(dtype), shape)


@pickled_as("polygraphy.comparator.compare")
class CompareResult:
    """The answer about one output: truthy when it passed.

    Attributes:
        thresholds: what the output was held to.
        tensor0: the output of the first run, for the record; None when the result was loaded.
        tensor1: the output of the second run.
    """

    def __init__(self, thresholds: Any = None) -> None:
        self.thresholds = thresholds
        self.tensor0: ComparedTensor | None = None
        self.tensor1: ComparedTensor | None = None

    @property
    def output0_name(self) -> str | None:
        """Name of the output in the first run."""
        return self.tensor0.name if self.tensor0 else None

    @property
    def output1_name(self) -> str | None:
        """Name of the output in the second run."""
        return self.tensor1.name if self.tensor1 else None

    def set_thresholds(self, thresholds: Any) -> None:
        """Hold the same metrics to other thresholds."""
        self.thresholds = thresholds

    @property
    def excess(self) -> float | None:
        """How many times what is tolerated is needed; at most 1 when the output passed, infinite
        when nothing would do; None when there is no telling.
        """
        return None

    def metric_fields(self) -> tuple[str, ...]:
        """Name the metrics."""
        return ()

    def metric_values(self) -> dict[str, float | None]:
        """Return the metrics by name; None where one was not computed."""
        return {}

    @property
    def is_in_decibels(self) -> bool:
        """Whether the metrics are ratios of a signal to its noise, in decibels."""
        return False

    def with_metrics(self, values: Mapping[str, float | None]) -> CompareResult:
        """Return a result of the same kind with other metrics, held to the same thresholds.

        Raises:
            UsageError: there are no metrics that tell.
        """
        raise UsageError(f"A {type(self).__name__} has no metrics that could be averaged.")

    def describe(self) -> tuple[str, bool] | None:
        """Return the verdict in a line, and whether it passed; None where a line cannot tell."""
        if self.thresholds is None:
            return None
        described: tuple[str, bool] | None = self.thresholds.describe(self.metric_values())
        return described

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take that are behind the result."""
        return 0

    def own_arrays(self) -> None:
        """Go on with copies of the arrays that are behind the result, so that those may change."""

    def settle(self) -> None:
        """Compute what the result promises and let go of the arrays behind it."""

    def __bool__(self) -> bool:
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle says; NVIDIA's has the metrics as attributes, and names of outputs."""
        if "output0_name" not in state:
            vars(self).update(state)
            return
        thresholds = state["thresholds"]
        if thresholds is not None:  # Made again, with what theirs do not have.
            names = [each.name for each in fields(type(thresholds)) if each.name != "reason"]
            thresholds = type(thresholds)(*(getattr(thresholds, name) for name in names))
        type(self).__init__(self, thresholds=thresholds)
        self._take_their_metrics(state)
        sides = [state["output0_name"], state["output1_name"]]
        self.tensor0, self.tensor1 = (ComparedTensor(name, "?", ()) for name in sides)

    def _take_their_metrics(self, state: dict[str, Any]) -> None:
        """Take the metrics from the state of one of NVIDIA's pickles."""

    def __eq__(self, other: object) -> bool:
        """Compare with a verdict: what passed equals True, what failed False."""
        if isinstance(other, (bool, np.bool_)):
            return bool(self) == bool(other)
        return NotImplemented

    __hash__ = object.__hash__


@pickled_as("polygraphy.comparator.compare")
class UncomparedResult(CompareResult):
    """A failure without metrics: the output is missing on one side, or the shapes differ.

    Attributes:
        reason: what was found and what was expected, in a sentence.
        is_missing: whether one side does not have the output at all.
    """

    def __init__(self, reason: str, *, is_missing: bool = False) -> None:
        super().__init__()
        self.reason = reason
        self.is_missing = is_missing

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"UncomparedResult({self.reason!r})"


def excess_ratio(needed: float | None, allowed: float) -> float:
    """Return `needed` as a multiple of what is `allowed`."""
    if needed is None or isnan(needed):
        return inf
    if allowed == 0:
        return inf if needed > 0 else 0.0
    return needed / allowed


def average_of(answers: Sequence[Any]) -> CompareResult:
    """Return a result that holds the mean of each metric of one output over its iterations.

    It is held to the thresholds of the first iteration. A metric that an iteration does not have is
    left out of the mean; NaN makes the mean NaN. Of decibels the mean is that of the powers that
    they stand for: no iteration, however exact, makes up for the noise of another. Where an output
    could not be compared in one of the iterations there is no mean, and it fails.

    Args:
        answers: what a comparison function answered about the output, one per iteration, at least
            one.

    Raises:
        UsageError: the answers hold no metrics.
    """
    for iteration, answer in enumerate(answers):
        if isinstance(answer, UncomparedResult):
            return answer
        if answer is False:  # As it was saved.
            return UncomparedResult(f"It could not be compared in iteration {iteration}.")
    check_metrics(answers)
    first: CompareResult = answers[0]
    values = [answer.metric_values() for answer in answers]
    mean = _mean_of_decibels if first.is_in_decibels else _mean
    means = {
        field: mean([number for found in values if (number := found[field]) is not None])
        for field in first.metric_fields()
    }
    average = first.with_metrics(means)
    average.tensor0, average.tensor1 = first.tensor0, first.tensor1
    return average


def check_metrics(answers: Iterable[Any]) -> None:
    """Make sure that answers have metrics, or say why an output could not be compared.

    Raises:
        UsageError: an answer has none.
    """
    for answer in answers:
        if isinstance(answer, UncomparedResult):
            continue
        if not isinstance(answer, CompareResult) or not answer.metric_fields():
            raise UsageError(
                "There is no average of verdicts without metrics, as this comparison function gives"
                f" them: {answer!r}.",
                hint="Judge each iteration.",
            )


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    if any(map(math.isnan, values)):
        return math.nan
    mean = exact_sum(values) / len(values)
    if math.isfinite(mean) or not all(map(math.isfinite, values)):
        return mean
    return exact_sum(value / len(values) for value in values)  # The sum is beyond float64.


def _mean_of_decibels(values: Sequence[float]) -> float | None:
    """Return the ratio of a signal to the mean noise, for ratios of a signal to its noise."""
    if not values or any(map(math.isnan, values)):
        return math.nan if values else None
    least = min(values)
    if math.isinf(least):  # One is nothing but noise, or none has any.
        return least
    noise = [10.0 ** ((least - value) / 10) for value in values]  # Of which one is 1.
    return least - 10 * math.log10(exact_sum(noise) / len(noise))
