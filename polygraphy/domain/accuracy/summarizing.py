"""Verdicts as rows, and in a few lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow
from polygraphy.domain.accuracy.words import badness, row_in_words
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
