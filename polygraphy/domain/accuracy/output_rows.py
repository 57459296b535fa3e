"""How each output fared over all iterations: one row per output, folded from the answers as they
come, without holding an array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import Factory, frozen

from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult, PairTally, RunnerPair
from polygraphy.domain.arithmetic import Element
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import MetricResult
from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.results.results import count_non_finite, make_distinct, uniformity
from polygraphy.domain.rounding import Rounding
from polygraphy.domain.tensors.naming import count_text, list_some

if TYPE_CHECKING:
    from polygraphy.domain.model import Node


Tensors = tuple["ComparedTensor | None", "ComparedTensor | None"]
_BOTH = frozenset({"abs", "rel"})
_VARIED = ("", "")
_JUMP = 10.0
"""A layer is to blame if its ratio of error to tolerance is this multiple of that of all layers
before it. Chosen, not measured."""
_HARMLESS = 0.1
"""Ratios of error to tolerance below this count as equal. Chosen, not measured."""
_WRONG = 1e6
"""Ratios of error to tolerance above this count as equal. Chosen, not measured."""


@frozen
class WorstIteration:
    """The iteration in which an output has its largest error.

    Attributes:
        iteration: from 0; None for the average of all iterations.
        excess: the error as a multiple of the tolerance: at most 1 if the output passed, infinite
            if no tolerance is large enough; None if unknown.
        absolute: the largest absolute difference of this iteration, in the output's own unit; None
            if none was computed.
        relative: the largest relative difference of this iteration.
        mismatched: number of elements beyond the tolerance; None if not counted.
        size: number of compared elements; None if not counted.
        element: the element that exceeds its tolerance the most; None if none does.
        non_finite: the numbers of NaN and infinite elements in each run; counted only if a
            difference is not finite.
        rounding: the rounding limit if the output failed; None if unknown.
        is_rounding: whether rounding alone explains that the output failed.
        reason: the reason why the output could not be compared; empty if it could.
        is_missing: whether that is because one run does not have it.
        part: the part of the output that this describes, such as ``scores (output[:, 4:6])``; empty
            for the whole output.
    """

    iteration: int | None
    excess: float | None
    absolute: float | None = None
    relative: float | None = None
    mismatched: int | None = None
    size: int | None = None
    element: Element | None = None
    non_finite: tuple[tuple[int, int], tuple[int, int]] | None = None
    rounding: Rounding | None = None
    is_rounding: bool = False
    reason: str = ""
    is_missing: bool = False
    part: str = ""


@frozen
class OutputRow:
    """The result for one output over all iterations.

    Attributes:
        name: of the output.
        matched: the number of iterations that passed.
        total: number of iterations.
        tensors: the output on both sides, as it was in the first iteration.
        metric: ``simple`` for differences, else the title of the metric in `value`; empty if there
            is none.
        absolute: the largest absolute difference, in the output's own unit; NaN if one is NaN, None
            if there is none.
        relative: the largest relative difference, a fraction of the second run's value.
        value: the worst value of a metric other than differences; None if there is none.
        limit: the limit of the output (`Tolerance`, `MetricThreshold`); None if unknown.
        kept: the criteria (``abs``, ``rel``) that every iteration satisfies; one of them is enough
            for a tolerance. If an output passes with neither, each element satisfies one.
        worst: the iteration that is furthest from passing.
        uniform: for each run, the value of all elements in every iteration, such as ``all 0`` or
            ``empty``; empty if they differ, or if unknown.
        infinite: the largest number of infinite elements that passed in an iteration, although the
            user did not accept them.
        metrics: the worst value of each metric, for documents that are saved.
        noise: the rounding limit in the first iteration, for documents that are saved.
        detail: the distribution of elements and the neighborhood of the worst, for pages.
        node: the node of the model that computes it; None if unknown.
    """

    name: str
    matched: int
    total: int
    tensors: Tensors = (None, None)
    metric: str = ""
    absolute: float | None = None
    relative: float | None = None
    value: float | None = None
    limit: Any = None
    kept: frozenset[str] = frozenset()
    worst: WorstIteration = WorstIteration(None, None)
    uniform: tuple[str, str] = ("", "")
    infinite: int = 0
    metrics: Mapping[str, float | None] = Factory(dict)
    noise: Rounding | None = None
    detail: Mapping[str, Any] | None = None
    node: Node | None = None

    @property
    def passed(self) -> bool:
        """Whether every iteration passed."""
        return self.matched == self.total

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the distinct data types of both runs; empty if unknown."""
        return tuple(dict.fromkeys(tensor.dtype for tensor in self.tensors if tensor is not None))

    @property
    def dtype(self) -> str | None:
        """Return the data type in the first run; None if unknown."""
        return next((dtype for dtype in self.dtypes if dtype != "?"), None)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The distinct shapes in both runs."""
        return tuple(dict.fromkeys(tensor.shape for tensor in self.tensors if tensor is not None))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the shape in the first run; None if unknown."""
        return next(iter(self.shapes), None)

    @property
    def rounding(self) -> Rounding | None:
        """Return the rounding limit; None if it is unknown."""
        return self.worst.rounding or self.noise


