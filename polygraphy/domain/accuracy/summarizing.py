"""Verdicts as rows, and in a few lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.accuracy.output_rows import (
    AccuracyTable,
    Comparison,
    OutputRow,
    brief_value,
    pairs_with_rows,
    row_in_words,
    row_sort_key,
)
from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.distribution import distribution_of
from polygraphy.domain.compare.result import CompareResult, OutputCompareResult
from polygraphy.domain.results.results import names_of_runs
from polygraphy.domain.tensors.naming import count_text, differing_text, in_percent

_MOST = 10
"""Outputs that a summary lists."""


def comparisons_of(results: Sequence[AccuracyResult]) -> list[Comparison]:
    """Return the comparison of each pair of runs in several results."""
    row_pairs = [
        judged_pair
        for result in results
        for judged_pair in pairs_with_rows(result, AccuracyTable.of(result))
    ]
    runs = list(dict.fromkeys(run for judged_pair in row_pairs for run in judged_pair.runs))
    names = dict(zip(runs, names_of_runs(runs)))
    return [judged_pair.comparison(names, judged_pair.table.rows()) for judged_pair in row_pairs]


def accuracy_records(results: Sequence[AccuracyResult]) -> list[dict[str, Any]]:
    """Return a dictionary for each comparison function, pair of runs and output: names, data type,
    shape, largest differences or metric value, tolerance, and number of passed iterations.
    """
    return [
        {
            "function": comparison.function,
            "value_of": comparison.parties[0],
            "reference": comparison.parties[1],
            "output": row.name,
            "dtype": next((tensor.dtype for tensor in row.tensors if tensor is not None), None),
            "shape": row.shape,
            "max_absdiff": row.absolute,
            "max_reldiff": row.relative,
            "metric": row.value,
            "tolerance": None if row.limit is None else str(row.limit),
            "excess": row.worst.excess,
            "worst_iteration": row.worst.iteration,
            "passed_iterations": row.matched,
            "iterations": row.total,
            "passed": row.passed,
        }
        for comparison in comparisons_of(results)
        for row in comparison.outputs
    ]


def accuracy_in_words(results: Sequence[AccuracyResult]) -> str:
    """Return the verdict on each pair of runs, and a line for each output that failed."""
    if len(results) == 0:
        return "FAILED: nothing was compared."
    return "\n".join(
        f"{'PASSED' if comparison.passed else 'FAILED'}: {comparison.title}:"
        f" {comparison_in_words(comparison)}"
        for comparison in comparisons_of(results)
    )


def comparison_in_words(comparison: Comparison) -> str:
    """Return the number of outputs that match or differ, and a line for each failed output, the
    worst first.
    """
    if comparison.passed:
        worst = worst_row([comparison])
        allowed = "" if worst is None else _tolerance_text(worst[1])
        words = pass_sentence([comparison])
        return f"{words.rstrip('.')}; {allowed}." if allowed else words
    failed = sorted(
        (row for row in comparison.outputs if not row.passed), key=row_sort_key, reverse=True
    )
    lines = [
        failure_sentence([comparison]),
        *(f"  {_failure(row, comparison)}" for row in failed[:_MOST]),
    ]
    if len(failed) > _MOST:
        lines.append(f"  and {len(failed) - _MOST} more")
    return "\n".join(lines)


def _failure(row: OutputRow, comparison: Comparison) -> str:
    """Return the description of an output that failed."""
    facts = []
    if row.absolute is not None:
        facts.append(f"max abs {brief_value(row.absolute)}")
    if row.relative is not None:
        facts.append(f"max rel {brief_value(row.relative)}")
    if allowed := _tolerance_text(row):
        facts.append(allowed)
    if row.worst.mismatched is not None:
        facts.append(f"{row.worst.mismatched} of {row.worst.size} elements")
    if row.total > 1:
        facts.append(f"{row.total - row.matched} of {row.total} iterations")
    return "; ".join(filter(None, (row_in_words(row, comparison.parties), ", ".join(facts))))


def _tolerance_text(row: OutputRow) -> str:
    """Return the tolerance of an output and its reason; empty if unknown."""
    reason = getattr(row.limit, "reason", "")
    words = "" if row.limit is None else f"allowed {row.limit}"
    return f"{words} ({reason})" if reason else words


def worst_row(comparisons: Sequence[Comparison]) -> tuple[Comparison, OutputRow] | None:
    """Return the comparison and the output that exceeds its tolerance most, or comes closest to it.
    Failed outputs that both runs have come first. None if there are no outputs."""
    rows = [(comparison, row) for comparison in comparisons for row in comparison.outputs]
    return max(rows, key=lambda pair: row_sort_key(pair[1]), default=None)


def failure_sentence(comparisons: Sequence[Comparison]) -> str:
    """Return the number of outputs that differ and, if there are many, the first one,
    without a period.
    """
    failed = [comparison for comparison in comparisons if not comparison.passed]
    if len(comparisons) == 1:
        return _failure_text(comparisons[0])
    return "; ".join(f"{comparison.title}: {_failure_text(comparison)}" for comparison in failed)


def _failure_text(comparison: Comparison) -> str:
    """Return the summary of a comparison that failed."""
    rows = [row for row in comparison.outputs if not row.worst.is_missing]
    failing = [row for row in rows if not row.passed]
    missing = count_text(len(comparison.outputs) - len(rows), _noun(comparison))
    if comparison.empty and not failing:
        return f"no output was compared in iteration {comparison.empty[0]}"
    if not rows:
        return "no output was compared" + (
            f": only one run has {missing}" if comparison.outputs else ""
        )
    if not failing:
        unmatched = count_text(len(comparison.outputs) - len(rows), f"other {_noun(comparison)}")
        return (
            f"{count_text(len(rows), _noun(comparison))} matched, but only one run has {unmatched}"
        )
    sentence = differing_text(len(failing), len(rows), _noun(comparison))
    return f"{sentence}{_first_to_fail(comparison, rows, failing)}"


def _first_to_fail(
    comparison: Comparison, rows: Sequence[OutputRow], failing: Sequence[OutputRow]
) -> str:
    """Return the name of the first failed output, if an earlier output passed;
    else an empty string.
    """
    first = failing[0]
    if rows[0].passed:
        facts = [first.node.op] if first.node is not None else []
        facts += [f"number {rows.index(first) + 1}"] if comparison.is_of_layers else []
        return f"; first to fail: {first.name!r}" + (f" ({', '.join(facts)})" if facts else "")
    return ""


def _noun(comparison: Comparison) -> str:
    """Return the noun for rows of a comparison: ``tensor`` or ``output``."""
    return "tensor" if comparison.is_of_layers else "output"


def pass_sentence(comparisons: Sequence[Comparison]) -> str:
    """Return the number of outputs that matched, and the largest share of a tolerance that one
    needed.
    """
    names = {row.name for comparison in comparisons for row in comparison.outputs}
    iterations = max(comparison.iterations for comparison in comparisons)
    facts = f"{count_text(len(names), 'output')} matched"
    if iterations > 1:
        facts += f" {'on average over' if comparisons[0].average else 'in'} {iterations} iterations"
    if len(comparisons) > 1:
        facts += f", {len(comparisons)} comparisons"
    worst = worst_row(comparisons)
    excess = worst[1].worst.excess if worst else None
    if worst is not None and excess == 0:
        facts += "; every element is equal"
    elif worst is not None and excess is not None:
        facts += f"; largest error: {in_percent(excess)} of the tolerance ({worst[1].name!r})"
    return f"{facts}."


_Key = tuple[tuple[int, int], int, str]
"""Positions of the two runs, iteration, and name of the output."""


class ComparisonRecord:
    """Collects a record for each output: the worst of several pairs of runs or iterations, with the
    others as details."""

    def __init__(self) -> None:
        """Create a record without outputs."""
        self._entries: dict[_Key, dict[str, Any]] = {}

    def add(self, pair: PairResult) -> None:
        """Add the results of one function for one iteration while its outputs are in memory."""
        for name, result in pair.results.items():
            key = (pair.positions, pair.iteration, name)
            passed = True if pair.is_judged else None
            entry = self._entries.setdefault(key, {"runners": pair.runners, "passed": passed})
            entry["passed"] = passed and entry["passed"] and bool(result)
            if "max_error" not in entry:
                entry.update(_errors(pair, name))

    def as_dict(self, verdicts: Iterable[AccuracyResult] = ()) -> dict[str, Any]:
        """Return a record for each output:
        ``max_error`` and ``mean_error`` (absolute; None if not comparable), ``passed``,
        ``error_distribution``, and for several comparisons their details as ``pairs``. If averages
        are judged, no pair has passed or failed by itself.
        """
        failed = {name for verdict in verdicts for name in verdict.failed_names()}
        by_output: dict[str, list[tuple[_Key, dict[str, Any]]]] = {}
        for key, entry in self._entries.items():
            by_output.setdefault(key[2], []).append((key, entry))
        return {
            name: _summary_record(entries, has_failed=name in failed)
            for name, entries in by_output.items()
        }


def _summary_record(
    entries: list[tuple[_Key, dict[str, Any]]], *, has_failed: bool
) -> dict[str, Any]:
    """Return the summary of an output: its largest and mean error, and whether it passed in all
    iterations.
    """
    worst = max((entry for _, entry in entries), key=_entry_sort_key)
    record = {
        "max_error": worst.get("max_error"),
        "mean_error": worst.get("mean_error"),
        "passed": not has_failed and all(entry["passed"] is not False for _, entry in entries),
        "error_distribution": worst.get("error_distribution"),
    }
    if len(entries) > 1:
        record["pairs"] = [
            {
                "runners": list(entry["runners"]),
                "iteration": iteration,
                "max_error": entry.get("max_error"),
                "mean_error": entry.get("mean_error"),
                "passed": entry["passed"],
            }
            for (_, iteration, _), entry in entries
        ]
    return record


def _entry_sort_key(entry: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Return a sort key for entries: not comparable, then NaN, then the largest error."""
    error = entry.get("max_error")
    if error is None:
        return entry["passed"] is False, False, 0.0
    return False, isnan(error), 0.0 if isnan(error) else error


def _errors(pair: PairResult, name: str) -> dict[str, Any]:
    """Return the errors of an output, with their distribution; empty without a difference."""
    difference = _difference(pair, name)
    if difference is None:
        return {}
    return {
        "max_error": difference.max_abs(),
        "mean_error": difference.mean_abs(),
        "error_distribution": distribution_of(difference),
    }


def _difference(pair: PairResult, name: str) -> Difference | None:
    """Return the difference of an output; None for functions other than `simple`."""
    result = pair.results[name]
    if isinstance(result, OutputCompareResult) and result.difference is not None:
        return result.difference
    sides = pair.sides(name)
    if sides is None or not isinstance(result, CompareResult) or result.output1_name is None:
        return None
    value, reference = map(np.asarray, sides)
    return Difference(value, reference) if value.shape == reference.shape else None
