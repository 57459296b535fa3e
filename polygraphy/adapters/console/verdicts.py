"""Log lines about verdicts: what was compared with what, how far apart they are, and what that
means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.adapters.console.numbers import bars, brief, percentiles, statistics, tolerance
from polygraphy.domain.accuracy import AccuracyResult, PairResult, WorstOutput
from polygraphy.domain.arithmetic import Summary, histogram, summarize
from polygraphy.domain.compare.result import OutputCompareResult, UncomparedResult
from polygraphy.logger import G_LOGGER

__all__ = ["log_iteration", "log_output", "log_summary"]

_SMALL = 100
_KINDS = ("Absolute Difference", "Relative Difference")


def log_output(pair: PairResult, name: str, result: Any) -> None:
    """Tell what was found about one output of one iteration."""
    if isinstance(result, UncomparedResult):
        G_LOGGER.error(f"FAILED | Output: {name!r} | {result.reason}")
    elif isinstance(result, OutputCompareResult):
        _log_compared(pair, result)
    elif result:
        G_LOGGER.finish(f"PASSED | Output: {name!r}")
    else:
        G_LOGGER.error(f"FAILED | Output: {name!r} | {result}")


def _log_compared(pair: PairResult, result: OutputCompareResult) -> None:
    limits = result.tolerance
    G_LOGGER.start(f"Comparing Output: {result.tensor0} with {result.tensor1}")
    with G_LOGGER.indent():
        for statistic in limits.check_error_stat:
            G_LOGGER.info(
                f"Tolerance: [abs={tolerance(limits.atol)}, rel={tolerance(limits.rtol)}] |"
                f" Checking {_named(statistic, result)} error"
            )
        if result.arrays is not None and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
            summaries = [summarize(array) for array in result.arrays]
            for index, summary in enumerate(summaries):
                _log_array(pair.runners[index], pair.outputs[index], result, index, summary)
            _log_metrics(result)
            if not result:
                _log_histograms(pair, result, summaries)
        _log_verdict(result)


def _named(statistic: str, result: OutputCompareResult) -> str:
    return f"{result.quantile:g} quantile" if statistic == "quantile" else statistic


def _log_array(
    runner: str, outputs: Any, result: OutputCompareResult, index: int, summary: Summary
) -> None:
    assert result.arrays is not None
    tensor = (result.tensor0, result.tensor1)[index]
    label = f"{runner}: {tensor.name if tensor else ''}"
    G_LOGGER.info(lambda: f"{label} | Stats: {statistics(summary)}")
    G_LOGGER.verbose(lambda: f"{label} | Percentiles: {percentiles(summary)}")
    if summary.nan or summary.posinf or summary.neginf:
        G_LOGGER.warning(
            f"{label} | Of {summary.size} elements {summary.nan} are NaN, {summary.posinf} are +inf"
            f" and {summary.neginf} are -inf; the statistics are those of the others."
        )
    array = result.arrays[index]
    if array.size <= _SMALL:
        G_LOGGER.verbose(lambda: f"{label} | Values:\n{np.array2string(array)}")


def _log_metrics(result: OutputCompareResult) -> None:
    assert (
        result.tensor0 is not None
        and result.difference is not None
        and result.thresholds is not None
    )
    G_LOGGER.info(f"Error Metrics: {result.tensor0.name}")
    with G_LOGGER.indent():
        for statistic in result.tolerance.check_error_stat:
            absolute, relative = result.required(statistic)
            G_LOGGER.info(
                f"Minimum Required Tolerance: {_named(statistic, result)} error |"
                f" [abs={brief(absolute)}] OR [rel={brief(relative)}]"
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


def _log_histograms(
    pair: PairResult, result: OutputCompareResult, summaries: list[Summary]
) -> None:
    assert result.arrays is not None and result.difference is not None
    tensors = (result.tensor0, result.tensor1)
    edges = [edge for summary in summaries for edge in (summary.min, summary.max)]
    joint = (min(edges), max(edges)) if all(np.isfinite(edge) for edge in edges) else None
    for runner, tensor, array in zip(pair.runners, tensors, result.arrays):
        drawn = histogram(array, range=joint)
        G_LOGGER.info(f"{runner}: {tensor.name if tensor else ''}\n{bars(drawn)}")
    drawn_differences = (
        result.difference.absolute_histogram(),
        result.difference.relative_histogram(),
    )
    for label, drawn in zip(_KINDS, drawn_differences):
        G_LOGGER.info(f"{label}\n{bars(drawn)}")


def _log_verdict(result: OutputCompareResult) -> None:
    assert result.tensor0 is not None
    name = result.tensor0.name
    if result:
        G_LOGGER.finish(
            f"PASSED | Output: {name!r} | Difference is within tolerance {result.tolerance}"
        )
    else:
        G_LOGGER.error(
            f"FAILED | Output: {name!r} | Difference exceeds tolerance {result.tolerance}"
        )


def log_iteration(pair: PairResult) -> None:
    """Tell whether all outputs of one iteration matched."""
    if not pair.results:
        G_LOGGER.error("FAILED | No outputs were compared")
    elif pair.mismatched:
        G_LOGGER.error(f"FAILED | Mismatched outputs: {pair.mismatched}")
    else:
        G_LOGGER.finish(f"PASSED | All outputs matched | Outputs: {list(pair.results)}")


def log_summary(result: AccuracyResult) -> None:
    """Tell how many iterations matched, and in plain words what is worst."""
    for (runner0, runner1), iterations in result.items():
        matched = sum(bool(answers) and all(answers.values()) for answers in iterations)
        rate = 100.0 * matched / len(iterations) if iterations else 0.0
        text = (
            f"Accuracy Summary | {runner0} vs. {runner1} | Passed: {matched}/{len(iterations)}"
            f" iterations | Pass Rate: {rate:.1f}%"
        )
        (G_LOGGER.finish if matched == len(iterations) else G_LOGGER.error)(text)
    if not G_LOGGER.is_enabled_for(G_LOGGER.FINISH if result else G_LOGGER.ERROR):
        return
    worst = result.worst()
    if worst is not None:
        (G_LOGGER.finish if worst.result else G_LOGGER.error)(_in_words(worst))


def _in_words(worst: WorstOutput) -> str:
    """Say by how much the worst output differs, against which tolerance, and why that tolerance."""
    result = worst.result
    limits, found = result.tolerance, result.mismatches
    allowed = (
        f"the tolerance abs={tolerance(limits.atol)} or rel={tolerance(limits.rtol)}"
        f" ({limits.reason})"
    )
    largest = f"{brief(result.max_absdiff)} (relative {brief(result.max_reldiff)})"
    where = f" in iteration {worst.iteration}" if worst.iteration else ""
    if result and worst.excess == 0:
        return (
            f"No difference at all: every element of every output is equal; {allowed} was not"
            " needed."
        )
    if result:
        return (
            f"Worst output: {worst.name!r}{where} differs by at most {largest}; within {allowed}."
        )
    facts = [
        f"Worst output: {worst.name!r}{where} differs by up to {largest}; that exceeds {allowed}."
    ]
    if found is not None and found.worst is not None:
        facts.append(f"{found.count} of {found.size} elements exceed it")
        if found.nan:
            facts[-1] += f", {found.nan} of them because of NaN"
        facts[-1] += (
            f"; the worst is at {found.worst.index}: {brief(found.worst.value)} instead of"
            f" {brief(found.worst.reference)}."
        )
    absolute, relative = result.required(limits.check_error_stat[0])
    if absolute is not None and np.isfinite(absolute):
        facts.append(
            f"An absolute tolerance of {_rounded_up(absolute)} or a relative one of"
            f" {_rounded_up(relative)} would pass."
        )
    elif found is not None and found.nan:
        facts.append("No tolerance would pass: find where the NaN is born.")
    return " ".join(facts)


def _rounded_up(value: float | None) -> str:
    """Return a tolerance with two digits that is not smaller than `value`."""
    if value is None or not np.isfinite(value) or value == 0:
        return brief(value)
    digits = float(f"{value:.1e}")
    step = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return f"{digits if digits >= value else digits + step:.2g}"
