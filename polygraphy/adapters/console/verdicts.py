"""Log lines about verdicts: what was compared with what, how far apart they are, and what that
means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from polygraphy.adapters.console.numbers import (
    format_number,
    histogram_bars,
    percentiles,
    statistics,
    tolerance,
)
from polygraphy.adapters.console.tables import table_lines
from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.accuracy.output_rows import brief_pair
from polygraphy.domain.accuracy.rounding_answer import rounding_in_words
from polygraphy.domain.accuracy.summarizing import comparison_in_words, comparisons_of, worst_row
from polygraphy.domain.arithmetic import Histogram, Summary, histogram
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import DetailedResult, MetricResult
from polygraphy.domain.compare.result import CompareResult, OutputCompareResult, UncomparedResult
from polygraphy.domain.report.summary import passing_threshold
from polygraphy.domain.results.results import label_of_runner, label_of_runners
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER


def log_metric(result: MetricResult, *, is_judged: bool = True) -> None:
    """Log a metric, its limit and, if it is judged, whether it passed."""
    _log_output_start(result)
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
    """Return a histogram from plain values."""
    counts = tuple(int(count) for count in drawn["counts"])
    return Histogram(counts, tuple(drawn["bin_edges"]), nonfinite=0, outside=0)


def log_indices(name: str, result: IndicesResult) -> None:
    """Log the number of misplaced entries, and the first of them."""
    _log_output_start(result)
    with G_LOGGER.indent():
        allowed = f"(index tolerance: {result.index_tolerance})"
        if result.first is None:
            G_LOGGER.finish(
                f"PASSED | Output: {name!r} | All {result.size} entries are in place {allowed}"
            )
            return
        first = result.first
        text = "nowhere" if first.place is None else f"at place {first.place}"
        G_LOGGER.error(
            f"FAILED | Output: {name!r} | {result.count} of {result.size} entries are misplaced"
            f" {allowed}; the first is {first.value} at {first.index}, which the other run has"
            f" {text}"
        )


def metric_line(result: MetricResult) -> str:
    """Return ``L2 Norm: 0.1 (tolerance: 1e-05)``."""
    metric = result.metric
    if result.value is None or result.thresholds is None:
        return f"{metric.title}: {format_number(result.value)}{metric.unit}"
    value, limit = brief_pair(result.value, result.thresholds.threshold, 5)
    held_to = "tolerance" if metric.lower_is_better else "min required"
    return f"{metric.title}: {value}{metric.unit} ({held_to}: {limit}{metric.unit})"


def _log_output_start(result: CompareResult) -> None:
    """Log the output that is compared."""
    G_LOGGER.start(f"Comparing Output: {result.tensor0} with {result.tensor1}")


_HANDFUL = 5
"""Outputs of which a table says more than the lines about each."""
_SMALL = 100
_MANY = 20
"""Finite elements of which a distribution says more than they do."""
_KINDS = ("Absolute Difference", "Relative Difference")


def log_outputs(pair: PairResult, *, draws: bool = True) -> None:
    """Log the comparison of all outputs in one iteration; see `log_output`."""
    if G_LOGGER.is_enabled_for(G_LOGGER.FINISH):
        results = pair.results
    else:
        results = {name: result for name, result in pair.results.items() if not result}
    for name, result in results.items():
        log_output(pair, name, result, draws=draws)


def log_output(pair: PairResult, name: str, result: Any, *, draws: bool = True) -> None:
    """Log the comparison of one output in one iteration;
    `draws` enables distributions for failures.
    """
    if isinstance(result, UncomparedResult):
        G_LOGGER.error(f"FAILED | Output: {name!r} | {result.reason}")
    elif isinstance(result, OutputCompareResult):
        _log_comparison(pair, result, draws=draws)
    elif isinstance(result, MetricResult):
        log_metric(result, is_judged=pair.is_judged)
    elif isinstance(result, IndicesResult):
        log_indices(name, result)
    elif result:
        G_LOGGER.finish(f"PASSED | Output: {name!r}")
    else:
        G_LOGGER.error(f"FAILED | Output: {name!r} | {result}")


def _log_comparison(pair: PairResult, result: OutputCompareResult, *, draws: bool) -> None:
    """Log the comparison of an output, with statistics and verdict."""
    if not G_LOGGER.is_enabled_for(G_LOGGER.FINISH if result else G_LOGGER.ERROR):
        return
    limits = result.tolerance
    if G_LOGGER.is_enabled_for(G_LOGGER.INFO):
        result.measure()
    G_LOGGER.start(f"Comparing Output: {result.tensor0} with {result.tensor1}")
    with G_LOGGER.indent():
        for statistic in limits.check_error_stat:
            G_LOGGER.info(
                f"Tolerance: [abs={tolerance(limits.atol)}, rel={tolerance(limits.rtol)}] |"
                f" Checking {_statistic_label(statistic, result)} error"
            )
        if result.difference is not None and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
            summaries = result.difference.operands()
            for index, summary in enumerate(summaries):
                _log_array(pair.runners[index], result, index, summary)
            _log_metrics(result)
            if draws and pair.is_judged and not result and _has_many(summaries):
                _log_histograms(pair, result, summaries)
        if pair.is_judged:
            _log_verdict(result.output0_name or "", result)


def _statistic_label(statistic: str, result: OutputCompareResult) -> str:
    """Return the name of a statistic, with the quantile if it is one."""
    return f"{result.quantile:g} quantile" if statistic == "quantile" else statistic


def _log_array(runner: str, result: OutputCompareResult, index: int, summary: Summary) -> None:
    """Log the statistics of the output of one runner, and its values if it is small."""
    assert result.arrays is not None
    tensor = (result.tensor0, result.tensor1)[index]
    label = f"{label_of_runner(runner)}: {one_line(tensor.name) if tensor else ''}"
    G_LOGGER.info(lambda: f"{label} | Stats: {statistics(summary)}")
    G_LOGGER.verbose(lambda: f"{label} | Percentiles: {percentiles(summary)}")
    if summary.nan or summary.posinf or summary.neginf:
        G_LOGGER.warning(
            f"{label} | {summary.nan} of {summary.size} elements are NaN, {summary.posinf} are"
            f" +inf and {summary.neginf} are -inf; statistics skip them."
        )
    array = result.arrays[index]
    if array.size <= _SMALL:
        G_LOGGER.verbose(lambda: f"{label} | Values:\n{np.array2string(array)}")


def _log_metrics(result: OutputCompareResult) -> None:
    """Log the error metrics of an output."""
    assert (
        result.tensor0 is not None
        and result.difference is not None
        and result.thresholds is not None
    )
    G_LOGGER.info(f"Error Metrics: {one_line(result.tensor0.name)}")
    with G_LOGGER.indent():
        for statistic in result.tolerance.check_error_stat:
            absolute, relative = result.required_tolerances(statistic)
            G_LOGGER.info(
                f"Minimum Required Tolerance: {_statistic_label(statistic, result)} error |"
                f" [abs={format_number(absolute)}] OR [rel={format_number(relative)}]"
                + (
                    " (requirements may be lower if both abs/rel tolerances are set)"
                    if statistic == "elemwise"
                    else ""
                )
            )
        summaries = list(zip(_KINDS, result.difference.summaries()))
        for label, summary in summaries:
            G_LOGGER.info(f"{label} | Stats: {statistics(summary)}")
        for label, summary in summaries:
            G_LOGGER.info(f"{label} | Percentiles: {percentiles(summary)}")


def _has_many(summaries: Sequence[Summary]) -> bool:
    """Return whether there are enough finite elements for a distribution."""
    finite = (s.size - s.nan - s.posinf - s.neginf for s in summaries)
    return min(finite, default=0) >= _MANY


def _log_histograms(
    pair: PairResult, result: OutputCompareResult, summaries: Sequence[Summary]
) -> None:
    """Log histograms of the values and the differences."""
    assert result.arrays is not None and result.difference is not None
    tensors = (result.tensor0, result.tensor1)
    edges = [edge for summary in summaries for edge in (summary.min, summary.max)]
    joint = (min(edges), max(edges)) if all(np.isfinite(edge) for edge in edges) else None
    for runner, tensor, array in zip(pair.runners, tensors, result.arrays):
        drawn = histogram(array, range=joint, threads=result.difference.threads)
        name = one_line(tensor.name) if tensor else ""
        G_LOGGER.info(f"{label_of_runner(runner)}: {name}\n{histogram_bars(drawn)}")
    drawn_differences = (
        result.difference.absolute_histogram(),
        result.difference.relative_histogram(),
    )
    for label, drawn in zip(_KINDS, drawn_differences):
        G_LOGGER.info(f"{label}\n{histogram_bars(drawn)}")


def _log_verdict(name: str, result: OutputCompareResult) -> None:
    """Log PASSED or FAILED for an output."""
    if result:
        G_LOGGER.finish(
            f"PASSED | Output: {name!r} | Difference is within tolerance {result.tolerance}"
        )
    else:
        G_LOGGER.error(
            f"FAILED | Output: {name!r} | Difference exceeds tolerance {result.tolerance}"
        )


def log_iteration(pair: PairResult) -> None:
    """Log whether all outputs of one iteration matched, unless the average decides."""
    if not pair.is_judged:
        return
    by = _function_clause(pair.label)
    if not pair.results:
        G_LOGGER.error(f"FAILED{by} | No outputs were compared")
    elif pair.failed_outputs:
        G_LOGGER.error(f"FAILED{by} | Mismatched outputs: {pair.failed_outputs}")
    else:
        G_LOGGER.finish(f"PASSED{by} | All outputs matched | Outputs: {list(pair.results)}")


def _function_clause(label: str) -> str:
    """Return a phrase that names a comparison function; empty for the default one."""
    return "" if label == "simple" else f" | {label}"


def log_summary(result: AccuracyResult, *, is_explained: bool = True) -> None:
    """Log the number of iterations, or average outputs, that matched;
    if `is_explained`, also an explanation.
    """
    for position, tally in enumerate(result.tallies()):
        text = (
            f"Accuracy Summary{_function_clause(result.label)} | {label_of_runners(tally.runners)}"
            f" | Passed: {tally.matched}/{tally.total}"
            f" {'outputs on average' if result.is_average else 'iterations'}"
            f" | Pass Rate: {tally.percentage:.1f}%"
        )
        if left_out := result.left_out_at.get(position):
            text += f" | Not compared: {len(left_out)} outputs that only one side has"
        (G_LOGGER.finish if tally.passed else G_LOGGER.error)(text)
        if result.is_average:
            _log_averages(result.average_results(position))
    report = G_LOGGER.finish if result else G_LOGGER.error
    if is_explained and G_LOGGER.is_enabled_for(G_LOGGER.FINISH if result else G_LOGGER.ERROR):
        for text in _conclusion(result):
            report(text)


def _conclusion(result: AccuracyResult) -> Iterator[str]:
    """Yield the verdict of each pair of runs, whether it is rounding, and which tolerances would
    pass.
    """
    comparisons = comparisons_of([result])
    for comparison in comparisons:
        if len(comparison.outputs) > _HANDFUL and not comparison.average:
            lines = table_lines(comparison, width=None, full_location="")
            G_LOGGER.info("\n".join(text for text, _ in lines))
        yield comparison_in_words(comparison)
    failing = [row for comparison in comparisons for row in comparison.outputs if not row.passed]
    worst = worst_row(comparisons)
    if any(row.absolute is not None and isnan(row.absolute) for row in failing):
        yield "No tolerance can pass: differences are NaN."
    elif failing and worst is not None and (rounding := rounding_in_words(worst[1], failing)):
        yield f"Is it rounding? {rounding}"
    if needed := passing_threshold(comparisons):
        yield f"The smallest threshold that passes is {needed}."


def _log_averages(averages: Mapping[str, CompareResult]) -> None:
    """Log PASSED or FAILED for the averages over all iterations."""
    with G_LOGGER.indent():
        for name, average in averages.items():
            if isinstance(average, OutputCompareResult):
                for statistic in average.tolerance.check_error_stat:
                    absolute, relative = average.required_tolerances(statistic)
                    G_LOGGER.info(
                        "Average Minimum Required Tolerance:"
                        f" {_statistic_label(statistic, average)} error |"
                        f" [abs={format_number(absolute)}] OR [rel={format_number(relative)}]"
                    )
                _log_verdict(name, average)
                continue
            line = metric_line(average) if isinstance(average, MetricResult) else _reason(average)
            report = G_LOGGER.finish if average else G_LOGGER.error
            report(f"{'PASSED' if average else 'FAILED'} | Output: {name!r} | {line}")


def _reason(result: CompareResult) -> str:
    """Return the reason of a result as text."""
    return result.reason if isinstance(result, UncomparedResult) else str(result)
