"""Verdicts as rows, and in a few lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults, PairResult
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow, badness, row_in_words
from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.differences import OutputCompareResult, distribution_of
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.results.runner_names import distinct, names_of_runs
from polygraphy.domain.tensors.naming import differing

_MOST = 10
"""Outputs that a summary lists."""


def records_of(results: AccuracyResults) -> list[dict[str, Any]]:
    """Return a dictionary per comparison function, pair of runs and output: what both are called,
    data type and shape, the largest differences or the value of the metric, the tolerance, and in
    how many iterations it passed.
    """
    return [
        {
            "function": result.label,
            "value_of": pair[0],
            "reference": pair[1],
            "output": row.name,
            "dtype": next((each.dtype for each in row.tensors if each is not None), None),
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
        for result, pair, rows in _tables(results)
        for row in rows
    ]


def accuracy_in_words(results: AccuracyResults) -> str:
    """Return the verdict, and a line for each output that failed, the worst first; of what passed,
    the one that came closest to its tolerance.
    """
    if len(results) == 0:
        return "FAILED: nothing was compared."
    lines = []
    for result, pair, rows in _tables(results):
        failed = sorted((row for row in rows if not row.passed), key=badness, reverse=True)
        where = f"{pair[0]} vs. {pair[1]} ({result.label})"
        if failed or not rows:
            counted = differing(len(failed), len(rows)) if rows else "no outputs"
            lines.append(f"FAILED: {where}: {counted}")
            lines += [f"  {_failure(row, pair)}" for row in failed[:_MOST]]
            if len(failed) > _MOST:
                lines.append(f"  and {len(failed) - _MOST} more")
            continue
        closest = max(rows, key=badness)
        outputs = f"{len(rows)} output{'s' * (len(rows) != 1)} matched"
        iterations = f" in {closest.total} iterations" if closest.total > 1 else ""
        lines.append(f"PASSED: {where}: {outputs}{iterations}{_closest(closest)}")
    return "\n".join(lines)


def names_of_pairs(results: Sequence[AccuracyResult]) -> list[list[tuple[str, str]]]:
    """Return, per result and pair, what the two runs are called."""
    runs = list(dict.fromkeys(run for result in results for pair in result.runs() for run in pair))
    names = dict(zip(runs, names_of_runs(runs)))
    return [
        [distinct(names[one], names[other]) for one, other in result.runs()] for result in results
    ]


def _tables(
    results: AccuracyResults,
) -> Iterator[tuple[AccuracyResult, tuple[str, str], Sequence[OutputRow]]]:
    """Yield the rows of each pair of runs, and what these are called."""
    for result, names in zip(results, names_of_pairs(results)):
        for table, pair in zip(AccuracyTable.of(result), names):
            yield result, pair, table.rows()


def _closest(row: OutputRow) -> str:
    excess = row.worst.excess
    if excess is None:
        return ""
    return f"; {row.name!r} needs {excess:.0%} of its tolerance" if excess else "; all equal"


def _failure(row: OutputRow, pair: tuple[str, str]) -> str:
    facts = []
    if row.absolute is not None:
        facts.append(f"max abs {row.absolute:.4g}")
    if row.relative is not None:
        facts.append(f"max rel {row.relative:.4g}")
    if row.limit is not None:
        facts.append(f"allowed {row.limit}")
    if row.worst.mismatched is not None:
        facts.append(f"{row.worst.mismatched} of {row.worst.size} elements")
    if row.total > 1:
        facts.append(f"{row.total - row.matched} of {row.total} iterations")
    return "; ".join(filter(None, (row_in_words(row, pair), ", ".join(facts))))


_Key = tuple[tuple[int, int], int, str]
"""Positions of the two runs, iteration, and name of the output."""


class ComparisonRecord:
    """Collects what is found about each output; of several pairs of runs or iterations the worst
    stands for the output, and the details stay below it.
    """

    def __init__(self) -> None:
        self._entries: dict[_Key, dict[str, Any]] = {}

    def add(self, pair: PairResult) -> None:
        """Take the verdicts of one function on one iteration, while its outputs are at hand."""
        for name, result in pair.results.items():
            key = (pair.positions, pair.iteration, name)
            passed = True if pair.is_judged else None
            entry = self._entries.setdefault(key, {"runners": pair.runners, "passed": passed})
            entry["passed"] = passed and entry["passed"] and bool(result)
            if "max_error" not in entry:
                entry.update(_errors(pair, result))

    def as_dict(self, verdicts: Iterable[AccuracyResult] = ()) -> dict[str, Any]:
        """Return the record of each output: ``max_error`` and ``mean_error``, both absolute and
        None where the output could not be compared, ``passed`` as the verdicts have it,
        ``error_distribution``, and where there are several, the details as ``pairs``, of which none
        has passed or failed by itself where averages are judged.
        """
        failed = {name for verdict in verdicts for name in verdict.failed_names()}
        by_output: dict[str, list[tuple[_Key, dict[str, Any]]]] = {}
        for key, entry in self._entries.items():
            by_output.setdefault(key[2], []).append((key, entry))
        return {
            name: _record(entries, has_failed=name in failed) for name, entries in by_output.items()
        }


def _record(entries: list[tuple[_Key, dict[str, Any]]], *, has_failed: bool) -> dict[str, Any]:
    worst = max((entry for _, entry in entries), key=_badness)
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


def _badness(entry: Mapping[str, Any]) -> tuple[bool, bool, float]:
    """Order entries: what could not be compared is worst, then NaN, then the largest error."""
    error = entry.get("max_error")
    if error is None:
        return entry["passed"] is False, False, 0.0
    return False, isnan(error), 0.0 if isnan(error) else error


def _errors(pair: PairResult, result: Any) -> dict[str, Any]:
    difference = _difference(pair, result)
    if difference is None:
        return {}
    return {
        "max_error": difference.max_abs(),
        "mean_error": difference.mean_abs(),
        "error_distribution": distribution_of(difference),
    }


def _difference(pair: PairResult, result: Any) -> Difference | None:
    """Return the difference of an output, which other functions than `simple` do not form."""
    if isinstance(result, OutputCompareResult) and result.difference is not None:
        return result.difference
    if not isinstance(result, CompareResult):
        return None
    name0, name1 = result.output0_name, result.output1_name
    if name0 is None or name1 is None:
        return None
    if name0 not in pair.outputs[0] or name1 not in pair.outputs[1]:
        return None
    value, reference = np.asarray(pair.outputs[0][name0]), np.asarray(pair.outputs[1][name1])
    return Difference(value, reference) if value.shape == reference.shape else None
