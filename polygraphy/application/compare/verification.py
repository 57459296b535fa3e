"""Runs a model after it was edited, and compares what it computes with what it computed before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Any

import numpy as np

from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.validation import validate
from polygraphy.application.run.feeding import Feeds
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.compare import CompareResult, PairwiseCompareFunc, SimpleCompareFunc
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.narrowing import limits_of, with_digits
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import NarrowModels
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import FactFinder, TensorObserver

_ORIGINAL, _EDITED = "original", "edited"
_BESIDE_ROUNDING = 2.0
_MOST_ROUNDING = 5.0
"""What is tolerated where rounding the weights explains more than is usual: so many times what it
does, and so many times what usually is at most.
"""


def verify(
    original: Any,
    edited: Any,
    data_loader: Any = None,
    compare_func: Any = None,
    advice: str | None = None,
) -> AccuracyResults:
    """Run a model and an edited one on the same data, every iteration of them, and compare all
    outputs of the latter.

    What the edited model takes that is inside the original one - it may be a part of it - is
    taken from there, with what it computes of the data.

    Args:
        original: the model as it was.
        edited: the model as it is.
        data_loader: where the input data come from (default: generated).
        compare_func: a comparison function (default: `SimpleCompareFunc()`).
        advice: a command that tells more where outputs differ.

    Returns:
        Verdicts, truthy when everything matched.

    Raises:
        UsageError: there are no data.
        BackendError: a model cannot be run.
    """
    observer = resolve(TensorObserver)
    asked, then = observer.inputs(original), observer.inputs(edited)
    for name, meta in then.items():  # The edited model may have fixed some dimensions.
        if name in asked:
            asked.add(name, asked[name].dtype, meta.shape)
    function = _as_of_verification(compare_func)
    if isinstance(function, SimpleCompareFunc):
        function = _AllowingForRounding(function, original, edited)
    feeds = _feeds(original, asked, data_loader)
    results = compare_accuracy(
        _runs(original, edited, then, feeds, function), compare_func=function
    )
    if advice is not None and not results:
        G_LOGGER.info(f"Which nodes are to blame, and what helps: {advice}")
    return results


def _as_of_verification(compare_func: Any) -> Any:
    """Return a comparison function whose verdicts say where its thresholds come from: who edits
    a model may have given none.
    """
    if not isinstance(compare_func, PairwiseCompareFunc):
        return compare_func
    named = copy(compare_func)
    named.given_by = "that of the verification"
    return named


class _AllowingForRounding(PairwiseCompareFunc):
    """Compares the outputs of an edited model with those of the original one; where the edited one
    computes in a narrow type, outputs that differ too much are held to what rounding explains.

    In some models the weights that are rounded to that type take the outputs further away than is
    usual, in float32 already, and rounding at every operator adds about as much. A fault, such as a
    range that is left or a wrong operator, shows beside that; an infinity or NaN never passes.
    """

    def __init__(self, function: SimpleCompareFunc, original: Any, edited: Any) -> None:
        super().__init__(function.check_shapes, function.fail_fast, function.find_output_func)
        self.label = function.label
        self.feed: Mapping[str, Any] = {}
        self._function = function
        self._original = original
        self._is_sensitive = False
        self._open = lru_cache(maxsize=1)(
            lambda: resolve(NarrowModels).with_rounded_weights(original, edited)
        )

    def per_output_settings(self) -> Iterable[Any]:
        """Return the settings of the function that compares."""
        return self._function.per_output_settings()

    def thresholds_for(self, output_name: str) -> Any:
        """Return what the output is held to unless rounding explains more."""
        return self._function.thresholds_for(output_name)

    def check_averages(self) -> None:
        """Refuse what the function that compares refuses."""
        self._function.check_averages()

    def grant_threads(self, count: int) -> None:
        """Let the function that compares use several threads."""
        self._function.grant_threads(count)

    def compare(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Compare all outputs of one iteration; the second run is that of the original model."""
        results = self._function.compare(iter_result0, iter_result1)
        failed = [name for name, each in results.items() if not each and name in iter_result1]
        for name, function in self._allowances(failed, iter_result1):
            pair = [each.with_outputs({name: each[name]}) for each in (iter_result0, iter_result1)]
            results.update(function.compare(*pair))
        self._blame_inputs([name for name in failed if not results[name]], iter_result1)
        return results

    def _blame_inputs(self, names: Sequence[str], right: IterationResult) -> None:
        """Log of which outputs that differ the original model itself makes as much where only its
        inputs are rounded; once.
        """
        names = [name for name in names if self._is_judged_by_elements(name, right[name])]
        opened = self._open() if names and not self._is_sensitive else None
        if opened is None:
            return
        _, _, spacing = limits_of(opened[1].numpy())
        rounded = {name: with_digits(np.asarray(v), spacing) for name, v in self.feed.items()}
        for name, alone, most in self._changes(self._original, rounded, names, right):
            if alone > most:
                self._is_sensitive = True
                G_LOGGER.warning(
                    f"Output {name!r}: rounding the inputs to {opened[1]} alone changes it by"
                    f" {alone:.3g} in the original model, which is that sensitive on these data."
                )

    def _allowances(
        self, names: Sequence[str], right: IterationResult
    ) -> Iterator[tuple[str, SimpleCompareFunc]]:
        """Yield the outputs of which rounding the weights explains more than is usual, each with
        what compares it.
        """
        names = [name for name in names if self._is_judged_by_elements(name, right[name])]
        opened = self._open() if names else None
        if opened is None:
            return
        model, dtype = opened
        for name, alone, most in self._changes(model, self.feed, names, right):
            usual = self._function.tolerance_for(name)
            allowed = min(_BESIDE_ROUNDING * alone, most)
            if allowed > usual.atol:  # Not so where it is NaN.
                function = copy(self._function)
                function.atol, function.rtol = float(f"{allowed:.3g}"), usual.rtol
                function.check_error_stat = usual.check_error_stat
                function.error_quantile = None
                explained = f"rounding the weights to {dtype} alone makes {alone:.3g}"
                function.given_by = f"that of the verification; {explained}"
                G_LOGGER.info(
                    f"Output {name!r}: {explained}, so abs={function.atol:.3g} is tolerated instead"
                    f" of abs={usual.atol:.3g}."
                )
                yield name, function

    def _changes(
        self, model: Any, feed: Mapping[str, Any], names: Sequence[str], right: IterationResult
    ) -> Iterator[tuple[str, float, float]]:
        """Yield of each output how much another model or other data change it, and the most that is
        tolerated for that.
        """
        moved = resolve(TensorObserver).observe(model, feed, names)
        for name in names:
            usual = self._function.tolerance_for(name)
            most = _MOST_ROUNDING * max(usual.atol, usual.rtol * _largest(right[name]))
            yield name, _distance(moved[name], right[name]), most

    def _is_judged_by_elements(self, name: str, array: Any) -> bool:
        """Return whether an output is held to numbers, and its elements are."""
        if not is_float(np.asarray(array)) or self._function.is_auto(name):
            return False
        return {"elemwise", "max"}.issuperset(self._function.tolerance_for(name).check_error_stat)


