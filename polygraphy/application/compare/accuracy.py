"""Compares what runners produced."""

from __future__ import annotations

from collections.abc import Collection, Container, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from polygraphy.application.compare.samples import SampleComparison, Samples
from polygraphy.application.run.inference import Run, Runs, Step, iterations_of
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import (
    AccuracyResult,
    AccuracyResults,
    PairResult,
    RunnerPair,
)
from polygraphy.domain.accuracy.answer_log import AnswerLog
from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow, result_sort_key
from polygraphy.domain.accuracy.summarizing import ComparisonRecord, comparisons_of
from polygraphy.domain.calling import check_signature, name_of, optional_method, verdict_of
from polygraphy.domain.compare import (
    CompareResult,
    PairwiseCompareFunc,
    SimpleCompareFunc,
    UncomparedResult,
)
from polygraphy.domain.compare.averages import check_metrics
from polygraphy.domain.compare.pairwise import is_program
from polygraphy.domain.compare.result import OutputCompareResult
from polygraphy.domain.errors import CheckFailedError, InconclusiveError, UsageError
from polygraphy.domain.ports import Plots, ResultStore
from polygraphy.domain.results.results import (
    IterationResult,
    RunResults,
    label_of_runner,
    names_of_runs,
)
from polygraphy.domain.tensors.naming import Note, count_text, with_article
from polygraphy.ports.machine import cores
from polygraphy.ports.reporting import Console
from polygraphy.ports.storage import open_spool

if TYPE_CHECKING:
    from polygraphy.domain.states.comparing import StepFigures, StepsCompared

__all__ = ["Runs", "compare_accuracy", "default_comparisons", "iterations_of"]

DEFAULT_PATH = "worst.safetensors"


@frozen
class _SavedOutput:
    """An output to save: its error, and the arrays of both runs."""

    sort_key: tuple[bool, float]
    runners: RunnerPair
    positions: tuple[int, int]
    values: tuple[Any, Any]


class WorstTensors:
    """Collects the outputs that exceed their tolerance most, or come closest to it, each in its
    worst iteration. Only these are held in memory."""

    def __init__(self, count: int, path: str | None = None) -> None:
        """Set the number of outputs to keep, and the path to save them to.

        Raises:
            UsageError: the number of outputs is 0.
            FileError: the file cannot be written.
        """
        if count < 1:
            raise UsageError(
                f"The number of worst outputs to save must be at least 1, not {count}."
            )
        self._count = count
        self._path = path or DEFAULT_PATH
        self._kept: dict[str, _SavedOutput] = {}
        resolve(ResultStore).writer(self._path, RunResults)  # Reports errors before anything runs.

    def add(self, pair: PairResult) -> None:
        """Record the outputs of an iteration while they are in memory."""
        for name, result in pair.results.items():
            values = pair.sides(name)
            if values is None:
                continue
            output = _SavedOutput(result_sort_key(result), pair.runners, pair.positions, values)
            kept_output = self._kept.get(name)
            if kept_output is None or output.sort_key > kept_output.sort_key:
                self._kept[name] = output
            if len(self._kept) > self._count:
                del self._kept[min(self._kept, key=lambda name: self._kept[name].sort_key)]

    def save(self) -> None:
        """Save the recorded outputs, the worst first: one iteration for each run;
        nothing if no output could be compared.
        """
        names = sorted(self._kept, key=lambda name: self._kept[name].sort_key, reverse=True)
        runs: dict[int, IterationResult] = {}  # Keys are positions, because names may repeat.
        for name in names:
            kept_output = self._kept[name]
            for position, runner, value in zip(
                kept_output.positions, kept_output.runners, kept_output.values
            ):
                runs.setdefault(position, IterationResult(runner_name=runner))[name] = value
        if names:
            results = RunResults((outputs.runner_name, [outputs]) for outputs in runs.values())
            resolve(ResultStore).save(results, self._path)


