"""Compares what runners produced."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from attrs import evolve

from polygraphy.domain.accuracy import AccuracyResult, AccuracyResults, PairResult
from polygraphy.domain.compare import CompareResult, SimpleCompareFunc, UncomparedResult
from polygraphy.domain.compare.average import check_metrics
from polygraphy.domain.errors import CheckFailedError, InconclusiveError, UsageError
from polygraphy.domain.results import IterationResult, RunResults
from polygraphy.ports.binding import resolve
from polygraphy.ports.console import Console

__all__ = ["Runs", "compare_accuracy", "default_comparisons", "iterations_of"]

Runs = Union[RunResults, Iterable[RunResults], Sequence[RunResults | Iterable[RunResults]]]
Run = tuple[str, "IterationResult | None"]
Step = list[Run]


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
) -> AccuracyResults:
    """Compare runs pair by pair, iteration by iteration.

    A stream is taken one iteration at a time, and the arrays of an iteration are let go when it was
    compared.

    Args:
        run_results: results, a stream of them (one iteration each), or a list of such, whose runs
            are joined in order.
        fail_fast: whether to stop after the first iteration that fails.
        comparisons: pairs of indices of runs; each run with the next unless given.
        compare_func: a comparison function, or several, all of which must pass; a class stands for
            an instance of it; `SimpleCompareFunc()` unless given.
        allow_missing_outputs: whether an output that one side lacks is left out instead of failing.
        check_average: whether the mean of each metric over the iterations is judged, rather than
            each iteration.

    Raises:
        UsageError: a comparison names a run that there is not; or averages are asked for together
            with `fail_fast`, or of a function whose verdicts have no average.
        InconclusiveError: there were no two runs, or no iteration.
    """
    comparison = _Comparison(
        compare_func,
        comparisons,
        allow_missing_outputs=allow_missing_outputs,
        keep_arrays=isinstance(run_results, RunResults),
        check_average=check_average,
    )
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
    for verdict in verdicts or ():
        comparison.console.comparison_finished(verdict)
    if held_back is not None:
        raise held_back
    if verdicts is None:
        raise InconclusiveError(
            "There is nothing to compare: that takes at least two runs with an iteration each."
        )
    return AccuracyResults(verdicts)


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
    ) -> None:
        self.console = resolve(Console)
        self.pairs: list[tuple[int, int]] = []
        self.verdicts: list[AccuracyResult] = []
        self._functions = _functions(compare_func)
        self._comparisons = comparisons
        self._allow_missing_outputs = allow_missing_outputs
        self._keep_arrays = keep_arrays
        self._check_average = check_average
        self._iteration = 0
        self._ended: set[int] = set()  # Positions of pairs of which one run has ended.
        for function in self._functions:
            if check_average and hasattr(function, "check_averages"):
                function.check_averages()
            verdict = AccuracyResult()
            verdict.label = _label(function)
            verdict.aggregation = "average" if check_average else "per_sample"
            self.verdicts.append(verdict)

    def take(self, step: Step, *, fail_fast: bool) -> bool:
        """Compare one iteration; return whether another one is wanted."""
        if self._iteration == 0:
            self._begin([name for name, _ in step])
        passed = True
        for position, (i, j) in enumerate(self.pairs):
            if position in self._ended or (step[i][1] is None and step[j][1] is None):
                self._ended.add(position)
                continue
            if self._iteration == 0:
                self.console.comparison_starting(step[i][0], step[j][0])
            for verdict, function in zip(self.verdicts, self._functions):
                passed = self._compare(verdict, position, function, step[i], step[j]) and passed
            if step[i][1] is None or step[j][1] is None:
                self._ended.add(position)
        self._iteration += 1
        return len(self._ended) < len(self.pairs) and (passed or not fail_fast)

    def _begin(self, names: list[str]) -> None:
        self.pairs = _checked_pairs(self._comparisons, names)
        for verdict in self.verdicts:
            verdict.extend(((names[i], names[j]), []) for i, j in self.pairs)

    def _compare(
        self, verdict: AccuracyResult, position: int, function: Any, run0: Run, run1: Run
    ) -> bool:
        shared0, shared1 = _shared(run0, run1) if self._allow_missing_outputs else (run0, run1)
        pair = _compared(
            function, shared0, shared1, self._iteration, is_judged=not self._check_average
        )
        if self._check_average:
            check_metrics(pair.results.values())
        if self._allow_missing_outputs:
            left_out = [*_left_out(run0, shared0), *_left_out(run1, shared1)]
            pair = self._without_missing(pair, verdict, left_out)
        self.console.iteration_compared(pair)
        verdict[position][1].append(pair.results)
        if not self._keep_arrays:
            for result in pair.results.values():
                if isinstance(result, CompareResult):
                    result.settle()
        return not pair.mismatched

    def _without_missing(
        self, pair: PairResult, verdict: AccuracyResult, left_out: Sequence[str]
    ) -> PairResult:
        """Leave out what one side lacks, besides what was left out before; say so once, in the
        first iteration.
        """
        missing = [name for name, r in pair.results.items() if getattr(r, "is_missing", False)]
        missing += left_out
        if missing:
            verdict.left_out = {**verdict.left_out, pair.runners: missing}
        if missing and verdict is self.verdicts[0] and pair.iteration == 0:
            self.console.note(
                f"Not compared, because only one of {' and '.join(pair.runners)} has it:"
                f" {', '.join(missing)}."
            )
        kept = {name: result for name, result in pair.results.items() if name not in missing}
        return evolve(pair, results=kept)


def _shared(run0: Run, run1: Run) -> tuple[Run, Run]:
    """Return two runs with the outputs whose names both have; as they are where there is none.

    Where some names are the same, what one side lacks is not compared with what merely stands in
    the same place on the other.
    """
    outputs0: dict[str, Any] = run0[1] or {}
    outputs1: dict[str, Any] = run1[1] or {}
    if not outputs0.keys() & outputs1.keys():
        return run0, run1
    return _restricted(run0, outputs1), _restricted(run1, outputs0)


def _restricted(run: Run, names: Container[str]) -> Run:
    name, outputs = run
    if outputs is None:
        return run
    kept = {output: array for output, array in outputs.items() if output in names}
    return name, IterationResult(kept, outputs.runtime, outputs.runner_name)


def _left_out(run: Run, shared: Run) -> list[str]:
    return [output for output in run[1] or () if output not in (shared[1] or ())]


def iterations_of(run_results: Runs) -> Generator[Step, None, None]:
    """Yield, per iteration, the name and the outputs of every run; None where a run has ended
    before the others. Closing it closes the streams that it reads.
    """
    is_joined = isinstance(run_results, list) and not isinstance(run_results, RunResults)
    sources: Any = run_results if is_joined else [run_results]
    lanes = [_lanes(source) for source in sources]
    known: list[list[str]] = [[] for _ in lanes]
    try:
        while (step := _side_by_side(lanes, known)) is not None:
            yield step
            del step
    finally:
        for source in sources:
            if isinstance(source, Generator):
                source.close()


def _side_by_side(lanes: Sequence[Iterator[Step]], known: list[list[str]]) -> Step | None:
    """Take the next iteration of every lane; `known` remembers the names in lanes that have
    ended.
    """
    parts = [next(lane, None) for lane in lanes]
    if all(part is None for part in parts):
        return None
    step: Step = []
    for names, part in zip(known, parts):
        if part is not None:
            names[:] = [name for name, _ in part]
        step += part if part is not None else [(name, None) for name in names]
    return step


def _lanes(source: RunResults | Iterable[RunResults]) -> Iterator[Step]:
    """Yield the iterations of one source side by side, to the end of its longest run."""
    if isinstance(source, RunResults):
        for index in range(max((len(iterations) for _, iterations in source), default=0)):
            yield [(name, its[index] if index < len(its) else None) for name, its in source]
        return
    stream = iter(source)
    while (results := next(stream, None)) is not None:
        yield from _lanes(results)
        del results


def _functions(compare_func: Any) -> list[Any]:
    if compare_func is None:
        return [SimpleCompareFunc()]
    functions = compare_func if isinstance(compare_func, (list, tuple)) else [compare_func]
    return [function() if isinstance(function, type) else function for function in functions]


def _label(function: Any) -> str:
    return str(
        getattr(function, "label", None) or getattr(function, "__name__", type(function).__name__)
    )


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


def _compared(
    function: Any,
    run0: Run,
    run1: Run,
    iteration: int,
    *,
    is_judged: bool,
) -> PairResult:
    (name0, outputs0), (name1, outputs1) = run0, run1
    if outputs0 is None or outputs1 is None:
        results: Mapping[str, Any] = _ended_early(name0, outputs0, name1, outputs1, iteration)
    else:
        results = function(outputs0, outputs1)
        if not isinstance(results, Mapping):
            raise UsageError(
                f"The comparison function {_label(function)} answers with a"
                f" {type(results).__name__}, not with one verdict per output.",
                hint="Return {'output_name': verdict, ...}.",
            )
    empty = IterationResult()
    return PairResult(
        (name0, name1),
        iteration,
        _label(function),
        results,
        (empty if outputs0 is None else outputs0, empty if outputs1 is None else outputs1),
        is_judged,
    )


def _ended_early(
    name0: str,
    outputs0: IterationResult | None,
    name1: str,
    outputs1: IterationResult | None,
    iteration: int,
) -> dict[str, CompareResult]:
    """Fail every output of an iteration that only one of two runs has."""
    longer, shorter = (name0, name1) if outputs1 is None else (name1, name0)
    reason = (
        f"Iteration {iteration} exists only in {longer}: {shorter} ended after {iteration}"
        " iteration(s). Runs of different lengths are not the same experiment."
    )
    outputs = outputs0 if outputs1 is None else outputs1
    return {name: UncomparedResult(reason) for name in outputs or ()}
