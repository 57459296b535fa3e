"""Means of the metrics of one output over iterations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from polygraphy.domain.arithmetic.moments import exact_sum
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import UsageError


def average_of(answers: Sequence[Any]) -> CompareResult:
    """Return a result with the mean of each metric of one output over its iterations.

    The result is judged by the thresholds of the first iteration. A metric that an iteration does
    not have is left out of the mean; NaN makes the mean NaN. Decibels are averaged as the powers
    that they stand for: no iteration, however exact, compensates for the noise of another. If an
    output could not be compared in one of the iterations, there is no mean, and it fails.

    Args:
        answers: what a comparison function answered about the output, one per iteration, at least
            one.

    Raises:
        UsageError: the answers hold no metrics.
    """
    for iteration, answer in enumerate(answers):
        if isinstance(answer, UncomparedResult):
            return answer
        if answer is False:  # Saved results contain False for an output that was not compared.
            return UncomparedResult(f"It could not be compared in iteration {iteration}.")
    check_metrics(answers)
    first: CompareResult = answers[0]
    values = [answer.metric_values() for answer in answers]
    mean = _mean_of_decibels if first.is_in_decibels else _mean
    means = {
        field: mean([number for value in values if (number := value[field]) is not None])
        for field in first.metric_fields()
    }
    average = first.with_metrics(means)
    average.tensor0, average.tensor1 = first.tensor0, first.tensor1
    return average


def check_metrics(answers: Iterable[Any]) -> None:
    """Raise an error if a result has no metrics, with the reason.

    Raises:
        UsageError: an answer has none.
    """
    for answer in answers:
        if isinstance(answer, UncomparedResult):
            continue
        if not isinstance(answer, CompareResult) or not answer.metric_fields():
            raise UsageError(
                f"Verdicts without metrics have no average: {answer!r}.",
                hint="Check each iteration.",
            )


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of values, without overflow; None if there are none."""
    if not values:
        return None
    if any(map(math.isnan, values)):
        return math.nan
    mean = exact_sum(values) / len(values)
    if math.isfinite(mean) or not all(map(math.isfinite, values)):
        return mean
    return exact_sum(value / len(values) for value in values)  # The sum exceeds float64.


def _mean_of_decibels(values: Sequence[float]) -> float | None:
    """Return the ratio of a signal to the mean noise, for ratios of a signal to its noise.
    The result is None if there are none."""
    if not values or any(map(math.isnan, values)):
        return math.nan if values else None
    least = min(values)
    if math.isinf(least):  # Minus infinity: a value is only noise. Infinity: no value has noise.
        return least
    # Relative to the largest noise, so that nothing overflows.
    noise = [10.0 ** ((least - value) / 10) for value in values]
    return least - 10 * math.log10(exact_sum(noise) / len(noise))