def compare_iteration(
    compare: Any, label: str, run0: Run, run1: Run, iteration: int
) -> tuple[dict[str, CompareResult], tuple[IterationResult, IterationResult], tuple[str, str]]:
    """Return results for one iteration of two runs, its outputs, and the files of both.
    The outputs were read from these files.
    """
    (name0, outputs0), (name1, outputs1) = run0, run1
    if outputs0 is None or outputs1 is None:
        results = _fail_early_end(name0, outputs0, name1, outputs1, iteration)
        outputs0 = IterationResult() if outputs0 is None else outputs0
        outputs1 = IterationResult() if outputs1 is None else outputs1
    else:
        results = _answers(compare, label, outputs0, outputs1)
        if (
            shared := outputs0.unmarked_outputs
            and outputs0.unmarked_outputs.keys() & outputs1.unmarked_outputs.keys()
        ):
            outputs0, outputs1 = _with_unmarked(outputs0, shared), _with_unmarked(outputs1, shared)
            unmarked = _answers(
                compare, label, _select_outputs(outputs0, shared), _select_outputs(outputs1, shared)
            )
            results |= {
                name: compare_result
                for name, compare_result in unmarked.items()
                if not compare_result
            }
    return results, (outputs0, outputs1), (outputs0.origin, outputs1.origin)


def _answers(
    compare: Any, label: str, outputs0: IterationResult, outputs1: IterationResult
) -> dict[str, CompareResult]:
    """Return, by output, the results of a comparison function, each converted to a verdict."""
    results = compare(outputs0, outputs1)
    if not isinstance(results, Mapping):
        raise UsageError(
            f"The comparison function {label} returned {with_article(type(results).__name__)}"
            " instead of one verdict per output.",
            hint="Return {'output_name': verdict, ...}.",
        )
    return {
        name: answer if isinstance(answer, CompareResult) else verdict_of(answer, label, name)
        for name, answer in results.items()
    }


def restrict_to_chosen(run: Run, other_run: Run) -> Run:
    """Return a run without the outputs that another run excludes, because saved results may contain
    more."""
    name, outputs = run
    if outputs is None or other_run[1] is None or not outputs.unmarked_outputs:
        return run
    return name, _with_unmarked(outputs, outputs.unmarked_outputs.keys() & other_run[1].keys())


def _with_unmarked(outputs: IterationResult, names: Collection[str]) -> IterationResult:
    """Return an iteration with the model outputs that were not selected added."""
    if not names:
        return outputs
    arrays = {name: array for name, array in outputs.unmarked_outputs.items() if name in names}
    return outputs.with_outputs({**outputs, **arrays})


def _select_outputs(outputs: IterationResult, names: Container[str]) -> IterationResult:
    """Return an iteration with some of its outputs."""
    return outputs.with_outputs({n: array for n, array in outputs.items() if n in names})


def _fail_early_end(
    name0: str,
    outputs0: IterationResult | None,
    name1: str,
    outputs1: IterationResult | None,
    iteration: int,
) -> dict[str, CompareResult]:
    """Return a failure for each output of an iteration that only one of two runs has."""
    names = label_of_runner(name0), label_of_runner(name1)
    longer, shorter = names if outputs1 is None else reversed(names)
    reason = (
        f"Iteration {iteration} exists only in {longer}: {shorter} has"
        f" {count_text(iteration, 'iteration')}. Compare runs with the same number of iterations."
    )
    outputs = outputs0 if outputs1 is None else outputs1
    return {name: UncomparedResult(reason) for name in outputs or ()}


def restrict_to_shared(run0: Run, run1: Run) -> tuple[Run, Run]:
    """Return two runs reduced to the outputs both have; unchanged if there are none.

    If some names are equal, outputs that only one run has are not compared with outputs at the same
    position of the other run.
    """
    outputs0: dict[str, Any] = run0[1] or {}
    outputs1: dict[str, Any] = run1[1] or {}
    if not outputs0.keys() & outputs1.keys() or is_program(outputs0) != is_program(outputs1):
        return run0, run1
    return _restrict_outputs(run0, outputs1), _restrict_outputs(run1, outputs0)