class OutputRows:
    """The rows of one pair of runs, in the order in which outputs first appear.

    Attributes:
        runners: names of the two runs.
        positions: their positions among all runs.
        label: name of the comparison function.
        is_judged: whether iterations are judged, rather than their average.
        iterations: number of iterations.
        empty: the iterations in which no output was compared.
        measures: whether the worst value of every metric is kept.
    """

    def __init__(
        self,
        runners: RunnerPair,
        positions: tuple[int, int] = (0, 1),
        label: str = "simple",
        *,
        is_judged: bool = True,
        measures: bool = False,
    ) -> None:
        """Create a collection without rows for a pair of runs."""
        self.measures = measures
        self.runners = runners
        self.positions = positions
        self.label = label
        self.is_judged = is_judged
        self.iterations = 0
        self.empty: list[int] = []
        self._last: int | None = -1
        self._outputs: dict[str, _OutputSummary] = {}

    def add(self, iteration: int | None, answers: Mapping[str, Any]) -> None:
        """Add the results of an iteration, or a part of one.
        Iteration None is the average of all."""
        if iteration != self._last:
            self._last = iteration
            self.iterations += 1
        if not answers and iteration is not None:
            self.empty.append(iteration)
        for name, answer in answers.items():
            summary = self._outputs.get(name)
            if summary is None:
                summary = self._outputs[name] = _OutputSummary(name, answer)
            summary.add(iteration, answer)
            if self.measures and isinstance(answer, CompareResult):
                summary.measure(answer)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._outputs)

    def drop(self, names: Collection[str]) -> None:
        """Drop the rows of outputs."""
        self._outputs = {
            name: output for name, output in self._outputs.items() if name not in names
        }

    def rows(self) -> list[OutputRow]:
        """Return the rows, in the order of the outputs."""
        return [output.row() for output in self._outputs.values()]


class AccuracyTable:
    """The rows of each comparison function and pair of runs."""

    def __init__(self, *, measures: bool = False) -> None:
        """Create an empty table; `measures` adds the metrics of each output to its row."""
        self._tables: dict[tuple[str, tuple[int, int]], OutputRows] = {}
        self.measures = measures

    def add(self, pair: PairResult) -> None:
        """Add the results of an iteration while its outputs are in memory."""
        key = (pair.label, pair.positions)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = OutputRows(
                pair.runners,
                pair.positions,
                pair.label,
                is_judged=pair.is_judged,
                measures=self.measures,
            )
        table.add(pair.iteration, pair.results)

    def tables(self, result: AccuracyResult) -> list[OutputRows]:
        """Return the rows of a finished comparison function for each pair;
        rows of averages if those are judged.
        """
        tables = [table for (label, _), table in self._tables.items() if label == result.label]
        for position, names in result.uncounted_at.items():
            if position < len(tables):
                tables[position].drop(names)
        if not result.is_average:
            return tables
        return [_average_rows(table, result, at) for at, table in enumerate(tables)]

    @staticmethod
    def of(result: AccuracyResult, *, measures: bool = False) -> list[OutputRows]:
        """Return rows for results without outputs, such as those loaded from a file."""
        tables = []
        for at, (pair, iterations) in enumerate(result.read()):
            table = OutputRows(
                pair,
                (at, at + 1),
                result.label,
                is_judged=not result.is_average,
                measures=measures,
            )
            for iteration, answers in enumerate(result.deciding_results(at)):
                table.add(None if result.is_average else iteration, answers)
            table.iterations = len(iterations)
            tables.append(table)
        return tables


