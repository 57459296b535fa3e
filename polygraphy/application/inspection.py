"""Shows what saved data and tactic replays hold, and which tactics may be bad."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from posixpath import join
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport, Detail, IterationReport, RunReport
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.ports import ResultStore, StoredItems
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics import TacticReplay, suspicious_tactics
from polygraphy.ports.reporting import Reports
from polygraphy.ports.storage import load_tactic_replays, path_exists


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
        all_iterations: whether all iterations are shown, rather than only the first.
        show_values: whether the elements are shown.
        histogram: whether the distribution of the elements is shown.
        statistics: whether percentiles are shown, and NaN, infinities and zeros are counted even if
            there are none, with the index of the first.
        num_items: number of elements shown at each end of each dimension of a large array; -1
            for all.
        line_width: the maximum length of a line of elements; -1 for no limit.

    Raises:
        FileError: a file is missing, damaged, or of a different kind.
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


def _report(path: str, stored: StoredItems, detail: Detail, *, all_iterations: bool) -> DataReport:
    """Return the report on iterations.
    Only one is in memory at a time unless elements are shown."""
    is_results = stored.kind is RunResults
    runs = tuple(RunReport(name if is_results else None, count) for name, count in stored.runs)
    steps: Iterator[Any] = stored.iterations()
    for index, step in enumerate(steps if all_iterations else islice(steps, 1)):
        if not is_results:
            runs[0].reports.append(IterationReport.of(index, step, detail))
            continue
        for run, (_, iterations) in zip(runs, step):
            run.reports.extend(
                IterationReport.of(index, iteration, detail) for iteration in iterations
            )
    return DataReport(path, runs, detail, all_iterations)


def inspect_tactics(path: str) -> None:
    """Show the tactic that a build chose for each layer.

    Args:
        path: a tactic replay.

    Raises:
        FileError: the file is missing, damaged, or not a tactic replay.
    """
    replay = _single_replay(path)
    resolve(Reports).replay(replay)


def compare_tactics(path0: str, path1: str) -> None:
    """Show the layers for which two builds chose different tactics.

    Args:
        path0: a tactic replay.
        path1: the tactic replay to compare with.

    Raises:
        FileError: a file is missing, damaged, or not a tactic replay.
    """
    replay0, replay1 = _single_replay(path0), _single_replay(path1)
    resolve(Reports).replays_compared(path0, path1, replay0.difference(replay1))


def find_bad_tactics(
    dir: str | None = None, good: str | None = None, bad: str | None = None
) -> None:
    """Show, by layer, the tactics that failed builds chose and no good build did.

    Args:
        dir: a folder with subfolders ``good`` and ``bad``, which contain the replays of builds that
            passed and failed (default: the current folder).
        good: a replay, or a folder of replays, instead of ``DIR/good``.
        bad: a replay, or a folder of replays, instead of ``DIR/bad``.

    Raises:
        FileError: a folder or a file is missing.
        UsageError: `dir` is set although no file would be read from it.
    """
    if dir is not None and good is not None and bad is not None:
        raise UsageError(
            f"{dir} would not be read, because good and bad replays are both set.",
            hint="Remove the folder, or one of the two.",
        )
    good_replays = _replays("good", dir, good)
    bad_replays = _replays("bad", dir, bad)
    if good is None and bad is None and good_replays is None and bad_replays is None:
        raise FileError(
            f"{dir or 'The current folder'} contains no folder named good or bad.",
            path=dir,
            hint="Set the folder that contains them with --dir, or each with --good and --bad.",
        )
    passed, failed = good_replays or [], bad_replays or []
    resolve(Reports).bad_tactics(len(passed), len(failed), suspicious_tactics(passed, failed))


def _replays(kind: str, folder: str | None, path: str | None) -> list[TacticReplay] | None:
    """Return the replays of one kind; None if no folder or file of that kind is set."""
    if path is not None:
        return load_tactic_replays(path)
    usual = join(folder or "", kind)
    return load_tactic_replays(usual) if path_exists(usual) else None


def _single_replay(path: str) -> TacticReplay:
    """Return the only tactic replay; raise FileError if there are several."""
    replays = load_tactic_replays(path)
    if len(replays) != 1:
        raise FileError(
            f"{path} contains {len(replays)} tactic replays.", path=path, hint="Use a single file."
        )
    return replays[0]
