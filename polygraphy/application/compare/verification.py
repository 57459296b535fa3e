"""Runs a model after it was edited, and compares what it computes with what it computed before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from attrs import define

from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.validation import validate
from polygraphy.application.diagnose.case import REFUSALS
from polygraphy.application.diagnose.data import choose_feeds_for_half
from polygraphy.application.diagnose.precision.half import Tolerance, open_half
from polygraphy.application.diagnose.subprocesses import run_in_subprocess
from polygraphy.application.run.feeding import Feeds
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.compare import CompareResult, PairwiseCompareFunc, SimpleCompareFunc
from polygraphy.domain.compare.result import OutputCompareResult
from polygraphy.domain.compare.simple_arrays import judge_worst_part
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import BackendError, MissingDependencyError, PolygraphyException
from polygraphy.domain.limits import ROUNDING_LIMIT
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.rounding import Rounding, deviation
from polygraphy.domain.row_order import order_like_reference
from polygraphy.domain.sizes import flat_elements
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.facts import is_ordered
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import escape_command
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER
from polygraphy.ports.diagnosing import USUAL, Compute, NarrowModels, SuspectedParty
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import find_facts, input_metadata, observe_tensors, output_names

_ORIGINAL, _EDITED = "original", "edited"


def verify(
    original: Any,
    edited: Any,
    data_loader: Any = None,
    compare_func: Any = None,
    advice: str | None = None,
) -> AccuracyResults:
    """Run a model and its edited version on the same data, and return the comparison of the edited
    model's outputs.

    The edited model may be a part of the original one. Its inputs that are tensors inside the
    original model get their values from a run of that model. An edited model that computes in half
    precision is computed with rounding at every operator, as hardware does, and the tolerance
    ``auto`` is that of `polygraphy.diagnose`. At the end, it runs once in ONNX Runtime, at the
    default optimization level, in its own process.

    Args:
        original: the model before the edit.
        edited: the edited model.
        data_loader: source of the input data (default: generated).
        compare_func: a comparison function (default: `SimpleCompareFunc()`).
        advice: a command that gives more information if outputs differ.

    Returns:
        Verdicts, truthy when everything matched.

    Raises:
        UsageError: there are no data.
        BackendError: a model cannot be run.
    """
    metadata, then = input_metadata(original), input_metadata(edited)
    for name, meta in then.items():
        # The edited model may have fixed lengths for dynamic dimensions.
        if name in metadata:
            metadata.add(name, metadata[name].dtype, meta.shape)
    function = _adapt_function(SimpleCompareFunc() if compare_func is None else compare_func)
    pair = _Pair(original, edited, then, resolve(NarrowModels).rounding_emulator(edited))
    feeds: Iterable[Mapping[str, Any]] | None = None
    if pair.compute is not None and _is_auto(function):
        judge = _half_precision_judge(pair, data_loader)
        if judge is not None:
            function, feeds = judge, judge.feeds
    if feeds is None:
        feeds = _feeds(original, metadata, data_loader)
    results = compare_accuracy(pair.runs(feeds), compare_func=function)
    if advice is not None and not results:
        G_LOGGER.info(f"To find the nodes at fault and a fix: {escape_command(advice)}")
    if results and pair.last is not None:
        _run_optimized(edited, pair.last)
    return results


def _is_auto(compare_func: Any) -> bool:
    """Return whether a comparison function uses the tolerance "auto"."""
    return isinstance(compare_func, SimpleCompareFunc) and compare_func.is_auto("")


def _adapt_function(compare_func: Any) -> Any:
    """Return a comparison function whose results state where default thresholds come from, and in
    which equal infinities match, as they do for an edit that changes nothing."""
    if not isinstance(compare_func, PairwiseCompareFunc):
        return compare_func
    named = copy(compare_func)
    named.given_by = "default of the verification"
    if isinstance(named, SimpleCompareFunc) and not named.infinities_compare_equal:
        named.infinities_compare_equal = named.notes_infinities = True
    return named


@define
class _Pair:
    """A model, and its edited or converted version.

    Attributes:
        original: the model as it was.
        edited: the edited model.
        inputs: the inputs of the edited model.
        compute: computes it with rounding at every operator, if it is narrow.
        last: the data that it was given last.
    """

    original: Any
    edited: Any
    inputs: TensorMetadata
    compute: Compute | None
    last: Mapping[str, Any] | None = None

    def convert_feed(
        self, feed_dict: Mapping[str, Any], inside: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return input data converted to the types of the edited model."""
        values = {}
        for name, meta in self.inputs.items():
            given_value = inside[name] if name in inside else feed_dict[name]
            is_cast = meta.dtype is not None and name not in inside
            values[name] = (
                np.asarray(given_value, meta.dtype.numpy())
                if is_cast and meta.dtype
                else given_value
            )
        return values

    def _rough_outputs(
        self, feed_dict: Mapping[str, Any], dtype: str
    ) -> Sequence[Mapping[str, Any]]:
        """Return outputs of the original model with perturbed rounding."""
        try:
            return resolve(NarrowModels).perturbed_function(self.original, dtype)(feed_dict)
        except PolygraphyException as error:
            G_LOGGER.verbose(f"The accumulated rounding is unknown: {error}")
            return []

    def runs(self, feeds: Iterable[Mapping[str, Any]]) -> Iterator[RunResults]:
        """Yield, by iteration, the outputs of the edited and the original model."""
        outputs = output_names(self.edited)
        facts = [find_facts(model) for model in (self.edited, self.original)]
        for feed_dict in feeds:
            inside = [name for name in self.inputs if name not in feed_dict]
            before = observe_tensors(self.original, feed_dict, [*outputs, *inside])
            fed = self.last = self.convert_feed(feed_dict, {name: before[name] for name in inside})
            if self.compute is None:
                after: Mapping[str, Any] = observe_tensors(self.edited, fed, outputs)
            else:
                after = self.compute(fed)
            runs = RunResults()
            for runner, values, fact in zip((_EDITED, _ORIGINAL), (after, before), facts):
                chosen = {name: values[name] for name in outputs}
                result = IterationResult(chosen, runner_name=runner, facts=fact)
                if self.compute is None:
                    result.perturb = partial(self._rough_outputs, feed_dict)
                runs.append((runner, [result]))
            yield runs