def _restrict_outputs(run: Run, names: Container[str]) -> Run:
    """Return a run with some of its outputs."""
    name, outputs = run
    if outputs is None:
        return run
    return name, _select_outputs(outputs, names)


def outputs_not_shared(run: Run, shared: Run) -> list[str]:
    """Return the names of the outputs of a run that are not in its reduced copy `shared`."""
    return [output for output in run[1] or () if output not in (shared[1] or ())]


class DepthPlot:
    """A plot of the largest differences of the outputs, in the order in which the model computes
    them.
    """

    def __init__(self, path: str) -> None:
        """Set the path of the plot.

        Raises:
            MissingDependencyError: no library that draws plots is installed.
            FileError: the extension is not a supported image format.
        """
        self._path = path
        resolve(Plots).prepare(path)

    def draw(self, verdicts: Sequence[AccuracyResult]) -> None:
        """Save the error plot of the first comparison function that measures differences.
        Raise FileError if that fails.
        """
        for verdict in verdicts:
            lines = _rows_by_pair(comparisons_of([verdict]))
            if any(row.absolute is not None for rows in lines.values() for row in rows):
                resolve(Plots).error_by_depth(lines, self._path)
                return


def _rows_by_pair(comparisons: Sequence[Comparison]) -> dict[str, Sequence[OutputRow]]:
    """Return the rows of each pair of runs by name; equal names are numbered."""
    labeled: dict[str, Sequence[OutputRow]] = {}
    for comparison in comparisons:
        name = label = " vs. ".join(comparison.parties)
        while label in labeled:
            label = f"{name} ({sum(other_name.startswith(name) for other_name in labeled) + 1})"
        labeled[label] = comparison.outputs
    return labeled


_MOST_KEPT = 256 << 20
"""Bytes of arrays that are kept of results in memory, for a closer look at the verdicts."""


def default_comparisons(run_count: int) -> list[tuple[int, int]]:
    """Return the default pairs to compare: each run with the next."""
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
    samples: Samples | None = None,
) -> AccuracyResults:
    """Return the comparison of runs, pair by pair and iteration by iteration.

    A stream is read one iteration at a time, and the arrays of an iteration are released after it
    was compared.

    Args:
        run_results: results, a stream of them (one iteration each), or a list of such, whose runs
            are joined in order.
        fail_fast: whether to stop after the first iteration that fails.
        comparisons: pairs of indices of runs (default: each run with the next).
        compare_func: a comparison function, or several that must all pass; a class is instantiated
            (default: `SimpleCompareFunc()`).
        allow_missing_outputs: whether an output that one run lacks is skipped instead of failing.
        check_average: whether the mean of each metric over the iterations is judged, rather than
            each iteration.
        add_to_outputs_path: the file to which the results were saved; the comparison of each output
            is added to it. None: nothing is added.
        save_worst: number of outputs to save: those that exceed their tolerance the most.
        save_worst_path: the path of the file for them (default: worst.safetensors).
        save_error_by_depth: the path for a plot of the differences, in the order in which the model
            computes the outputs; None for no plot.
        save_accuracy_path: path for the results; they are also saved if a check of the stream
            failed. None: they are not saved.
        samples: the samples of the iterations; with them, the samples with different predictions,
            and the accuracy of each run on labeled samples, are reported.

    Raises:
        CheckFailedError: a check within the stream failed.
        InputError: an output has no predictions, or there are more or fewer labels than samples.
        UsageError: a comparison refers to a run that does not exist; or averages are combined with
            `fail_fast`, or with a function whose results have no average.
        InconclusiveError: there are fewer than two runs, no iterations, or a function returned no
            result for any output.
    """
    comparison = _Comparison(
        compare_func,
        comparisons,
        allow_missing_outputs=allow_missing_outputs,
        keep_arrays=isinstance(run_results, RunResults),
        check_average=check_average,
        record=None if add_to_outputs_path is None else ComparisonRecord(),
        worst=WorstTensors(save_worst, save_worst_path) if save_worst else None,
        samples=samples,
    )
    plot = None if save_error_by_depth is None else DepthPlot(save_error_by_depth)
    if check_average and fail_fast:
        raise UsageError("An average requires all iterations, so it cannot stop at the first.")
    is_whole, held_back = _take_all(comparison, iterations_of(run_results), fail_fast=fail_fast)
    verdicts = comparison.verdicts if comparison.pairs else None
    comparison.leave_out_harmless_states()
    if add_to_outputs_path is not None and comparison.record is not None and verdicts is not None:
        resolve(ResultStore).add_comparison(
            add_to_outputs_path, comparison.record.as_dict(verdicts)
        )
    steps = _report(comparison, verdicts or (), is_whole=is_whole)
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
            "Nothing to compare: at least two runs with one iteration each are required."
        )
    _refuse_unanswered(verdicts)
    results = _save(verdicts, save_accuracy_path)
    results.steps = steps
    return results


