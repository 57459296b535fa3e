"""How much each step of two parties differs on equal states, and how a recurrence adds that up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import REFUSALS, Feed
from polygraphy.application.diagnose.comparisons.step_runs import (
    Judge,
    Run,
    feed_with_states,
    output_names,
    rms,
    state_names,
)
from polygraphy.domain.tensors.precision import is_float

_SMALL = 1e-2
"""Largest difference of one step on equal states, by the size of a tensor, that can be rounding:
beyond, a state holds something else. Chosen, not measured."""
_GROWTH = 2.0
"""Multiple of the accumulated differences of single steps that is accepted: the reference with
these differences added differs from the other party by effects of second order alone. Chosen, not
measured."""
_LARGEST = 0.25
"""Share of the size of an output above which a difference is never explained. Chosen, not
measured."""
_JUMP = 4.0
"""Multiple of the differences of the examined steps above which a later step is examined as well.
Chosen, not measured."""


@frozen
class StepError:
    """The differences between two models in a step that both run on the states of the reference.

    Attributes:
        feed: the inputs of the diagnosed party.
        states: the differences of the new states, by input of the correct party.
        sizes: the RMS difference of each output, by its name in the correct party.
        relative: the largest RMS difference, by the RMS of the tensor.
    """

    feed: Feed
    states: Mapping[str, Any]
    sizes: Mapping[str, float]
    relative: float


def errors_on_equal_states(judge: Judge) -> list[StepError]:
    """Return the differences of each step on equal states.
    The result is empty if a state or output cannot be compared.
    """
    own_side, expected_side = judge.own, judge.right
    names = {**output_names(own_side, expected_side), **state_names(own_side, expected_side)}
    try:
        compute, run = own_side.load(), Run(expected_side, expected_side.load())
        errors = []
        for at in range(len(own_side.feeds)):
            run.advance()
            feed = feed_with_states(own_side, expected_side, at, None, run.feed)
            if feed is None:
                return []
            error = _step_error(feed, compute(feed), run, names)
            if error is None:
                return []
            errors.append(error)
    except REFUSALS:
        return []
    return errors


def _step_error(
    feed: Feed, values: Mapping[str, Any], run: Run, names: Mapping[str, str]
) -> StepError | None:
    """Return the differences of a step, or None.
    The result is None if two tensors have different shapes or are not floating point and differ.
    """
    inputs = {pair.output: pair.input for pair in run.who.plan.pairs}
    states, sizes, relative = {}, {}, 0.0
    for name, other_name in names.items():
        value, expected = values.get(name), run.values.get(other_name)
        if value is None or expected is None or value.shape != expected.shape:
            return None
        if not is_float(value) or not is_float(expected):
            if not np.array_equal(value, expected):
                return None
            continue
        difference = value.astype(np.float64) - expected.astype(np.float64)
        if not np.isfinite(difference).all():
            return None
        sizes[other_name] = rms(value, expected)
        size = rms(expected, np.zeros_like(expected))
        relative = max(relative, sizes[other_name] / size if size else 0.0)
        if other_name in inputs:
            states[inputs[other_name]] = difference
    return StepError(feed, states, sizes, relative)


def are_small(errors: Sequence[StepError]) -> bool:
    """Return whether the differences of all steps are known and too small to change any output."""
    return bool(errors) and max(error.relative for error in errors) <= _SMALL


def next_step_to_examine(errors: Sequence[StepError], examined: Sequence[int]) -> int | None:
    """Return the first step whose differences are far larger than those of the examined steps.
    The result is None if there is none.
    """
    largest = max((errors[at].relative for at in examined), default=0.0)
    return next(
        (at for at, error in enumerate(errors) if error.relative > max(_JUMP * largest, 2.0**-24)),
        None,
    )


def is_accumulation(judge: Judge, errors: Sequence[StepError]) -> bool:
    """Return whether the small differences of single steps, added to the states of the reference,
    reproduce the differences of the model on its own states."""
    if not are_small(errors):
        return False
    names = output_names(judge.own, judge.right)
    try:
        own_run = Run(judge.own, judge.own.load())
        exact, moved = (Run(judge.right, judge.right.load()) for _ in range(2))
        largest: dict[str, float] = {}
        for error in errors:
            for run in (own_run, exact, moved):
                run.advance()
            if not _add_differences(moved, error.states):
                return False
            for name, other_name in names.items():
                value, expected = own_run.shown[name], exact.shown[other_name]
                if not is_float(expected):
                    continue
                growth = rms(moved.shown[other_name], expected) + error.sizes[other_name]
                largest[name] = max(largest.get(name, 0.0), growth)
                share = _LARGEST * rms(expected, np.zeros_like(expected))
                if rms(value, expected) > min(_GROWTH * largest[name], share):
                    return False
    except REFUSALS:
        return False
    return True


def _add_differences(run: Run, differences: Mapping[str, Any]) -> bool:
    """Add differences to the states of a run; return False if their shapes differ."""
    for name, difference in differences.items():
        state = run.memory.states.get(name)
        if state is None:
            continue
        if state.shape != difference.shape:
            return False
        run.memory.states[name] = (state.astype(np.float64) + difference).astype(state.dtype)
    return True
