"""Log lines about single metrics and about lists of indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from polygraphy.adapters.console.numbers import (
    format_distinct,
    format_number,
    histogram_bars,
)
from polygraphy.domain.arithmetic import Histogram
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import DetailedResult, MetricResult
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.report.summary import round_up
from polygraphy.logger import G_LOGGER


def log_metric(result: MetricResult, *, is_judged: bool = True) -> None:
    """Log a metric, what it is held to and, where it is judged, whether it passed."""
    _log_start(result)
    with G_LOGGER.indent():
        if not is_judged:
            G_LOGGER.info(lambda: metric_line(result))
            return
        report = G_LOGGER.finish if result else G_LOGGER.error
        report(lambda: f"{metric_line(result)} | {'PASSED' if result else 'FAILED'}")
        if isinstance(result, DetailedResult):
            _log_details(result)


def _log_details(result: DetailedResult) -> None:
    """Log the facts behind a metric; a distribution is drawn."""
    facts = [
        f"{name}={format_number(result.details[name])}"
        for name in result.metric.details
        if name in result.details
    ]
    G_LOGGER.info(f"{result.metric.title} | {', '.join(facts)}")
    drawn = result.details.get("histogram")
    if drawn:
        G_LOGGER.info(lambda: histogram_bars(_histogram(drawn)))


def _histogram(drawn: Mapping[str, Sequence[float]]) -> Histogram:
    counts = tuple(int(count) for count in drawn["counts"])
    return Histogram(counts, tuple(drawn["bin_edges"]), nonfinite=0, outside=0)


def log_indices(name: str, result: IndicesResult) -> None:
    """Log how many entries are misplaced, and the first of them."""
    _log_start(result)
    with G_LOGGER.indent():
        allowed = f"(index tolerance: {result.index_tolerance})"
        if result.first is None:
            G_LOGGER.finish(
                f"PASSED | Output: {name!r} | All {result.size} entries are in place {allowed}"
            )
            return
        first = result.first
        found = "nowhere" if first.place is None else f"at place {first.place}"
        G_LOGGER.error(
            f"FAILED | Output: {name!r} | {result.count} of {result.size} entries are misplaced"
            f" {allowed}; the first is {first.value} at {first.index}, which the other run has"
            f" {found}"
        )


def metric_line(result: MetricResult) -> str:
    """Return ``L2 Norm: 0.1 (tolerance: 1e-05)``."""
    metric = result.metric
    if result.value is None or result.thresholds is None:
        return f"{metric.title}: {format_number(result.value)}{metric.unit}"
    value, limit = format_distinct(result.value, result.thresholds.threshold)
    held_to = "tolerance" if metric.lower_is_better else "min required"
    return f"{metric.title}: {value}{metric.unit} ({held_to}: {limit}{metric.unit})"


def metric_words(
    name: str, where: str, result: MetricResult, failing: Sequence[MetricResult] = ()
) -> str:
    """Return how bad the worst output is by this metric, against which threshold, and why that one;
    and which threshold all that failed would pass with.
    """
    metric, thresholds = result.metric, result.thresholds
    if result.value is None or thresholds is None:
        return f"Worst output: {name!r}{where} has no {metric.title} that could be judged."
    value, limit = format_distinct(result.value, thresholds.threshold)
    found = f"Worst output: {name!r}{where} has the {metric.title} {value}{metric.unit}"
    allowed = f"{limit}{metric.unit} ({thresholds.reason})"
    if metric.lower_is_better:
        verdict = "within the tolerance" if result else "that exceeds the tolerance"
    else:
        verdict = "at least the required" if result else "that is less than the required"
    text = f"{found}; {verdict} {allowed}."
    if result:
        return text
    if math.isnan(result.value) or (metric.lower_is_better and math.isinf(result.value)):
        return (
            f"{text} No threshold would pass: an output holds NaN, infinity or nothing but zeros."
        )
    if metric.lower_is_better:
        values = [abs(each.value) for each in failing or [result] if each.value is not None]
        if all(map(math.isfinite, values)):
            return f"{text} A tolerance of {round_up(max(values))} would pass."
    return text


def _log_start(result: CompareResult) -> None:
    G_LOGGER.start(f"Comparing Output: {result.tensor0} with {result.tensor1}")