@frozen
class Comparison:
    """The result of one comparison function for one pair of runs.

    Attributes:
        function: its name.
        parties: the names of both.
        passed: whether all matched.
        matched: the number of iterations that passed, or of outputs if averages over iterations are
            judged.
        total: the number of iterations, or of outputs.
        average: whether averages are judged.
        outputs: a row per output, in the order of the model.
        left_out: outputs that only one run has, and that were therefore skipped.
        iterations: their number.
        empty: the iterations in which no output was compared.
        is_of_layers: whether some rows are intermediate tensors of a model with known nodes.
    """

    function: str
    parties: tuple[str, str]
    passed: bool
    matched: int
    total: int
    average: bool
    outputs: Sequence[OutputRow]
    left_out: Sequence[str] = ()
    iterations: int = 1
    empty: Sequence[int] = ()
    is_of_layers: bool = False

    @property
    def title(self) -> str:
        """Return the names of both runs, and the comparison function unless it is the default."""
        parties = " vs. ".join(self.parties)
        return parties if self.function == "simple" else f"{parties} ({self.function})"


Run = tuple[str, str]
"""The name of a runner, and the file that its results are from; empty for none."""


@frozen
class JudgedPair:
    """A comparison whose runs have no display names yet."""

    function: str
    runs: tuple[Run, Run]
    table: OutputRows
    tally: PairTally
    average: bool
    left_out: Sequence[str]

    def comparison(self, names: Mapping[Run, str], rows: Sequence[OutputRow]) -> Comparison:
        """Return the comparison of this pair, with the given names of runs."""
        return Comparison(
            function=self.function,
            parties=make_distinct(*(names[run] for run in self.runs)),
            passed=self.tally.passed,
            matched=self.tally.matched,
            total=self.tally.total,
            average=self.average,
            outputs=rows,
            left_out=self.left_out,
            iterations=self.table.iterations,
            empty=self.table.empty,
        )


def pairs_with_rows(result: AccuracyResult, tables: Sequence[OutputRows]) -> list[JudgedPair]:
    """Return each pair of runs of a result, with its rows."""
    rows = enumerate(zip(result.runs(), tables, result.tallies()))
    return [
        JudgedPair(result.label, runs, table, tally, result.is_average,
                 list(result.left_out_at.get(position, ())))
        for position, (runs, table, tally) in rows
    ]  # fmt: skip


def _average_rows(table: OutputRows, result: AccuracyResult, at: int) -> OutputRows:
    """Return the rows of the averages over all iterations, for one pair of runners."""
    average = OutputRows(
        table.runners, table.positions, table.label, is_judged=False, measures=table.measures
    )
    average.add(None, result.average_results(at))
    average.iterations = table.iterations
    return average