def _half_precision_judge(pair: _Pair, data_loader: Any) -> _HalfComparison | None:
    """Return a judge for half-precision casts like that of a diagnosis, or None.
    The result is None if the models differ in more than precision.
    """
    models = resolve(NarrowModels)
    narrow = models.narrow_nodes(pair.edited)
    if narrow is None or models.narrow_nodes(pair.original) is not None:
        return None
    if set(output_names(pair.edited)) != set(output_names(pair.original)):
        return None
    if not set(pair.inputs) <= set(input_metadata(pair.original)):
        return None
    dtype, nodes = narrow
    try:
        half = open_half(pair.original, dtype)
        if kept_names := set(half.model.passes) - set(nodes):
            half = open_half(pair.original, dtype, set(half.model.passes) - kept_names)
    except PolygraphyException as error:
        G_LOGGER.verbose(f"The accumulated rounding is unknown: {error}")
        return None
    is_made_up = data_loader is None or isinstance(data_loader, DataLoader)
    data = data_loader if is_made_up or iter(data_loader) is not data_loader else [*data_loader]
    chosen = choose_feeds_for_half(half.model, data)
    trial = half.try_on(chosen)
    compute = pair.compute
    assert compute is not None
    before, verdict = trial.judge(lambda feed: compute(pair.convert_feed(feed, {})))
    if verdict == "ill-conditioned":
        G_LOGGER.warning(
            f"Rounding only the inputs to {dtype} changes the outputs just as much: {before}."
        )
    elif verdict == "inconclusive":
        G_LOGGER.warning(f"In {dtype}, {before}: rounding accumulates in all nodes.")
    feeds = chosen if is_made_up else _feeds(pair.original, half.model.inputs, data)
    return _HalfComparison(dtype, trial.tolerance, feeds)