def _report(
    comparison: _Comparison, verdicts: Sequence[AccuracyResult], *, is_whole: bool
) -> list[StepsCompared]:
    """Report verdicts, samples and steps, and return the steps of each pair."""
    for verdict in verdicts:
        comparison.console.comparison_finished(verdict)
    if comparison.samples is not None:
        for result in comparison.samples.results(is_whole=is_whole):
            comparison.console.samples_compared(result)
    steps = [figures.comparison() for figures in comparison.steps.values()]
    for compared in steps:
        comparison.console.steps_compared(compared)
    return steps


def _refuse_unanswered(verdicts: Sequence[AccuracyResult]) -> None:
    """Raise if a comparison function returned no result for any output."""
    for verdict in verdicts:
        if verdict.left_out_at or (not verdict.is_average and verdict):
            continue
        if not any(True for _ in verdict.scan()):
            raise InconclusiveError(
                f"The comparison function {verdict.label} returned no verdicts, so nothing was"
                " checked."
            )


def _take_all(
    comparison: _Comparison, steps: Generator[Step, None, None], *, fail_fast: bool
) -> tuple[bool, CheckFailedError | None]:
    """Compare all iterations; return whether all were compared, and the stream's error, or None.
    The error is that of a check in the stream.
    """
    try:
        while (step := next(steps, None)) is not None:
            go_on = comparison.take(step, fail_fast=fail_fast)
            del step  # Release this iteration before the next one runs.
            if not go_on:
                return False, None
    except CheckFailedError as error:
        return False, error
    finally:
        steps.close()
    return True, None


def _save(verdicts: list[AccuracyResult], path: str | None) -> AccuracyResults:
    """Return the results of all functions, saved if `path` is set."""
    results = AccuracyResults(verdicts)
    if path is not None:
        results.save(path)
    return results