class _OutputSummary:
    """Collects the results of one output; the first iteration sets type and shape."""

    __slots__ = ("absolute", "infinite", "kept", "limit", "matched", "metric", "metrics", "name",
                 "noise", "rank", "relative", "tensors", "total", "uniform", "value",
                 "worst")  # fmt: skip

    def __init__(self, name: str, first: Any) -> None:
        """Start with the result of the first iteration."""
        self.name = name
        self.tensors: Tensors = (None, None)
        if isinstance(first, CompareResult):
            self.tensors = first.tensor0, first.tensor1
        self.metric = ""
        self.absolute: float | None = None
        self.relative: float | None = None
        self.value: float | None = None
        self.limit: Any = None
        self.kept = _BOTH
        self.matched = self.total = self.infinite = 0
        self.worst: WorstIteration | None = None
        self.rank = (False, -inf)
        # The result of all iterations so far, if they have the same one.
        self.uniform: tuple[str, str] | None = None
        self.metrics: dict[str, float | None] = {}
        self.noise: Rounding | None = None

    def measure(self, answer: CompareResult) -> None:
        """Keep the worst value of each metric and the first rounding limit."""
        if self.total == 1 and isinstance(answer, OutputCompareResult):
            self.noise = answer.rounding
        is_less_better = not isinstance(answer, MetricResult) or bool(answer.metric.lower_is_better)
        for metric, value in answer.metric_values().items():
            if value is not None and _is_worse(value, self.metrics.get(metric), is_less_better):
                self.metrics[metric] = value

    def add(self, iteration: int | None, answer: Any) -> None:
        """Add the result of an iteration, and keep the worst."""
        passed = bool(answer)
        self.total += 1
        self.matched += passed
        # Results of users' comparison functions may have these attributes.
        self.absolute = larger_metric(self.absolute, getattr(answer, "max_absdiff", None))
        self.relative = larger_metric(self.relative, getattr(answer, "max_reldiff", None))
        if isinstance(answer, OutputCompareResult):
            self.metric = "simple"
            self.kept &= _sufficient_tolerances(answer) if passed else frozenset()
            self.limit = answer.tolerance
        elif isinstance(answer, CompareResult) and answer.thresholds is not None:
            self.limit = answer.thresholds
        if self.uniform != _VARIED and isinstance(answer, OutputCompareResult):
            self._note_constants(answer)
        if passed and isinstance(answer, OutputCompareResult) and answer.notes_infinities:
            for array in answer.arrays or ():
                self.infinite = max(self.infinite, count_non_finite(array)[1])
        rank = result_sort_key(answer)
        if self.worst is None or rank > self.rank:
            self.worst, self.rank = _worst_of(iteration, answer, passed=passed), rank
            if isinstance(answer, MetricResult):
                self.value, self.metric = answer.value, answer.metric.title

    def _note_constants(self, answer: OutputCompareResult) -> None:
        """Record whether each run's output is constant, and equal in all iterations."""
        uniform, other_name = (
            map(uniformity, answer.arrays) if answer.arrays is not None else _VARIED
        )
        before = self.uniform or (uniform, other_name)
        self.uniform = (
            uniform if uniform == before[0] else "",
            other_name if other_name == before[1] else "",
        )

    def row(self) -> OutputRow:
        """Return the row of an output."""
        assert self.worst is not None
        return OutputRow(
            self.name, self.matched, self.total, self.tensors, self.metric, self.absolute,
            self.relative, self.value, self.limit, self.kept, self.worst, self.uniform or _VARIED,
            self.infinite, self.metrics, self.noise,
        )  # fmt: skip


def _is_worse(value: float, worst: float | None, is_less_better: bool) -> bool:
    """Return whether a value is worse than the known one; NaN is worst."""
    if worst is None or isnan(value):
        return True
    return not isnan(worst) and (value > worst if is_less_better else value < worst)


def result_sort_key(answer: Any) -> tuple[bool, float]:
    """Return a sort key for output results: whether it failed, then the share of the tolerance.

    Outputs that could not be compared come last.
    """
    passed = bool(answer)
    excess = answer.excess if isinstance(answer, CompareResult) else None
    if excess is None:
        return not passed, -1.0 if passed else inf
    return not passed, excess