class _HalfComparison(PairwiseCompareFunc):
    """Compares outputs in half precision with those in float32, with tolerances from rounding."""

    label = "simple"

    def __init__(
        self, dtype: DataTypeEntry, tolerance: Tolerance, feeds: Iterable[Mapping[str, Any]]
    ) -> None:
        """Set the type, the tolerance, and the data."""
        super().__init__()
        self.feeds = feeds
        self._tolerance = tolerance
        adds = ", accumulated along the model" if tolerance.share > 1 else ""
        self.given_by = f"{ROUNDING_LIMIT} of {dtype}{adds}"

    def thresholds_for(self, output_name: str) -> Any:
        """Return the tolerance of an output, as a share of its size."""
        return SimpleCompareFunc(rtol=self._tolerance.element_rtol, atol=0).tolerance_for(
            output_name
        )

    def compare(
        self, iter_result0: IterationResult, iter_result1: IterationResult
    ) -> dict[str, CompareResult]:
        """Return the comparison of all outputs of one iteration.
        The second run is the original model's.
        """
        result0, result1 = dict(iter_result0), dict(iter_result1)
        explained = {}
        for name in iter_result0:
            result0[name], result1[name] = self._aligned_arrays(name, result0[name], result1[name])
            explained[name] = self._tolerance.rounding(name, result1[name])

        def judge(rounding: Mapping[str, Rounding], values: Mapping[str, Any]) -> Any:
            """Return the comparison of some outputs, with tolerances that rounding explains."""
            rtol = {"": 0.0, **{name: rounding.rtol for name, rounding in rounding.items()}}
            atol = {"": 0.0, **{name: rounding.atol for name, rounding in rounding.items()}}
            function = SimpleCompareFunc(rtol=rtol, atol=atol, infinities_compare_equal=True)
            function.given_by, function.notes_infinities = self.given_by, True
            known_judge = (
                {name: result1[name] for name in values} if len(rounding) == 1 else result1
            )
            return function(
                iter_result0.with_outputs(values), iter_result1.with_outputs(known_judge)
            )

        results: dict[str, CompareResult] = judge(explained, result0)
        for name, rounding in explained.items():
            result = results.get(name)
            if rounding.parts and isinstance(result, OutputCompareResult):
                results[name] = judge_worst_part(
                    result,
                    rounding,
                    lambda own_value, _, arrays, name=name: judge(
                        {name: own_value}, {name: arrays[0]}
                    )[name],
                )
        return results

    def _aligned_arrays(self, name: str, value: Any, expected: Any) -> tuple[Any, Any]:
        """Return an output and its reference as arrays with aligned elements."""
        if isinstance(expected, (list, tuple)):
            array, other_array = flat_elements(value), flat_elements(expected)
            return (array, other_array) if array.shape == other_array.shape else (value, expected)
        if not isinstance(expected, np.ndarray) or not isinstance(value, np.ndarray):
            return value, expected
        rounding = self._tolerance.rounding(name, expected)
        if is_float(expected):
            value = np.asarray(value, expected.dtype)
        if (
            is_ordered(self._tolerance.facts, name)
            and deviation(value, expected, rounding=rounding).is_wrong
        ):
            value = order_like_reference(value, expected, rounding)
        measured = deviation(value, expected, rounding=rounding)
        if measured.count and not measured.is_wrong and not is_float(expected):
            G_LOGGER.info(
                f"Output {name!r}: {measured.count} of {expected.size} elements differ;"
                " with a type this coarse, rounding can decide that many ties differently."
            )
            return expected, expected
        return value, expected


def _run_optimized(model: Any, feed: Mapping[str, Any]) -> None:
    """Run a model in ONNX Runtime with all optimizations, if it is installed, to raise its errors.

    Raises:
        BackendError: it crashes, or is refused because of that.
    """
    party = resolve(SuspectedParty, USUAL)
    try:
        run_in_subprocess(lambda: party.load(model)(feed) and None, "ONNX Runtime")
    except MissingDependencyError:
        return
    except REFUSALS as error:
        if getattr(error, "backend", "") and not _runs_plainly(party, model, feed):
            G_LOGGER.warning(f"ONNX Runtime cannot run it on this machine: {error}")
            return
        raise BackendError(
            "The converted model is not verified: ONNX Runtime fails at its default"
            f" optimization level. {error}",
            backend="onnxruntime",
            hint="Save it without --verify, and find the cause with polygraphy diagnose; to run it,"
            " try polygraphy run --graph-optimization-level ENABLE_BASIC.",
        ) from error


def _runs_plainly(party: SuspectedParty, model: Any, feed: Mapping[str, Any]) -> bool:
    """Return whether a model runs without rewrites, tested in a separate process."""
    try:
        run_in_subprocess(lambda: party.load(model, plain=True)(feed) and None, "ONNX Runtime")
    except REFUSALS:
        return False
    return True


def verify_runs(model: Any, data_loader: Any = None) -> bool:
    """Return whether a model runs, if there is nothing to compare it with.

    Args:
        model: the unmodified model.
        data_loader: source of the input data (default: generated).

    Returns:
        Whether its outputs contain neither NaN nor infinity, in all iterations.

    Raises:
        UsageError: there are no data.
        BackendError: the model cannot be run.
    """
    names = output_names(model)
    passed = True
    for feed_dict in _feeds(model, input_metadata(model), data_loader):
        values = observe_tensors(model, feed_dict, names)
        runs = RunResults()
        runs.add([IterationResult(values, runner_name=_EDITED)], runner_name=_EDITED)
        passed &= validate(runs, check_inf=True)
    return passed


def _feeds(model: Any, metadata: TensorMetadata, data_loader: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the input data of every iteration, at least one.
    Generated data are valid for the model.
    """
    feeds = Feeds(DataLoader() if data_loader is None else data_loader, resolve(Console))
    feeds.describe_model(metadata, partial(find_facts, model))
    yield feeds.current
    while feeds.advance():
        yield feeds.current