class _Comparison:
    """Compares one iteration after another, and collects the results."""

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
        samples: Samples | None,
    ) -> None:
        """Set the comparison functions, the pairs of runs, and the outputs to judge."""
        self._asked = samples
        self.samples: SampleComparison | None = None
        self.steps: dict[int, StepFigures] = {}  # Keys are positions of pairs.
        self.record = record
        self.worst = worst
        self.console = resolve(Console)
        self.pairs: list[tuple[int, int]] = []
        self.verdicts: list[AccuracyResult] = []
        # One list for each verdict, with one log for each pair.
        self._logs: list[list[AnswerLog]] = []
        functions = _functions(compare_func)
        self._compares = [_copy_free_variant(function) for function in functions]
        self._comparisons = comparisons
        self._allow_missing_outputs = allow_missing_outputs
        self._keep_arrays = keep_arrays
        self._check_average = check_average
        self._iteration = -1
        self._spared = _MOST_KEPT
        self._ended: set[int] = set()  # Positions of pairs in which one run has ended.
        for function in functions:
            judge = optional_method(function, PairwiseCompareFunc.check_averages)
            if check_average and judge is not None:
                judge()
            verdict = AccuracyResult()
            verdict.label = _label(function)
            verdict.aggregation = "average" if check_average else "per_sample"
            self.verdicts.append(verdict)

    def take(self, step: Step, *, fail_fast: bool) -> bool:
        """Compare one iteration, or a part of one; return whether to continue."""
        parts = [outputs.part for _, outputs in step if outputs is not None]
        is_continued = any(parts) and any(part is not None and part.index > 0 for part in parts)
        if self._iteration < 0:
            self._begin([name for name, _ in step])
        self._iteration += not is_continued
        if self.samples is not None:
            self.samples.take(step, self._iteration)
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
        """Choose the pairs of runners, and start the samples, record and log of each comparison."""
        self.pairs = _check_pairs(self._comparisons, names)
        pairs = [(names[i], names[j]) for i, j in self.pairs]
        if self._asked is not None:
            self.samples = SampleComparison(self._asked, self.pairs)
        # A spool does not store arrays, so logs that keep arrays remain in memory.
        for verdict in self.verdicts:
            self._logs.append(
                [verdict.start(pair, None if self._keep_arrays else open_spool) for pair in pairs]
            )

    def _compare(
        self,
        verdict: AccuracyResult,
        logs: Sequence[AnswerLog],
        compare: Any,
        step: Step,
        position: int,
    ) -> bool:
        """Compare one pair of runs of a step, record the result, and return whether it matches."""
        log, (i, j) = logs[position], self.pairs[position]
        run0, run1 = restrict_to_chosen(step[i], step[j]), restrict_to_chosen(step[j], step[i])
        run0, run1 = _without_unread(run0, run1), _without_unread(run1, run0)
        shared0, shared1 = (
            restrict_to_shared(run0, run1) if self._allow_missing_outputs else (run0, run1)
        )
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
        if any(origins) and position not in verdict.files_at:
            verdict.files_at = {**verdict.files_at, position: origins}
        if self._check_average:
            check_metrics(pair.results.values())
        if self._allow_missing_outputs:
            left_out = [*outputs_not_shared(run0, shared0), *outputs_not_shared(run1, shared1)]
            pair = self._without_missing(pair, verdict, position, left_out)
        if verdict is self.verdicts[0]:
            self._take_step(position, (run0, run1), pair)
        self.console.iteration_compared(pair)
        if self.record is not None:
            self.record.add(pair)
        if self.worst is not None:
            self.worst.add(pair)
        if run0[1] is not None and run0[1].is_continued and log:
            log.extend_last(pair.results)
        else:
            log.add(pair.results)
        if not self._keep_arrays:
            OutputCompareResult.prepare_settling(pair.results.values())
        for result in pair.results.values():
            if isinstance(result, CompareResult):
                self._copy_compared_data(result)
        if not pair.results:  # Another part of the iteration may have outputs.
            return any(run is not None and run.part is not None for _, run in (run0, run1))
        # A state counts if an output of a later step differs.
        facts = next((run.step for _, run in (run0, run1) if run is not None and run.step), None)
        return not {*pair.failed_outputs} - {*(facts.states if facts is not None else ())}

    def leave_out_harmless_states(self) -> None:
        """Remove states from the results that differ although all other outputs agree."""
        for position, figures in self.steps.items():
            if names := figures.harmless_states:
                for verdict in self.verdicts:
                    verdict.leave_uncounted(
                        position, names, None if self._keep_arrays else open_spool
                    )

    def _take_step(self, position: int, runs: tuple[Run, Run], pair: PairResult) -> None:
        """Record the figures of a step of a model with states."""
        outputs = [run for _, run in runs if run is not None]
        facts = next((run.step for run in outputs if run.step is not None), None)
        if facts is None or len(outputs) < len(runs) or not pair.results:
            return
        from polygraphy.domain.states.comparing import StepFigures, step_row

        judged = facts.judged or ""
        row = step_row(
            facts,
            (outputs[0], outputs[1]),
            pair.results,
            (outputs[0].compute_dtype(judged), outputs[1].compute_dtype(judged)),
        )
        name0, name1 = names_of_runs([*zip(pair.runners, pair.origins)])
        figures = self.steps.setdefault(position, StepFigures((name0, name1)))
        figures.add(facts, row, pair.results)

    def _copy_compared_data(self, result: CompareResult) -> None:
        """Copy the data that a result needs, because the compared outputs may change."""
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
        """Return a pair without outputs that one run lacks; the first iteration reports them
        once."""
        missing = [name for name, r in pair.results.items() if getattr(r, "is_missing", False)]
        missing += left_out
        if missing:
            before = verdict.left_out_at.get(position, ())
            missing_names = list(dict.fromkeys((*before, *missing)))
            verdict.left_out_at = {**verdict.left_out_at, position: missing_names}
        if missing and verdict is self.verdicts[0] and pair.iteration == 0:
            self.console.note(
                Note(
                    f"Not compared, because only one of"
                    f" {' and '.join(map(label_of_runner, pair.runners))} has it:"
                    f" {', '.join(missing)}.",
                    brief="",  # The summary omits this note, because the result lists the names.
                )
            )
        results = {name: result for name, result in pair.results.items() if name not in missing}
        return evolve(pair, results=results)