def _distance(one: Any, other: Any) -> float:
    """Return the largest difference; NaN where there is no telling."""
    if one.shape != other.shape or not one.size:
        return math.nan
    with np.errstate(all="ignore"):
        return float(np.abs(np.asarray(one, np.float64) - other).max())


def _largest(array: Any) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def _runs(
    original: Any,
    edited: Any,
    then: TensorMetadata,
    feeds: Iterable[Mapping[str, Any]],
    function: Any,
) -> Iterator[RunResults]:
    """Yield, iteration by iteration, what both models compute, the original one as the second."""
    observer = resolve(TensorObserver)
    outputs = observer.outputs(edited)
    facts = [resolve(FactFinder).find(model) for model in (edited, original)]
    for feed_dict in feeds:
        if isinstance(function, _AllowingForRounding):
            function.feed = feed_dict
        inside = [name for name in then if name not in feed_dict]
        before = observer.observe(original, feed_dict, [*outputs, *inside])
        feed_after = {name: before[name] if name in inside else feed_dict[name] for name in then}
        for name, meta in then.items():  # It may take another data type, too.
            if meta.dtype is not None and name not in inside:
                feed_after[name] = np.asarray(feed_after[name], meta.dtype.numpy())
        after = observer.observe(edited, feed_after, outputs)
        runs = RunResults()
        for runner, values, known in zip((_EDITED, _ORIGINAL), (after, before), facts):
            chosen = {name: values[name] for name in outputs}
            result = IterationResult(chosen, runner_name=runner, facts=known)
            runs.add([result], runner_name=runner)
        yield runs


def verify_runs(model: Any, data_loader: Any = None) -> bool:
    """Run a model that there is nothing to compare with.

    Args:
        model: the model as it is.
        data_loader: where the input data come from (default: generated).

    Returns:
        Whether its outputs hold neither NaN nor infinity, in any iteration.

    Raises:
        UsageError: there are no data.
        BackendError: the model cannot be run.
    """
    observer = resolve(TensorObserver)
    names = observer.outputs(model)
    passed = True
    for feed_dict in _feeds(model, observer.inputs(model), data_loader):
        values = observer.observe(model, feed_dict, names)
        runs = RunResults()
        runs.add([IterationResult(values, runner_name=_EDITED)], runner_name=_EDITED)
        passed &= validate(runs, check_inf=True)
    return passed


def _feeds(model: Any, asked: TensorMetadata, data_loader: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the input data of every iteration, of which there must be one; those that are generated
    are legal for the model.
    """
    feeds = Feeds(DataLoader() if data_loader is None else data_loader, resolve(Console))
    feeds.describe_model(asked, partial(resolve(FactFinder).find, model))
    yield feeds.current
    while feeds.advance():
        yield feeds.current
