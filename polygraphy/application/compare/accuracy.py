"""Compares what runners produced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.compare.depth import DepthPlot
from polygraphy.application.compare.iterations import (
    compare_iteration,
    not_shared,
    only_shared,
    with_chosen,
)
from polygraphy.application.compare.worst import WorstTensors
from polygraphy.application.run.steps import Runs, Step, iterations_of
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.accuracy.answer_log import AnswerLog
from polygraphy.domain.accuracy.comparison_record import ComparisonRecord
from polygraphy.domain.accuracy.pairs import PairResult
from polygraphy.domain.asked import ResultStore
from polygraphy.domain.calling import check_signature, name_of, supporting
from polygraphy.domain.compare import (
    CompareResult,
    PairwiseCompareFunc,
    SimpleCompareFunc,
)
from polygraphy.domain.compare.average import check_metrics
from polygraphy.domain.compare.function import JudgesAverages, Labelled, UsesThreads
from polygraphy.domain.errors import CheckFailedError, InconclusiveError, UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.results.runner_names import label_of_runner
from polygraphy.domain.tensors.naming import Note
from polygraphy.ports.binding import resolve
from polygraphy.ports.machine import Machine
from polygraphy.ports.reporting import Console
from polygraphy.ports.storage import Spools

__all__ = ["Runs", "compare_accuracy", "default_comparisons", "iterations_of"]


_MOST_KEPT = 256 << 20
"""Bytes of arrays that are kept of results in memory, for a closer look at the verdicts."""


def default_comparisons(run_count: int) -> list[tuple[int, int]]:
    """Return the pairs that are compared unless others are given: each run with the next."""
    return [(index, index + 1) for index in range(run_count - 1)]


def compare_accuracy(
    run_results: Runs,
    *,
    fail_fast: bool = False,
    comparisons: Sequence[tuple[int, int]] | None = None,
    compare_func: Any = None,
    allow_missing_outputs: bool = False,
    check_average: bool = False,
    add_to_outputs_path: str | None = None,
    save_worst: int | None = None,
    save_worst_path: str | None = None,
    save_error_by_depth: str | None = None,
    save_accuracy_path: str | None = None,
) -> AccuracyResults:
    """Compare runs pair by pair, iteration by iteration.

    A stream is taken one iteration at a time, and the arrays of an iteration are let go when it was
    compared.

    Args:
        run_results: results, a stream of them (one iteration each), or a list of such, whose runs
            are joined in order.
        fail_fast: whether to stop after the first iteration that fails.
        comparisons: pairs of indices of runs (default: each run with the next).
        compare_func: a comparison function, or several, all of which must pass; a class stands for
            an instance of it (default: `SimpleCompareFunc()`).
        allow_missing_outputs: whether an output that one side lacks is left out instead of failing.
        check_average: whether the mean of each metric over the iterations is judged, rather than
            each iteration.
        add_to_outputs_path: a file that the results were saved to, to which what was found about
            each output is added; None for none.
        save_worst: how many of the outputs that exceed their tolerance the most are saved.
        save_worst_path: where (default: worst.safetensors).
        save_error_by_depth: where a plot of the differences over the outputs, in the order of the
            model, is saved; None for no plot.
        save_accuracy_path: where the results are saved, before a check of the stream that failed
            is raised; None for not at all.

    Raises:
        CheckFailedError: a check that a stream made on the way failed.
        UsageError: a comparison names a run that there is not; or averages are asked for together
            with `fail_fast`, or of a function whose verdicts have no average.
        InconclusiveError: there were no two runs, or no iteration, or a function answered about no
            output.
    """
    comparison = _Comparison(
        compare_func,
        comparisons,
        allow_missing_outputs=allow_missing_outputs,
        keep_arrays=isinstance(run_results, RunResults),
        check_average=check_average,
        record=None if add_to_outputs_path is None else ComparisonRecord(),
        worst=WorstTensors(save_worst, save_worst_path) if save_worst else None,
    )
    plot = None if save_error_by_depth is None else DepthPlot(save_error_by_depth)
    if check_average and fail_fast:
        raise UsageError("An average is of all iterations, so there is no stopping at the first.")
    steps = iterations_of(run_results)
    held_back: CheckFailedError | None = None  # A check that a stream made on the way said no.
    try:
        while (step := next(steps, None)) is not None:
            go_on = comparison.take(step, fail_fast=fail_fast)
            del step  # Nothing of this iteration is held while the next one runs.
            if not go_on:
                break
    except CheckFailedError as error:
        held_back = error
    finally:
        steps.close()
    verdicts = comparison.verdicts if comparison.pairs else None
    if add_to_outputs_path is not None and comparison.record is not None and verdicts is not None:
        resolve(ResultStore).add_comparison(
            add_to_outputs_path, comparison.record.as_dict(verdicts)
        )
    for verdict in verdicts or ():
        comparison.console.comparison_finished(verdict)
    if comparison.worst is not None:
        comparison.worst.save()
    if plot is not None and verdicts is not None:
        plot.draw(verdicts)
    if held_back is not None:
        if verdicts is not None:
            _save(verdicts, save_accuracy_path)
        raise held_back
    if verdicts is None:
        raise InconclusiveError(
            "There is nothing to compare: that takes at least two runs with an iteration each."
        )
    for verdict in verdicts:
        if verdict.left_out_at or (not verdict.is_average and verdict):
            continue
        if not any(True for _ in verdict.scan()):
            raise InconclusiveError(
                f"The comparison function {verdict.label} answered about no output, so nothing was"
                " checked."
            )
    return _save(verdicts, save_accuracy_path)


def _save(verdicts: list[AccuracyResult], path: str | None) -> AccuracyResults:
    """Return what all functions found, saved if there is a path."""
    results = AccuracyResults(verdicts)
    if path is not None:
        results.save(path)
    return results


class _Comparison:
    """Compares one iteration after another, and keeps the verdicts."""

    def __init__(
        self,
        compare_func: Any,
        comparisons: Sequence[tuple[int, int]] | None,
        *,
        allow_missing_outputs: bool,
        keep_arrays: bool,
        check_average: bool,
        record: ComparisonRecord | None,
        worst: WorstTensors | None,
    ) -> None:
        self.record = record
        self.worst = worst
        self.console = resolve(Console)
        self.pairs: list[tuple[int, int]] = []
        self.verdicts: list[AccuracyResult] = []
        self._logs: list[list[AnswerLog]] = []  # Per verdict, per pair.
        functions = _functions(compare_func)
        self._compares = [_comparing(function) for function in functions]
        self._comparisons = comparisons
        self._allow_missing_outputs = allow_missing_outputs
        self._keep_arrays = keep_arrays
        self._check_average = check_average
        self._iteration = -1
        self._spared = _MOST_KEPT
        self._ended: set[int] = set()  # Positions of pairs of which one run has ended.
        for function in functions:
            judging = supporting(function, JudgesAverages)
            if check_average and judging is not None:
                judging.check_averages()
            verdict = AccuracyResult()
            verdict.label = _label(function)
            verdict.aggregation = "average" if check_average else "per_sample"
            self.verdicts.append(verdict)

    def take(self, step: Step, *, fail_fast: bool) -> bool:
        """Compare one iteration, or a part of one; return whether another one is wanted."""
        parts = [outputs.part for _, outputs in step if outputs is not None]
        is_continued = any(parts) and any(part is not None and part.index > 0 for part in parts)
        if self._iteration < 0:
            self._begin([name for name, _ in step])
        self._iteration += not is_continued
        passed = True
        for position, (i, j) in enumerate(self.pairs):
            if position in self._ended or (step[i][1] is None and step[j][1] is None):
                self._ended.add(position)
                continue
            if self._iteration == 0 and not is_continued:
                self.console.comparison_starting(step[i][0], step[j][0])
            for verdict, logs, compare in zip(self.verdicts, self._logs, self._compares):
                passed = self._compare(verdict, logs, compare, step, position) and passed
            if step[i][1] is None or step[j][1] is None:
                self._ended.add(position)
        return len(self._ended) < len(self.pairs) and (passed or not fail_fast)

    def _begin(self, names: list[str]) -> None:
        self.pairs = _checked_pairs(self._comparisons, names)
        pairs = [(names[i], names[j]) for i, j in self.pairs]
        # Answers that hold on to their arrays would come back without them.
        spools = None if self._keep_arrays else resolve(Spools)
        for verdict in self.verdicts:
            self._logs.append(
                [verdict.start(pair, spools.open() if spools else None) for pair in pairs]
            )

    def _compare(
        self,
        verdict: AccuracyResult,
        logs: Sequence[AnswerLog],
        compare: Any,
        step: Step,
        position: int,
    ) -> bool:
        log, (i, j) = logs[position], self.pairs[position]
        run0, run1 = with_chosen(step[i], step[j]), with_chosen(step[j], step[i])
        shared0, shared1 = only_shared(run0, run1) if self._allow_missing_outputs else (run0, run1)
        results, outputs, origins = compare_iteration(
            compare, verdict.label, shared0, shared1, self._iteration
        )
        pair = PairResult(
            (shared0[0], shared1[0]),
            self._iteration,
            verdict.label,
            results,
            outputs,
            not self._check_average,
            (i, j),
            origins,
        )
        if self._check_average:
            check_metrics(pair.results.values())
        if self._allow_missing_outputs:
            left_out = [*not_shared(run0, shared0), *not_shared(run1, shared1)]
            pair = self._without_missing(pair, verdict, position, left_out)
        self.console.iteration_compared(pair)
        if self.record is not None:
            self.record.add(pair)
        if self.worst is not None:
            self.worst.add(pair)
        if run0[1] is not None and run0[1].is_continued and log:
            log.extend_last(pair.results)
        else:
            log.add(pair.results)
        for result in pair.results.values():
            if isinstance(result, CompareResult):
                self._let_go(result)
        if not pair.results:  # Another part of the iteration may have some.
            return any(run is not None and run.part is not None for _, run in (run0, run1))
        return not pair.mismatched

    def _let_go(self, result: CompareResult) -> None:
        """Make a result independent of the outputs, which may change when they were compared."""
        if not self._keep_arrays:
            return result.settle()
        self._spared -= result.nbytes
        return result.own_arrays() if self._spared >= 0 else result.settle()

    def _without_missing(
        self,
        pair: PairResult,
        verdict: AccuracyResult,
        position: int,
        left_out: Sequence[str],
    ) -> PairResult:
        """Leave out what one side lacks, besides what was left out before; say so once, in the
        first iteration.
        """
        missing = [name for name, r in pair.results.items() if getattr(r, "is_missing", False)]
        missing += left_out
        if missing:
            before = verdict.left_out_at.get(position, ())
            known = list(dict.fromkeys((*before, *missing)))
            verdict.left_out_at = {**verdict.left_out_at, position: known}
        if missing and verdict is self.verdicts[0] and pair.iteration == 0:
            self.console.note(
                Note(
                    f"Not compared, because only one of"
                    f" {' and '.join(map(label_of_runner, pair.runners))} has it:"
                    f" {', '.join(missing)}.",
                    brief="",  # The result has the names.
                )
            )
        kept = {name: result for name, result in pair.results.items() if name not in missing}
        return evolve(pair, results=kept)


def _comparing(function: Any) -> Any:
    """Return what compares without copies, where a function can: outputs do not change before
    `_Comparison` lets go of them.
    """
    if isinstance(function, PairwiseCompareFunc):
        own_call = next(kind for kind in type(function).__mro__ if "__call__" in vars(kind))
        return function.compare if own_call is PairwiseCompareFunc else function
    return function


def _functions(compare_func: Any) -> list[Any]:
    if compare_func is None:
        return [SimpleCompareFunc()]
    functions = compare_func if isinstance(compare_func, (list, tuple)) else [compare_func]
    made = [function() if isinstance(function, type) else function for function in functions]
    for function in made:
        check_signature(
            function, "comparison function", "the outputs of one run", "those of the other"
        )
        threaded = supporting(function, UsesThreads)
        if threaded is not None:
            threaded.grant_threads(resolve(Machine).cores())
    return made


def _label(function: Any) -> str:
    labelled = supporting(function, Labelled)
    return str((labelled and labelled.label) or name_of(function))


def _checked_pairs(
    comparisons: Sequence[tuple[int, int]] | None, names: list[str]
) -> list[tuple[int, int]]:
    if comparisons is None:
        return default_comparisons(len(names))
    for pair in comparisons:
        if not all(-len(names) <= index < len(names) for index in pair):
            raise UsageError(
                f"Comparison {tuple(pair)} is of a run that there is not: there are {len(names)},"
                " from 0."
            )
    return [(i % len(names), j % len(names)) for i, j in comparisons]
