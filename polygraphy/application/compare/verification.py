"""Runs a model after it was edited, and compares what it computes with what it computed before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.application.compare.validation import validate
from polygraphy.application.run.feeding import Feeds
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.compare import PairwiseCompareFunc
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import FactFinder, TensorObserver

_ORIGINAL, _EDITED = "original", "edited"


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
    results = compare_accuracy(
        _runs(original, edited, then, _feeds(original, asked, data_loader)),
        compare_func=_as_of_verification(compare_func),
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


def _runs(
    original: Any, edited: Any, then: TensorMetadata, feeds: Iterable[Mapping[str, Any]]
) -> Iterator[RunResults]:
    """Yield, iteration by iteration, what both models compute."""
    observer = resolve(TensorObserver)
    outputs = observer.outputs(edited)
    for feed_dict in feeds:
        inside = [name for name in then if name not in feed_dict]
        before = observer.observe(original, feed_dict, [*outputs, *inside])
        feed_after = {name: before[name] if name in inside else feed_dict[name] for name in then}
        for name, meta in then.items():  # It may take another data type, too.
            if meta.dtype is not None and name not in inside:
                feed_after[name] = np.asarray(feed_after[name], meta.dtype.numpy())
        after = observer.observe(edited, feed_after, outputs)
        runs = RunResults()
        for runner, values in ((_ORIGINAL, before), (_EDITED, after)):
            chosen = {name: values[name] for name in outputs}
            runs.add([IterationResult(chosen, runner_name=runner)], runner_name=runner)
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
