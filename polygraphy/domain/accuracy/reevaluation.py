"""Holds verdicts that there are to other thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits.tolerance import Threshold

Thresholds = Union[Threshold, Mapping[str, Threshold]]
"""One for all outputs, or by output name, in which ``""`` stands for the others."""

AGGREGATIONS = ("per_sample", "average")


def reevaluate(answers: Iterable[tuple[str, Any]], thresholds: Thresholds) -> None:
    """Hold every answer to another threshold; an output that could not be compared keeps failing.

    Args:
        answers: names of outputs, and what a comparison function answered.
        thresholds: what they are held to.

    Raises:
        UsageError: an output has no threshold, or one for metrics that its answer does not hold;
            no answer is changed then.
    """
    chosen = [(answer, _fitting(name, answer, thresholds)) for name, answer in answers]
    for answer, threshold in chosen:
        if threshold is not None:
            answer.set_thresholds(threshold)


def _fitting(name: str, answer: Any, thresholds: Thresholds) -> Threshold | None:
    """Return the threshold of an answer; None where there is nothing to judge."""
    if isinstance(answer, UncomparedResult):
        return None
    threshold = _of(name, thresholds)
    known = answer.metric_values() if isinstance(answer, CompareResult) else {}
    lacking = [field for field in threshold.metric_fields() if known.get(field) is None]
    if lacking or not known:
        raise UsageError(
            f"The results of output {name!r} do not hold {', '.join(lacking) or 'metrics'}, which"
            f" a {type(threshold).__name__} is for.",
            hint=f"They hold: {', '.join(known) or 'a verdict only'}.",
        )
    return threshold


def _of(name: str, thresholds: Thresholds) -> Threshold:
    if isinstance(thresholds, Threshold):
        return thresholds
    found = thresholds.get(name, thresholds.get("")) if isinstance(thresholds, Mapping) else None
    if not isinstance(found, Threshold):
        raise UsageError(
            f"No threshold is given for the output {name!r}.",
            hint='Name it, or give one for all others as "".',
        )
    return found


def check_aggregation(aggregation: str) -> str:
    """Return how verdicts are aggregated, if that is one of `AGGREGATIONS`.

    Raises:
        UsageError: it is not.
    """
    if aggregation not in AGGREGATIONS:
        raise UsageError(
            f"Verdicts are not judged by {aggregation!r}.", hint=f"By {' or '.join(AGGREGATIONS)}."
        )
    return aggregation