def _worst_of(iteration: int | None, answer: Any, *, passed: bool) -> WorstIteration:
    """Return the worst deviation of an output in an iteration, from its comparison."""
    excess = answer.excess if isinstance(answer, CompareResult) else None
    if isinstance(answer, OutputCompareResult):
        return _worst_of_differences(iteration, excess, answer, passed=passed)
    if isinstance(answer, UncomparedResult):
        return WorstIteration(iteration, excess, reason=answer.reason, is_missing=answer.is_missing)
    if isinstance(answer, IndicesResult):
        return WorstIteration(iteration, excess, mismatched=answer.count, size=answer.size)
    reason = "" if passed or isinstance(answer, MetricResult) else str(answer)
    return WorstIteration(iteration, excess, reason=reason)


def _worst_of_differences(
    iteration: int | None, excess: float | None, answer: OutputCompareResult, *, passed: bool
) -> WorstIteration:
    """Return the worst deviation of an output whose elements were compared."""
    mismatches = answer.mismatches
    numbers = answer.max_absdiff, answer.max_reldiff
    is_finite = all(number is None or isfinite(number) for number in numbers)
    return WorstIteration(
        iteration,
        excess,
        *numbers,
        mismatched=mismatches.count if mismatches else None,
        size=mismatches.size if mismatches else None,
        element=mismatches.worst if mismatches else None,
        non_finite=None if is_finite or answer.arrays is None else _non_finite(answer.arrays),
        rounding=None if passed else answer.rounding,
        is_rounding=not passed and answer.is_rounding,
        part=answer.part,
    )


