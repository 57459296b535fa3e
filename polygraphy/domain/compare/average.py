"""The mean of the metrics of several iterations, judged as one iteration is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from polygraphy.domain.arithmetic.sums import exact_sum
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import UsageError

__all__ = ["average_of", "check_metrics"]


def average_of(answers: Sequence[Any]) -> CompareResult:
    """Return a result that holds the mean of each metric of one output over its iterations.

    It is held to the thresholds of the first iteration. A metric that an iteration does not have is
    left out of the mean; NaN makes the mean NaN. Where an output could not be compared in one of
    the iterations there is no mean, and it fails.

    Args:
        answers: what a comparison function answered about the output, one per iteration, at least
            one.

    Raises:
        UsageError: the answers hold no metrics.
    """
    check_metrics(answers)
    for answer in answers:
        if isinstance(answer, UncomparedResult):
            return answer
    first: CompareResult = answers[0]
    values = [answer.metric_values() for answer in answers]
    means = {
        field: _mean([found[field] for found in values if found[field] is not None])
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


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if any(map(math.isnan, known)):
        return math.nan
    mean = exact_sum(known) / len(known)
    if math.isfinite(mean) or not all(map(math.isfinite, known)):
        return mean
    return exact_sum(value / len(known) for value in known)  # The sum is beyond float64.
