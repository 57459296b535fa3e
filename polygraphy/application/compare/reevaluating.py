"""Compares two files of saved data, and judges saved accuracy results again."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.catalog.metrics import GROUPS
from polygraphy.domain.compare.averages import check_metrics
from polygraphy.domain.compare.metric import MetricResult, MetricThreshold
from polygraphy.domain.compare.result import OutputCompareResult
from polygraphy.domain.errors import InconclusiveError, UnknownNameError, UsageError
from polygraphy.domain.limits import Tolerance, joint_reason
from polygraphy.domain.ports import ResultStore, StoredItems
from polygraphy.domain.results.results import IterationResult, RunResults, kind_of_runner
from polygraphy.domain.tensors.naming import PerOutput, value_for
from polygraphy.ports.reporting import Console, Reports


def compare_saved(
    reference: str,
    candidate: str,
    *,
    compare_func: Any = None,
    fail_fast: bool = False,
    allow_missing_outputs: bool = False,
) -> AccuracyResults:
    """Return the comparison of saved data with a reference of the same kind: runs or input data.

    Each run of the candidate is compared with the run of the same runner in the reference; if the
    reference has a single run, all are compared with that one.

    Args:
        reference: the expected values; relative differences are relative to their magnitude.
        candidate: the values compared with them.
        compare_func: a comparison function, or several that must all pass (default:
            `SimpleCompareFunc()`).
        fail_fast: whether to stop after the first iteration that fails.
        allow_missing_outputs: whether a tensor that one run lacks is skipped instead of failing.

    Raises:
        FileError: a file is missing or damaged.
        UsageError: the files contain different kinds of data, accuracy results, or runs that cannot
            be paired.
    """
    paths = (reference, candidate)
    first, second = (resolve(ResultStore).look_into(path) for path in paths)
    _check_kinds(paths, (first, second))
    if first.kind is RunResults:
        names = [[name for name, _ in stored.runs] for stored in (first, second)]
        pairs = _pairs(paths, names[0], names[1])
        both_names = set(names[0]) & set(names[1])
        streams = [
            _label_results(stored, path, both_names) for stored, path in zip((first, second), paths)
        ]
    else:
        pairs = [(1, 0)]
        streams = [_as_results(stored, path) for stored, path in zip((first, second), paths)]
    return compare_accuracy(
        streams,
        fail_fast=fail_fast,
        comparisons=pairs,
        compare_func=compare_func,
        allow_missing_outputs=allow_missing_outputs,
    )


def _check_kinds(paths: tuple[str, str], stored: tuple[StoredItems, StoredItems]) -> None:
    """Raise UsageError unless both files contain inference results, or both contain input data."""
    kinds: dict[type, str] = {dict: "input data", RunResults: "inference results"}
    for path, single_stored in zip(paths, stored):
        if single_stored.kind not in kinds:
            raise UsageError(
                f"{path} contains accuracy results, which cannot be compared.",
                hint="Use files of saved outputs, or of saved inputs.",
            )
    if stored[0].kind is not stored[1].kind:
        first, second = (
            f"{path} holds {kinds[stored.kind]}" for path, stored in zip(paths, stored)
        )
        raise UsageError(
            f"{first}, but {second}: only data of the same kind can be compared.",
            hint="Use two files of saved outputs, or two of saved inputs.",
        )


def _pairs(
    paths: tuple[str, str], expected: Sequence[str], labels: Sequence[str]
) -> list[tuple[int, int]]:
    """Return pairs of runs, as positions in both files, of candidate and reference.

    Runners are matched by name, or else by kind if each kind occurs only once, or else by position.
    """
    count = len(expected)
    if count == 1:
        return [(count + index, 0) for index in range(len(labels))]
    if count != len(labels):
        raise UsageError(
            f"{paths[0]} contains results of {count} runners, but {paths[1]} of {len(labels)}:"
            " they cannot be paired.",
            hint="Compare files with the same number of runners, or use a reference with a single"
            " runner.",
        )
    for ours, reference_names in (
        (expected, labels),
        (
            [kind_of_runner(name) for name in expected],
            [kind_of_runner(name) for name in labels],
        ),
    ):
        if len(set(ours)) == count and set(ours) == set(reference_names):
            return [(count + index, ours.index(name)) for index, name in enumerate(reference_names)]
    return [(count + index, index) for index in range(count)]


def _label_results(stored: StoredItems, path: str, names: Container[str]) -> Iterator[RunResults]:
    """Yield results with the name of their file.
    In the log, runs with ambiguous names are named after it."""
    for results in stored.iterations():
        for index, (name, iterations) in enumerate(results):
            for iteration in iterations:
                iteration.origin = path
            if name in names:
                called = f"{name} ({path})"
                results[index] = called, iterations
                for iteration in iterations:
                    iteration.runner_name = called
        yield results


def _as_results(stored: StoredItems, path: str) -> Iterator[RunResults]:
    """Yield input data as the outputs of a runner with the name of the file."""
    for feed in stored.iterations():
        yield RunResults([(path, [IterationResult(feed, runner_name=path)])])


def _contents_sentence(functions: Collection[str], answers: Collection[Any]) -> str:
    """Return a sentence that lists the metrics and functions in saved results."""
    remote_names = [f"metrics of {', '.join(sorted(functions))}"] if functions else []
    if any(isinstance(answer, OutputCompareResult) for answer in answers):
        remote_names.append("differences of the function simple, for --rtol and --atol")
    return f"It contains {' and '.join(remote_names) or 'verdicts without metrics'}."


def check_accuracy(
    path: str,
    *,
    rtol: PerOutput[float] | None = None,
    atol: PerOutput[float] | None = None,
    check_error_stat: PerOutput[Any] | None = None,
    thresholds: Mapping[str, PerOutput[float]] | None = None,
    functions: Collection[str] = (),
    check_average: bool = False,
) -> bool:
    """Report on saved accuracy results and return whether all outputs passed.

    Tolerances and thresholds that are not given stay as they were when the results were saved;
    without any argument, the saved verdicts count.

    Args:
        path: a file of accuracy results.
        rtol: the largest tolerable relative difference, for all outputs or per output.
        atol: the largest tolerable absolute difference, in the same form.
        check_error_stat: the statistic to check: ``max``, ``mean``, ``median`` or ``quantile``, or
            several of them; ``elemwise`` needs the arrays, which are not saved.
        thresholds: by name of a comparison function (``l2``, ``psnr``, ...), the threshold of its
            metric, for all outputs or per output.
        functions: the comparison functions (``simple``, ``l2``, ``distance_metrics``, ...) whose
            results are judged; other results in the file are skipped. Empty: all.
        check_average: whether the mean of each metric over the iterations is judged, rather than
            each iteration.

    Raises:
        FileError: the file is missing, damaged or of a different kind.
        UnknownNameError: the results do not have an output of that name.
        UsageError: the saved results do not contain what a setting needs.
        InconclusiveError: the file contains no results.
    """
    results = AccuracyResults.load(path)
    if not any(len(iterations) for result in results for _, iterations in result.read()):
        raise InconclusiveError(f"{path} contains no verdicts, so nothing was checked.")
    if functions:
        functions = [name for function in functions for name in GROUPS.get(function, (function,))]
        results = _select_functions(path, results, functions)
    judge = _Judge((rtol, atol, check_error_stat), thresholds or {})
    if judge.has_work:
        judge.check_names(results)
        judge.check_results(path, results)
        for result in results:
            judge.apply(path, result)
    if check_average:
        for result in results:
            _judge_average(path, result)
    resolve(Reports).accuracy(results)
    console = resolve(Console)
    for result in results:
        console.comparison_finished(result)
    return bool(results)


def _function_of(answer: Any) -> str | None:
    """Return the name of the built-in function that gave a result; None for others."""
    if isinstance(answer, MetricResult):
        return answer.metric.function
    return "simple" if isinstance(answer, OutputCompareResult) else None


def _select_functions(
    path: str, results: AccuracyResults, functions: Collection[str]
) -> AccuracyResults:
    """Return the results of the selected comparison functions, and log the skipped ones."""
    by_function = [
        ({_function_of(answer) for _, _, _, answer in result.outputs()}, result)
        for result in results
    ]
    remote_names = {name for names, _ in by_function for name in names if name}
    for function in functions:
        if function not in remote_names:
            raise UsageError(
                f"{path} contains no results of the comparison function {function}.",
                hint=f"It contains results of: {', '.join(sorted(remote_names)) or 'none'}.",
            )
    accuracy_results = [result for names, result in by_function if names & set(functions)]
    left_out = [result.label for names, result in by_function if not names & set(functions)]
    if left_out:
        resolve(Console).note(f"Skipped, because not selected: {', '.join(left_out)}.")
    return AccuracyResults(accuracy_results)


def _judge_average(path: str, result: AccuracyResult) -> None:
    """Judge the averages over the iterations again, if there are any."""
    answers = [answer for _, _, _, answer in result.outputs()]
    check_metrics(answer for answer in answers if answer is not False)
    for answer in answers:
        if isinstance(answer, OutputCompareResult) and (
            "elemwise" in answer.tolerance.check_error_stat
        ):
            raise UsageError(
                f"{path} was checked element by element, and single elements have no average.",
                hint="Check a statistic, with --check-error-stat max, mean or median.",
            )
    result.aggregation = "average"


class _Judge:
    """Judges saved results by different tolerances and thresholds."""

    def __init__(
        self, tolerances: tuple[Any, Any, Any], thresholds: Mapping[str, PerOutput[float]]
    ) -> None:
        """Set the tolerances and thresholds to apply."""
        self._tolerances = tolerances
        self._thresholds = thresholds
        self._judges_differences = any(setting is not None for setting in tolerances)

    @property
    def has_work(self) -> bool:
        """Return whether any tolerance or threshold is set."""
        return self._judges_differences or bool(self._thresholds)

    def check_names(self, results: AccuracyResults) -> None:
        """Raise UsageError for settings of outputs that do not exist."""
        known_values = dict.fromkeys(name for result in results for name in result.output_names())
        settings = (*self._tolerances, *self._thresholds.values())
        named = {
            name for setting in settings if isinstance(setting, Mapping) for name in setting if name
        }
        for name in sorted(named):
            if name not in known_values:
                raise UnknownNameError("Output", name, known_values)

    def check_results(self, path: str, results: AccuracyResults) -> None:
        """Raise UsageError for settings that apply to nothing in the file."""
        answers = [answer for result in results for _, _, _, answer in result.outputs()]
        if self._judges_differences and not any(
            isinstance(answer, OutputCompareResult) for answer in answers
        ):
            raise UsageError(f"{path} contains no differences, so tolerances cannot be checked.")
        functions = {
            answer.metric.function for answer in answers if isinstance(answer, MetricResult)
        }
        for function in self._thresholds:
            if function not in functions:
                raise UsageError(
                    f"{path} contains no metrics of the comparison function {function}, so its"
                    " threshold cannot be checked.",
                    hint=_contents_sentence(functions, answers),
                )

    def apply(self, path: str, result: AccuracyResult) -> None:
        """Judge the results of one comparison function again; log if none can be."""
        judged = False
        for _, _, name, answer in result.outputs():
            if isinstance(answer, OutputCompareResult) and self._judges_differences:
                answer.set_thresholds(self._tolerance(path, name, answer.tolerance))
                judged = True
            elif isinstance(answer, MetricResult) and answer.metric.function in self._thresholds:
                limit = value_for(self._thresholds[answer.metric.function], name, None)
                if limit is not None:
                    kind = type(answer.thresholds) if answer.thresholds else MetricThreshold
                    answer.set_thresholds(kind(limit, reason="as given"))
                judged = True
        if not judged:
            resolve(Console).note(
                f"The results of the comparison function {result.label} keep their saved"
                " verdicts."
            )

    def _tolerance(self, path: str, name: str, saved: Tolerance) -> Tolerance:
        """Return the tolerance of an output: the given values, or those saved with the results."""
        rtol, atol, statistics = self._tolerances
        tolerance = Tolerance(
            check_error_stat=value_for(statistics, name, saved.check_error_stat),
            rtol=value_for(rtol, name, saved.rtol),
            atol=value_for(atol, name, saved.atol),
            reason=joint_reason(
                *(
                    saved.reason if value_for(setting, name, None) is None else "as given"
                    for setting in (atol, rtol)
                )
            ),
        )
        if "elemwise" in tolerance.check_error_stat:
            raise UsageError(
                f"Output {name!r} in {path} was checked element by element. It cannot be"
                " checked again, because the elements were not saved.",
                hint="Check a saved statistic: --check-error-stat max, mean or median.",
            )
        return tolerance
