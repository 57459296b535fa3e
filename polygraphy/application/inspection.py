"""Shows what saved data hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport, Detail, IterationReport, RunReport
from polygraphy.domain.asked import ResultStore, Stored
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.ports.reporting import Reports


def inspect_data(
    *paths: str,
    all_iterations: bool = False,
    show_values: bool = False,
    histogram: bool = False,
    statistics: bool = False,
    num_items: int = 3,
    line_width: int = 75,
) -> None:
    """Report on input data, results of runners or accuracy results.

    Args:
        paths: files, or folders with one file per iteration, of any of these kinds.
        all_iterations: whether all iterations are shown, not just the first.
        show_values: whether the elements are shown.
        histogram: whether the distribution of the elements is shown.
        statistics: whether NaN, infinities and zeros are counted even where there are none, with
            the index of the first, and percentiles are shown.
        num_items: how many elements are shown at each end of each dimension of a large array; -1
            for all.
        line_width: how long a line of elements may be; -1 for any length.

    Raises:
        FileError: a file is missing, damaged, or of another kind.
        UsageError: `num_items` is zero or less than -1.
    """
    if num_items < -1 or num_items == 0:
        raise UsageError(
            f"{num_items} elements cannot be shown at each end.", hint="Use 1 or more, or -1."
        )
    reports, store = resolve(Reports), resolve(ResultStore)
    detail = Detail(statistics=statistics, histogram=histogram, values=show_values)
    for path in paths:
        stored = store.look_into(path)
        if len(paths) > 1:
            reports.source(path)
        if stored.kind is AccuracyResults:
            reports.accuracy(stored.value())
        else:
            report = _report(path, stored, detail, all_iterations=all_iterations)
            reports.data(report, num_items=num_items, line_width=line_width)


def _report(path: str, stored: Stored, detail: Detail, *, all_iterations: bool) -> DataReport:
    """Report on iterations, of which only one is in memory at a time unless elements are shown."""
    is_results = stored.kind is RunResults
    runs = tuple(RunReport(name if is_results else None, count) for name, count in stored.runs)
    steps: Iterator[Any] = stored.iterations()
    for index, step in enumerate(steps if all_iterations else islice(steps, 1)):
        if not is_results:
            runs[0].reports.append(IterationReport.of(index, step, detail))
            continue
        for run, (_, iterations) in zip(runs, step):
            run.reports.extend(IterationReport.of(index, one, detail) for one in iterations)
    return DataReport(path, runs, detail, all_iterations)