def _non_finite(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return, for both arrays, the numbers of NaN and of infinite elements."""
    first, second = (count_non_finite(array) for array in arrays)
    return first, second


def _sufficient_tolerances(answer: OutputCompareResult) -> frozenset[str]:
    """Return which of the two tolerances (absolute, relative) would be enough without the other."""
    limits, sufficient_tolerances = answer.tolerance, {"abs", "rel"}
    for statistic in limits.check_error_stat:
        absolute, relative = answer.required_tolerances(statistic)
        if absolute is None or not absolute <= limits.atol:
            sufficient_tolerances.discard("abs")
        if relative is None or not relative <= limits.rtol:
            sufficient_tolerances.discard("rel")
    return frozenset(sufficient_tolerances)


def larger_metric(value: float | None, other_ratio: float | None) -> float | None:
    """Return the larger of two metrics, or the only one that is known; None if neither is.
    NaN counts as larger than any number."""
    if value is None or other_ratio is None:
        return other_ratio if value is None else value
    if isnan(value) or isnan(other_ratio):
        return nan
    return max(value, other_ratio)


def largest_jump(rows: Sequence[OutputRow]) -> int | None:
    """Return the position of the failed row with the largest increase over all rows before it, in
    model order; None if errors only grow gradually.
    """
    jump_index, largest, before = None, _JUMP, _HARMLESS
    for at, row in enumerate(rows):
        if row.worst.excess is None:
            continue
        excess = min(row.worst.excess, _WRONG)
        if not row.passed and excess > largest * before:
            jump_index, largest = at, excess / before
        before = max(before, excess)
    return jump_index


_BRIEF = 4
"""Digits of a number in a sentence."""
_MILLION = 1e6


def row_sort_key(row: OutputRow) -> tuple[bool, bool, float]:
    """Return a sort key for rows: failed ones first, then by the share of the tolerance needed."""
    excess = row.worst.excess
    if excess is None:
        excess = inf if row.worst.reason else -1.0
    return not row.passed, not row.worst.is_missing, inf if isnan(excess) else excess


def doubts_of_rows(rows: Sequence[OutputRow], parties: Sequence[str]) -> str:
    """Return sentences that list matching outputs that are empty or constant, and those with equal
    infinities; empty if there are none.
    """
    tolerances, infinite = [], []
    for row in rows:
        name, other_name = row.uniform
        if row.passed and (name or other_name):
            where = "" if name == other_name else f" in {parties[0 if name else 1]}"
            tolerances.append(f"{row.name!r} is {name or other_name}{where}")
        elif row.passed and row.infinite:
            infinite.append(f"{row.name!r} has {count_text(row.infinite, 'infinite element')}")
    sentences = []
    if tolerances:
        sentences.append(f"{list_some(tolerances, worded=str)}, so a match proves little.")
    if infinite:
        sentences.append(f"{list_some(infinite, worded=str)}, equal in both.")
    return " ".join(sentences)


def row_in_words(row: OutputRow, parties: Sequence[str]) -> str:
    """Return a sentence about the worst element of a failed output, relative to its tolerance."""
    name, worst = repr(row.name), row.worst
    if worst.part and not worst.reason:
        name += f", part {worst.part}"
    where = ""
    if row.total > 1 and row.passed is False and worst.iteration is not None:
        where = f" (iteration {worst.iteration})"
    if worst.reason:
        return f"{name}: {worst.reason.rstrip('.')}{where}"
    times = ""
    if worst.excess is not None and 1 < worst.excess < inf:
        times = f", {factor_in_words(worst.excess)} times the tolerance"
    if counts := _non_finite_words(worst, parties):
        return f"{name}: {counts}{where}{_equality(row)}"
    if worst.element is not None:
        actual, expected = brief_pair(worst.element.value, worst.element.reference)
        index = ",".join(map(str, worst.element.index))
        return f"{name} at [{index}]: {actual}, expected {expected}{where}{times}"
    if row.metric not in {"simple", ""}:
        return f"{name}: {row.metric} {brief_value(row.value)}{where}{times}"
    if worst.mismatched is not None:
        return f"{name}: {worst.mismatched} of {worst.size} elements{where}{times}"
    absolute, relative = brief_value(worst.absolute), brief_value(worst.relative)
    return f"{name}: max abs {absolute}, max rel {relative}{where}{times}"


def _non_finite_words(worst: WorstIteration, parties: Sequence[str]) -> str:
    """Return the sentence on NaN and infinite elements in both runs."""
    if worst.non_finite is None:
        return ""
    (nan0, inf0), (nan1, inf1) = worst.non_finite
    words = []
    for text, counts in (("NaN", (nan0, nan1)), ("infinity", (inf0, inf1))):
        if nan0 == nan1 and inf0 == inf1 and any(counts):
            words.append(f"{text} in {counts[0]} of {worst.size} elements of both")
        elif any(counts):
            sides = [
                f"{text} in {count} of {worst.size} elements of {name}" if count
                else f"none in {name}"
                for name, count in zip(parties, counts)
            ]  # fmt: skip
            words.append(", ".join(sides))
    return "; ".join(words)


def _equality(row: OutputRow) -> str:
    """Return a note on how NaN or infinity in both runs is treated.
    The result is empty if the worst element is neither.
    """
    element = row.worst.element
    if element is None or str(element.value) != str(element.reference):
        return ""
    return _UNEQUAL[str(element.value) == "nan"]


_UNEQUAL = (
    "; infinities are equal only with --infinities-compare-equal",
    "; NaN never passes",
)


def factor_in_words(ratio: float) -> str:
    """Return a factor with two significant digits."""
    if ratio >= _MILLION:
        return f"{ratio:.1e}"
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def brief_value(value: Any) -> str:
    """Return a value as text for a sentence; floats are rounded to a few digits."""
    return f"{value:.{_BRIEF}g}" if isinstance(value, float) else str(value)


def brief_pair(value: Any, reference: Any, digits: int = _BRIEF) -> tuple[str, str]:
    """Return two values as text with `digits` digits, or more until they differ."""
    value, reference = (
        value.item() if hasattr(value, "item") else value for value in (value, reference)
    )
    for digits_shown in range(digits, 18):
        pair = tuple(
            f"{value:.{digits_shown}g}" if isinstance(value, float) else str(value)
            for value in (value, reference)
        )
        if pair[0] != pair[1] or value == reference:
            break
    return pair[0], pair[1]