def _without_unread(run: Run, other_run: Run) -> Run:
    """Return a run with zeros at the positions that the mask of a step hides.
    The mask is that of this run, else of the other."""
    name, outputs = run
    facts = next(
        (results.step for _, results in (run, other_run) if results and results.step), None
    )
    if outputs is None or facts is None or facts.hidden is None:
        return run
    from polygraphy.domain.states.aligning import zero_hidden_positions

    shown, perturb = outputs.with_outputs(zero_hidden_positions(outputs, facts)), outputs.perturb
    if perturb is not None:
        shown.perturb = lambda dtype: [
            zero_hidden_positions(moved, facts) for moved in perturb(dtype)
        ]
    return name, shown


def _copy_free_variant(function: Any) -> Any:
    """Return the copy-free variant of a comparison function if there is one.
    Outputs stay unchanged until `_Comparison` releases them.
    """
    if isinstance(function, PairwiseCompareFunc):
        own_call = next(kind for kind in type(function).__mro__ if "__call__" in vars(kind))
        return function.compare if own_call is PairwiseCompareFunc else function
    return function


def _functions(compare_func: Any) -> list[Any]:
    """Return comparison functions as a list; each is checked and may use all cores."""
    if compare_func is None:
        return [SimpleCompareFunc()]
    functions = compare_func if isinstance(compare_func, (list, tuple)) else [compare_func]
    result = [function() if isinstance(function, type) else function for function in functions]
    for function in result:
        _check_is_called(function)
        check_signature(
            function,
            "comparison function",
            "the outputs of the first run",
            "those of the second run",
        )
        grant = optional_method(function, PairwiseCompareFunc.grant_threads)
        if grant is not None:
            grant(cores())
    return result


def _check_is_called(function: Any) -> None:
    """Raise UsageError for a function that creates a comparison function,
    such as `CompareFunc.simple` without parentheses."""
    made = getattr(function, "__annotations__", {}).get("return", "")
    if str(getattr(made, "__name__", made)).endswith("CompareFunc"):
        name = name_of(function)
        raise UsageError(
            f"{name} creates a comparison function, and is not one itself.",
            hint=f"Call it: {name}().",
        )


def _label(function: Any) -> str:
    """Return the label of a function, or its name."""
    return str(getattr(function, "label", None) or name_of(function))


def _check_pairs(
    comparisons: Sequence[tuple[int, int]] | None, names: list[str]
) -> list[tuple[int, int]]:
    """Return the pairs of runs, counted from 0; raise UsageError if a run does not exist."""
    if comparisons is None:
        return default_comparisons(len(names))
    for pair in comparisons:
        if not all(-len(names) <= index < len(names) for index in pair):
            raise UsageError(
                f"Comparison {tuple(pair)} refers to a run that does not exist: there are"
                f" {len(names)} runs, counted from 0."
            )
    return [(i % len(names), j % len(names)) for i, j in comparisons]
