"""The verdict about pairs of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, SupportsIndex, Union

from attrs import frozen

from polygraphy.binding import port
from polygraphy.domain.accuracy.answer_log import AnswerLog, Answers, Reading, Spool, count_matched
from polygraphy.domain.compare.averages import average_of
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import CheckFailedError, UsageError
from polygraphy.domain.limits import Threshold
from polygraphy.domain.ports import data_frame
from polygraphy.domain.results.results import IterationResult, KeyedList
from polygraphy.domain.tensors.pickling import Storable, pickle_as, pickled_items

RunnerPair = tuple[str, str]
PairKey = Union[RunnerPair, SupportsIndex, None]
"""The pair of runs that is meant: by position, or by names, which several pairs may have; the
first pair for None."""


@frozen
class PairResult:
    """One iteration of two runs, compared by one function.

    `results` maps output names to answers that are true if the output passed; `outputs` are the
    outputs of both runs. If `is_judged` is false, only the average of all iterations is judged.
    Names of runners may repeat: `positions` are the positions of the compared runs, and `origins`
    the files that they were read from (empty for none).
    """

    runners: RunnerPair
    iteration: int
    label: str
    results: Mapping[str, Any]
    outputs: tuple[IterationResult, IterationResult]
    is_judged: bool = True
    positions: tuple[int, int] = (0, 1)
    origins: tuple[str, str] = ("", "")

    @property
    def failed_outputs(self) -> list[str]:
        """The names of the outputs that failed."""
        return [name for name, result in self.results.items() if not result]

    def sides(self, name: str) -> tuple[Any, Any] | None:
        """Return both values of an output; None if one run lacks it."""
        result, (outputs0, outputs1) = self.results[name], self.outputs
        name0 = getattr(result, "output0_name", None) or name
        name1 = getattr(result, "output1_name", None) or name
        return (
            (outputs0[name0], outputs1[name1]) if name0 in outputs0 and name1 in outputs1 else None
        )


@frozen
class PairTally:
    """The number of matching iterations of a pair of runs, or of outputs if averages are judged.

    An iteration without any output does not count as a match.
    """

    runners: RunnerPair
    matched: int
    total: int

    @property
    def passed(self) -> bool:
        """Return whether iterations were compared and all matched."""
        return 0 < self.matched == self.total

    @property
    def percentage(self) -> float:
        """Return the share of matches, in percent; 0 if nothing was compared."""
        return 100.0 * self.matched / self.total if self.total else 0.0


@frozen
class WorstOutput:
    """The output that exceeds its tolerance the most: by `excess` times, infinite for NaN.

    `iteration` is None for the average of all iterations.
    """

    runners: RunnerPair
    iteration: int | None
    name: str
    result: CompareResult
    excess: float


class FirstFailure(NamedTuple):
    """The first output that fails, in the order of iterations and outputs; `output` is None where
    an iteration was not compared at all.
    """

    iteration: int
    output: str | None


def first_failure(iterations: Iterable[Mapping[str, Any]]) -> FirstFailure | None:
    """Return the first failure; None if every iteration passed."""
    for index, answers in enumerate(iterations):
        if not answers:
            return FirstFailure(index, None)
        for name, answer in answers.items():
            if not answer:
                return FirstFailure(index, name)
    return None


Thresholds = Union[Threshold, Mapping[str, Threshold]]
"""One for all outputs, or by output name, in which ``""`` stands for the others."""

AGGREGATIONS = ("per_sample", "average")


def reevaluate(answers: Iterable[tuple[str, Any]], thresholds: Thresholds) -> None:
    """Judge each result by new thresholds, in place.
    An output that could not be compared keeps failing.

    Args:
        answers: names of outputs, and the results of a comparison function.
        thresholds: the thresholds they must meet.

    Raises:
        UsageError: an output has no threshold, or one for metrics that its result does not have; no
            result is changed then.
    """
    chosen = [(answer, _applicable_threshold(name, answer, thresholds)) for name, answer in answers]
    for answer, threshold in chosen:
        if threshold is not None:
            answer.set_thresholds(threshold)


def _applicable_threshold(name: str, answer: Any, thresholds: Thresholds) -> Threshold | None:
    """Return the threshold for a result; None if it has no metrics to judge."""
    if isinstance(answer, UncomparedResult):
        return None
    threshold = _threshold_of(name, thresholds)
    metric_values = answer.metric_values() if isinstance(answer, CompareResult) else {}
    lacking = [field for field in threshold.metric_fields() if metric_values.get(field) is None]
    if lacking or not metric_values:
        raise UsageError(
            f"The results of output {name!r} lack {', '.join(lacking) or 'metrics'}, which a"
            f" {type(threshold).__name__} checks.",
            hint=f"They contain: {', '.join(metric_values) or 'a verdict only'}.",
        )
    return threshold


def _threshold_of(name: str, thresholds: Thresholds) -> Threshold:
    """Return the threshold of an output; raise UsageError if it has none."""
    if isinstance(thresholds, Threshold):
        return thresholds
    threshold = (
        thresholds.get(name, thresholds.get("")) if isinstance(thresholds, Mapping) else None
    )
    if not isinstance(threshold, Threshold):
        raise UsageError(
            f"Output {name!r} has no threshold.",
            hint='Add it, or set a default with the key "".',
        )
    return threshold


def check_aggregation(aggregation: str) -> str:
    """Return the aggregation mode after checking that it is in `AGGREGATIONS`.

    Raises:
        UsageError: the mode does not exist.
    """
    if aggregation not in AGGREGATIONS:
        raise UsageError(
            f"{aggregation!r} is not an aggregation of verdicts.",
            hint=f"By {' or '.join(AGGREGATIONS)}.",
        )
    return aggregation


@pickle_as("polygraphy.comparator.struct")
class AccuracyResult(KeyedList[RunnerPair, Mapping[str, Any]]):
    """The results of one comparison function: per pair of runners and iteration, one per output.

    True if every pair passed, as `tallies` counts: in every iteration at least one output was
    compared, and all of them passed.

    Attributes:
        label: name of the comparison function.
        aggregation: ``per_sample`` if every iteration is judged, ``average`` if the mean of each
            metric over the iterations is.
        left_out_at: by position of a pair, the outputs that were not compared because only one run
            has them.
        files_at: by position of a pair, the files that its two runs were read from, empty for none;
            pairs without files are missing.
        uncounted_at: by position of a pair, the outputs whose results do not count, such as states
            that differ without effect.
    """

    key_description = "Pair of runners"
    label = "simple"
    aggregation = "per_sample"
    left_out_at: Mapping[int, Sequence[str]] = MappingProxyType({})
    files_at: Mapping[int, tuple[str, str]] = MappingProxyType({})
    uncounted_at: Mapping[int, Sequence[str]] = MappingProxyType({})

    def __init__(
        self,
        dct: (
            Mapping[RunnerPair, Iterable[Answers]]
            | Iterable[tuple[RunnerPair, Iterable[Answers]]]
            | None
        ) = None,
        aggregation: str = "per_sample",
    ) -> None:
        """Create a result without pairs, or with those of a dictionary or of ``(pair,
        iterations)``."""
        super().__init__(dct.items() if isinstance(dct, Mapping) else dct)
        if aggregation != self.aggregation:
            self.aggregation = check_aggregation(aggregation)

    def start(self, pair: RunnerPair, open_spool: Callable[[], Spool] | None = None) -> AnswerLog:
        """Add a pair of runners and return the log for its results.
        Earlier iterations move to the storage that `open_spool` opens until they are read.
        """
        log = AnswerLog(open_spool)
        self.append((pair, log))
        return log

    def leave_uncounted(
        self, position: int, names: Sequence[str], open_spool: Callable[[], Spool] | None
    ) -> None:
        """Remove the results of outputs of a pair that do not count."""
        pair, iterations = list.__getitem__(self, position)
        counted = AnswerLog(open_spool)
        for answers in (
            iterations.all_iterations() if isinstance(iterations, AnswerLog) else iterations
        ):
            counted.add({name: answer for name, answer in answers.items() if name not in names})
        list.__setitem__(self, position, (pair, counted))
        self.uncounted_at = {**self.uncounted_at, position: list(names)}

    def read(self) -> Iterator[tuple[RunnerPair, Collection[Answers]]]:
        """Yield pairs and their results like `items`, but keep only a few iterations in memory.
        Read-only.
        """
        for pair, iterations in super().items():
            yield pair, (
                iterations.all_iterations() if isinstance(iterations, AnswerLog) else iterations
            )

    def runs(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """Return, per pair, its two runs, each as runner name and the file it was read from."""
        files = (self.files_at.get(position, ("", "")) for position in range(len(self)))
        return [
            ((first, file0), (second, file1))
            for (first, second), (file0, file1) in zip(self.keys(), files)
        ]

    @property
    def left_out(self) -> dict[RunnerPair, list[str]]:
        """Return, by pair of names, the outputs that only one run has."""
        by_names: dict[RunnerPair, list[str]] = {}
        for position, names in self.left_out_at.items():
            by_names.setdefault(self.keys()[position], []).extend(names)
        return {pair: list(dict.fromkeys(names)) for pair, names in by_names.items()}

    def _positions(self, runner_pair: PairKey) -> list[int]:
        """Return the positions of the requested pairs; UnknownNameError if there are none."""
        if runner_pair is None or isinstance(runner_pair, SupportsIndex):
            return [range(len(self))[0 if runner_pair is None else runner_pair]]
        positions = [position for position, pair in enumerate(self.keys()) if pair == runner_pair]
        return positions or [self.index_of(runner_pair)]

    def _position(self, runner_pair: PairKey) -> int:
        """Return the position of the single requested pair.

        Raises:
            UnknownNameError: the pair does not exist.
            UsageError: several pairs have these names.
        """
        positions = self._positions(runner_pair)
        if len(positions) > 1:
            raise UsageError(
                f"{len(positions)} pairs of runs have the names {runner_pair}.",
                hint=f"Select by position: {', '.join(map(str, positions))}.",
            )
        return positions[0]

    def _iterations_at(self, position: int) -> Collection[Answers]:
        """Return the answers for each iteration of the pair at a position."""
        return next(islice(self.read(), position, None))[1]

    def _unpack(self) -> None:
        """Replace packed answers by plain ones."""
        for entry in super().items():
            if isinstance(entry[1], AnswerLog):
                entry[1].unpack()

    def keys(self) -> list[RunnerPair]:
        """Return the pairs, in order."""
        return [pair for pair, _ in super().items()]

    def items(self) -> Iterator[tuple[RunnerPair, list[Answers]]]:
        """Yield each pair of runners with the results of its iterations."""
        self._unpack()
        return super().items()

    def __getitem__(self, key: Any) -> Any:
        """Return the entry at a position, or the iterations of a pair."""
        self._unpack()
        return super().__getitem__(key)

    def pop(self, index: SupportsIndex = -1) -> tuple[RunnerPair, list[Answers]]:
        """Remove and return an entry."""
        self._unpack()
        return super().pop(index)

    def __reversed__(self) -> Iterator[tuple[RunnerPair, list[Answers]]]:
        """Yield the pairs with their iterations, the last pair first."""
        self._unpack()
        return super().__reversed__()

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal pairs, results and aggregation."""
        for side in (self, other):
            if isinstance(side, AccuracyResult):
                side._unpack()
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_average(self) -> bool:
        """Whether averages over iterations are judged, rather than iterations."""
        return self.aggregation == "average"

    def __iter__(self) -> Iterator[RunnerPair]:  # type: ignore[override]
        """Yield the pairs, as a dictionary does; see `items`."""
        return iter(self.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle stores."""
        return type(self), (list(self.items()),), vars(self)

    def __bool__(self) -> bool:
        """Return whether every pair of runs passed."""
        return len(self) > 0 and all(tally.passed for tally in self.tallies())

    def tallies(self) -> Iterator[PairTally]:
        """Yield the tally of each pair, in order.
        Every verdict and every count is derived from it."""
        for position, pair in enumerate(self.keys()):
            counted = self._judgments(position)
            matched = (
                counted.match_count if isinstance(counted, Reading) else count_matched(counted)
            )
            yield PairTally(pair, matched, len(counted))

    def _judgments(self, position: int) -> Collection[Answers]:
        """Return the results that count: those of each iteration, or the averages as a single
        one."""
        if not self.is_average:
            return self._iterations_at(position)
        return [{name: average} for name, average in self._averages(position).items()]

    def stats(self, runner_pair: PairKey = None) -> tuple[int, int, int]:
        """Return ``(matched, mismatched, total)`` iterations of a pair, or outputs with averages.
        The default is the first pair. If averages are judged, outputs are counted. Pairs with
        equal names are added up.
        """
        positions = self._positions(runner_pair)
        tallies = [tally for at, tally in enumerate(self.tallies()) if at in positions]
        matched, total = (sum(counts) for counts in zip(*((t.matched, t.total) for t in tallies)))
        return matched, total - matched, total

    def percentage(self, runner_pair: PairKey = None) -> float:
        """Return the share of the results in `stats` that matched, from 0 to 1.
        The result is 0 if there are none.
        """
        matched, _, total = self.stats(runner_pair)
        return matched / total if total else 0.0

    def average_results(self, runner_pair: PairKey = None) -> dict[str, CompareResult]:
        """Return, by output of a pair (default: the first), the mean of each metric over the
        iterations, judged by the thresholds of the first. If an iteration was not compared, all
        outputs fail without means.

        Raises:
            UsageError: the results have no metrics, or several pairs have these names.
        """
        return self._averages(self._position(runner_pair))

    def _averages(self, position: int) -> dict[str, CompareResult]:
        """Return the result of each output averaged over iterations."""
        by_output: dict[str, list[Any]] = {}
        empty: int | None = None
        for iteration, answers in enumerate(self._iterations_at(position)):
            if not answers and empty is None:
                empty = iteration
            for name, answer in answers.items():
                by_output.setdefault(name, []).append(answer)
        if empty is not None:
            reason = f"No output was compared in iteration {empty}, so there is no average."
            return {name: UncomparedResult(reason) for name in by_output}
        return {name: average_of(totals) for name, totals in by_output.items()}

    def deciding_results(self, position: int) -> Collection[Answers]:
        """Return the results that decide about a pair: those of every iteration, or the averages as
        a single one; read-only.
        """
        return [self._averages(position)] if self.is_average else self._iterations_at(position)

    def output_names(self) -> list[str]:
        """Return the names of all outputs that were compared, each once."""
        return list(dict.fromkeys(name for _, _, name, _ in self.scan()))

    def describe_average(self, runner_pair: PairKey = None) -> dict[str, tuple[str, bool]]:
        """Return a line about each output's averages and whether it passed, by output.

        The outputs are those of a pair (default: the first). Outputs with thresholds that cannot
        describe themselves are missing.
        """
        described = {
            name: result.describe() for name, result in self.average_results(runner_pair).items()
        }
        return {name: line for name, line in described.items() if line is not None}

    def reevaluate(self, thresholds: Thresholds, aggregation: str | None = None) -> AccuracyResult:
        """Judge the metrics by new thresholds, in place, and return this result.

        Args:
            thresholds: the thresholds of all outputs, or by output name, with ``""`` for all other
                outputs.
            aggregation: ``per_sample`` or ``average``, to change it.

        Returns:
            These results.

        Raises:
            UsageError: an output has no threshold, or one for metrics that were not computed; no
                result is changed then.
        """
        chosen = self.aggregation if aggregation is None else check_aggregation(aggregation)
        reevaluate(((name, answer) for _, _, name, answer in self.outputs()), thresholds)
        self.aggregation = chosen
        return self

    def outputs(self) -> Iterator[tuple[RunnerPair, int, str, Any]]:
        """Yield pair of runners, iteration, output name and result of every comparison."""
        self._unpack()
        yield from self.scan()

    def scan(self) -> Iterator[tuple[RunnerPair, int, str, Any]]:
        """Yield the items of `outputs`, but keep only a few iterations in memory.
        Read-only, see `read`."""
        for pair, iterations in self.read():
            for iteration, answers in enumerate(iterations):
                for name, answer in answers.items():
                    yield pair, iteration, name, answer

    def worst(self) -> WorstOutput | None:
        """Return the output that exceeds its tolerance the most, or comes closest to it, or None.
        The result is None without metrics.
        """
        worst: WorstOutput | None = None
        for pair, iteration, name, answer in self.deciding_answers():
            excess = answer.excess if isinstance(answer, CompareResult) else None
            if excess is not None and (worst is None or excess > worst.excess):
                worst = WorstOutput(pair, iteration, name, answer, excess)
        return worst

    def failures(self) -> Iterator[Any]:
        """Yield every result, or average, that makes the comparison fail."""
        return (answer for _, _, _, answer in self.deciding_answers() if not answer)

    def failed_names(self) -> set[str]:
        """Return the names of all outputs that failed."""
        return {name for _, _, name, answer in self.deciding_answers() if not answer}

    def _repr_html_(self) -> str:
        """Return the verdicts as notebooks show them."""
        return AccuracyResults([self])._repr_html_()

    def deciding_answers(self) -> Iterator[tuple[RunnerPair, int | None, str, Any]]:
        """Yield pair, iteration, output and result of all results (or averages) that decide."""
        for position, pair in enumerate(self.keys()):
            for iteration, answers in enumerate(self.deciding_results(position)):
                for name, answer in answers.items():
                    yield pair, None if self.is_average else iteration, name, answer


@pickle_as("polygraphy.comparator.struct")
class AccuracyResults(list[AccuracyResult], Storable):
    """The results of several comparison functions; true if all of them passed.

    Attributes:
        steps: the steps of models with states, one per pair of runs; see `StepsCompared`.
    """

    def __init__(self, lst: Iterable[AccuracyResult] | None = None) -> None:
        """Create a list of results, by default an empty one."""
        super().__init__(lst or ())
        self.steps: Sequence[Any] = ()

    def append(self, elem: AccuracyResult) -> None:
        """Add the result of another comparison function."""
        super().append(elem)

    def extend(self, elems: Iterable[AccuracyResult]) -> None:
        """Add the results of other comparison functions."""
        super().extend(elems)

    def __bool__(self) -> bool:
        """Return whether all comparison functions passed."""
        return len(self) > 0 and all(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore pickled attributes, including those that NVIDIA's Polygraphy saves."""
        self.extend(pickled_items(state) or ())
        vars(self).update(state)

    def output_names(self) -> list[str]:
        """Return the names of all outputs that were compared, each once."""
        return list(dict.fromkeys(name for result in self for name in result.output_names()))

    def reevaluate(
        self, thresholds: Thresholds | Sequence[Thresholds], aggregation: str | None = None
    ) -> AccuracyResults:
        """Judge the metrics of all results by new thresholds, in place, and return them.

        Args:
            thresholds: a list with one entry per comparison function, or one entry if there is only
                one function.
            aggregation: ``per_sample`` or ``average``, to change it.

        Returns:
            These results.

        Raises:
            UsageError: there is not one entry for each comparison function, or one does not fit.
        """
        listed = thresholds if isinstance(thresholds, (list, tuple)) else [thresholds]
        if len(listed) != len(self):
            raise UsageError(
                f"There are {len(self)} comparison functions, but thresholds for {len(listed)}.",
                hint="Pass a list with one entry for each.",
            )
        for result, value in zip(self, listed, strict=True):
            result.reevaluate(value, aggregation)
        return self

    def summary(self) -> str:
        """Return the verdict in a few lines: for each pair of runs the failed outputs, the worst
        first.
        """
        return accuracy_in_words(self)

    def raise_for_failure(self) -> AccuracyResults:
        """Return these results if all of them passed.

        Raises:
            CheckFailedError: a comparison function failed; the message is the summary.
        """
        __tracebackhide__ = True  # pytest shows the line of the test.
        if not self:
            raise CheckFailedError(self.summary())
        return self

    def to_dataframe(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row per comparison function, pair of runs and
        output.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return data_frame(accuracy_records(self))

    def _repr_html_(self) -> str:
        """Return the verdicts as notebooks show them."""
        return verdicts_html(self)

    def __repr__(self) -> str:
        """Return the results as text, for debugging."""
        verdict = "PASSED" if self else "FAILED"
        return f"AccuracyResults({verdict}: {', '.join(repr(result.label) for result in self)})"


@port
def verdicts_html(results: AccuracyResults) -> str:  # type: ignore[empty-body]
    """Return the verdicts as HTML for notebooks."""


@port
def accuracy_in_words(results: AccuracyResults) -> str:  # type: ignore[empty-body]
    """Return the verdict on each pair of runs, and a line for each output that failed."""


@port
def accuracy_records(  # type: ignore[empty-body]
    results: AccuracyResults,
) -> list[dict[str, Any]]:
    """Return a dictionary for each comparison function, pair of runs and output."""
