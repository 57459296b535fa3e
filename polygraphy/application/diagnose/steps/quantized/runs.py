"""Runs models on the data of a diagnosis, and measures them by the metric of its goal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison
from polygraphy.application.diagnose.outcome import Found
from polygraphy.domain.diagnosis.culprit import AGREE
from polygraphy.domain.diagnosis.words import errors, titles
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.quantization.metrics import Metric, Outputs, RmsRatio
from polygraphy.ports.editing import save_to_file
from polygraphy.ports.machine import release_memory

HELPS = 0.5
"""A repair counts if it leaves at most this share of the loss. Chosen, not measured."""


class GoalRuns:
    """Runs models on the data, and measures the time that the search has left.

    Args:
        case: the quantized model.
        comparison: the model and its reference.
        goal: the goal of the model.

    Attributes:
        goal: see there.
        values: the outputs of the model.
        rms: the default metric, of the worst output or part of one.
        allowed: the seconds that the search has; infinite without `--budget`.
    """

    def __init__(self, case: Case, comparison: ModelComparison, goal: QuantizedGoal) -> None:
        """Set the model, its reference, and the goal."""
        self.goal, self.values, self._case = goal, comparison.values, case
        self._party, self._feeds = comparison.pair.party, list(comparison.feeds)
        self._right = Outputs(comparison.expected)
        self.rms = RmsRatio(case.layout)
        self._metric: Metric = goal.metric or self.rms
        self._limit = self.allowed = inf if goal.seconds is None else goal.seconds
        self._start = time.perf_counter()
        self._metric_seconds = 0.0

    def judge(self, values: Sequence[Values], metric: Metric | None = None) -> float:
        """Return the value of a metric (default: the goal's) for the outputs.

        Raises:
            InputError: the user's metric raises, or returns no number, or that outputs which differ
                are perfect.
        """
        metric = metric or self._metric
        expected_outputs = self._right
        names = [name for name in expected_outputs if all(name in value for value in values)]
        outputs = Outputs([{name: value[name] for name in names} for value in values])
        is_given = metric is self.goal.metric
        if is_given:  # A user's function may change its arguments.
            outputs, expected_outputs = (
                _copy_outputs(outputs) for outputs in (outputs, expected_outputs)
            )
        start = time.perf_counter()
        try:
            returned = metric(outputs, expected_outputs)
        except (Exception, SystemExit) as error:
            if is_given:
                raise errors.metric_raises(self.goal.name, error) from error
            raise
        if is_given:
            self._metric_seconds = time.perf_counter() - start
        value = _number(returned)
        if value is None:
            raise errors.metric_returns_other(self.goal.name, returned)
        if np.isnan(value):
            raise errors.metric_returns_nan(self.goal.name)
        if is_given and value == -inf and not are_equal(values, self._right.samples):
            raise errors.metric_returns_infinity(self.goal.name)
        return value

    def run(
        self, model: Any, feeds: Sequence[Feed] | None = None, *, plain: bool = False
    ) -> list[Values]:
        """Return the outputs of a model for each input set."""
        compute = self._party.load(model, plain=plain)
        values: list[Values] = [compute(feed) for feed in feeds or self._feeds]
        del compute
        release_memory()
        return values

    def save(self, answer: Found, make_model: Callable[[], Any]) -> Found:
        """Save a model that reaches the goal, if requested, and return the answer."""
        if self.goal.save is not None:
            save_to_file(make_model(), self.goal.save)
            with self._case.record_step(titles.SAVED) as notes:
                notes.append(words.path_of_saved_model(self.goal.save))
        return answer

    def explain_missing_file(self, answer: Found) -> Found:
        """Return an answer; if a model was to be saved, and none was, a step says why."""
        if self.goal.save is not None and not any(
            attempt.title == titles.SAVED for attempt in self._case.attempts
        ):
            with self._case.record_step(titles.SAVED) as notes:
                notes.append(words.nothing_saved(is_reached=answer.result.verdict == AGREE))
        return answer

    def time_left(self) -> float:
        """Return the seconds of `--budget` that are left before the next call of the user's metric,
        negative if they are exceeded; infinite without `--budget`."""
        spent = time.perf_counter() - self._start
        return self._limit - spent - self._metric_seconds

    def start_search(self) -> None:
        """Record the start of the search, which may use the remaining time."""
        self.allowed = self.time_left()

    def ensure_time(self, share: float) -> None:
        """Ensure that at least a share of the time of the search is left."""
        spent = time.perf_counter() - self._start
        self._limit = max(self._limit, spent + share * self.allowed)


def _number(returned: Any) -> float | None:
    """Return what a metric returns as a number, or None.
    The result is None if it is none, such as a boolean: neither of its values is clearly better."""
    others = bool, np.bool_, np.complexfloating, str, bytes
    if isinstance(returned, others) or np.size(returned) != 1:
        return None
    try:
        return float(returned)
    except (OverflowError, TypeError, ValueError):
        return None


def reduce_metric(value: float, share: float = HELPS) -> float:
    """Return a metric reduced to a share of its value, also if it is negative, as in dB;
    of an infinite one, the largest finite number."""
    if value == inf:
        return float(np.finfo(float).max)
    return share * value if value > 0 else value - (1 - share) * abs(value)


def are_equal(values: Sequence[Values], other_values: Sequence[Values]) -> bool:
    """Return whether two runs computed the same outputs."""
    return all(
        np.array_equal(value, other_value[name])
        for outputs, other_value in zip(values, other_values)
        for name, value in outputs.items()
        if name in other_value
    )


def _copy_outputs(outputs: Outputs) -> Outputs:
    """Return outputs with copied arrays."""
    return Outputs(
        [{name: np.copy(value) for name, value in sample.items()} for sample in outputs.samples]
    )
