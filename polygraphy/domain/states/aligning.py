"""Values of a model with states side by side: positions that nobody reads, states of other lengths,
and all inputs at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.domain.states.memory import StepFacts, StepFeed
from polygraphy.domain.states.pairs import GROWS, RING, SLOTS, StatePair
from polygraphy.domain.states.uses import CHUNK, CONSTANT, MASK, POSITIONS, TOKENS
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    from polygraphy.domain.states.plan import StatePlan

_HIDDEN = -1e3
"""Additive masks below this hide a position."""


def padding(plan: StatePlan, feed: Mapping[str, Any]) -> Array | None:
    """Return a mask of the positions that a step hides from all others, [batch, positions].
    The result is None if it hides none."""
    for name in plan.roles.inputs_of(MASK):
        mask = feed.get(name)
        if mask is None or getattr(mask, "ndim", 0) < 2:
            continue
        seen_value = mask > _HIDDEN if is_float(mask) and mask.ndim > 2 else mask != 0
        if seen_value.ndim > 2:  # Use the mask row of the last position.
            seen_value = (
                seen_value[..., -1, :].reshape(seen_value.shape[0], -1, seen_value.shape[-1]).any(1)
            )
        hidden: Array = ~np.asarray(seen_value, bool)
        return hidden if hidden.any() else None
    return None


def without_padding(value: Any, hidden: Array | None, axis: int | None, start: int) -> Any:
    """Return a tensor with zeros at the positions that a mask hides.

    Args:
        value: the tensor, batch first.
        hidden: see `padding`.
        axis: its axis of positions; None if it has none.
        start: the position of its first entry.
    """
    if hidden is None or axis is None or value.ndim <= axis or axis == 0:
        return value
    rows = hidden[:, start : start + value.shape[axis]]
    if not rows.any() or value.shape[0] != rows.shape[0]:
        return value
    remaining_value = value.shape[axis] - rows.shape[1]
    rows = np.pad(rows, ((0, 0), (0, remaining_value))) if remaining_value else rows
    shape = [1] * value.ndim
    shape[0], shape[axis] = rows.shape
    return np.where(rows.reshape(shape), np.zeros((), value.dtype), value)


def zero_hidden_positions(outputs: Mapping[str, Any], facts: StepFacts | None) -> Mapping[str, Any]:
    """Return the outputs of a step with zeros at positions that the mask hides,
    because nothing reads them."""
    if facts is None or facts.hidden is None:
        return outputs
    part = dict(outputs)
    for name, value in outputs.items():
        array = value if isinstance(value, (list, tuple)) else np.asarray(value)
        if isinstance(array, np.ndarray) and array.ndim > 1:
            part[name] = without_padding(array, facts.hidden, *facts.positions_of(name, array))
    return part


def fit_state(value: Any, like: Any, pair: StatePair) -> Any | None:
    """Return a state cut or padded along the position axis to fit another model, or None.
    The result is None if the shapes do not allow it.

    Args:
        value: the state.
        like: a value of the other model's state.
        pair: that state.
    """
    if value.ndim != like.ndim or is_float(value) != is_float(like):
        return None
    axis = pair.axis
    if value.shape != like.shape:
        if axis is None or any(
            new != old and at != axis % like.ndim
            for at, (new, old) in enumerate(zip(value.shape, like.shape))
        ):
            return None
        axis %= like.ndim
        missing = like.shape[axis] - value.shape[axis]
        if missing < 0:
            value = value[(slice(None),) * axis + (slice(0, like.shape[axis]),)]
        else:
            value = np.pad(value, [(0, missing if at == axis else 0) for at in range(like.ndim)])
    return value.astype(like.dtype, copy=False)


def slots_in_use(pair: StatePair, value: Any, end: int) -> Any:
    """Return the slots of a state before position `end`, which are written;
    the whole state if it has no slots."""
    if pair.kind in (GROWS, SLOTS, RING) and pair.axis is not None and value.shape[pair.axis] > end:
        return value[(slice(None),) * (pair.axis % value.ndim) + (slice(0, end),)]
    return value


def padding_length(feeds: Sequence[StepFeed]) -> int:
    """Return the number of positions that `pad_feeds` hides."""
    return min(2, feeds[0].step.length - 1)


def pad_feeds(plan: StatePlan, feeds: Sequence[StepFeed]) -> list[StepFeed] | None:
    """Return the same steps with the first positions hidden by the mask, or None.
    The result is None without a [batch, positions] mask, or if the first step is too short.
    """
    masks = [
        name for name in plan.roles.inputs_of(MASK) if getattr(feeds[0].get(name), "ndim", 0) == 2
    ]
    length = feeds[0].step.length
    if not masks or length < 2 or any(not np.all(feeds[0][name]) for name in masks):
        return None
    pads = padding_length(feeds)
    padded = []
    for feed in feeds:
        arrays = dict(feed)
        for name in masks:
            arrays[name] = feed[name].copy()
            arrays[name][:, :pads] = 0
        for name in plan.roles.inputs_of(POSITIONS):
            if arrays[name].ndim == 2:
                # Position inputs with one dimension are slots in a cache, and do not change.
                arrays[name] = np.maximum(arrays[name] - pads, 0).astype(arrays[name].dtype)
        padded.append(feed.with_arrays(arrays))
    return padded


def join_steps_without_start(
    plan: StatePlan, feeds: Sequence[StepFeed], at: int, cut: int
) -> dict[str, Any]:
    """Return the inputs of all steps up to `at`, joined into one step without the first `cut`
    positions. A model that supports padding computes the same for a padded text.
    """
    states = [pair.input for pair in plan.pairs]
    plan = plan.for_step(0)
    step, axis = feeds[at].step, plan.roles.axis
    drawn = {}
    for name, role in plan.roles.by_input.items():
        rows = [feed[name] for feed in feeds[: at + 1] if name in feed]
        if role in (TOKENS, CHUNK) and rows[0].ndim > axis:
            drawn[name] = np.concatenate(rows, axis)[(slice(None),) * axis + (slice(cut, None),)]
        elif role in (TOKENS, CHUNK, CONSTANT):
            drawn[name] = rows[0]
    total = step.start + step.length - cut
    initial = {name: feeds[0][name] for name in states if name in feeds[0]}
    return {**initial, **{name: plan.value(name, total, 0, drawn) for name in plan.roles.by_input}}


def join_steps(plan: StatePlan, feeds: Sequence[StepFeed], at: int) -> dict[str, Any]:
    """Return the inputs of all steps up to `at`, joined into one step."""
    states = [pair.input for pair in plan.pairs]
    plan = plan.for_step(0)
    step = feeds[at].step
    total, axis = step.start + step.length, plan.roles.axis
    joined_values: dict[str, Any] = {}
    drawn = {}
    for name, role in plan.roles.by_input.items():
        rows = [feed[name] for feed in feeds[: at + 1] if name in feed]
        if role in (TOKENS, CHUNK) and rows[0].ndim > axis:
            drawn[name] = np.concatenate(rows, axis)
        elif role in (TOKENS, CHUNK, CONSTANT):
            drawn[name] = rows[0]
        elif role == POSITIONS and rows[0].ndim and rows[0].shape[-1] == feeds[0].step.length:
            joined_values[name] = np.concatenate(rows, -1)
        elif role == MASK and rows[-1].ndim == 2 and rows[-1].shape[-1] >= total:
            joined_values[name] = rows[-1]
    values = {
        name: plan.value(name, total, 0, drawn)
        for name in plan.roles.by_input
        if name not in joined_values
    }
    initial = {name: feeds[0][name] for name in states if name in feeds[0]}
    return {**initial, **values, **joined_values}


def last_part(value: Any, expected: Any) -> Any:
    """Return the last positions of `expected`, cut to the shape of `value`, or None.
    The result is None if `value` is larger along an axis, or several axes differ."""
    if value.ndim != expected.ndim:
        return None
    slices: list[Any] = []
    for new, old in zip(value.shape, expected.shape):
        if new > old:
            return None
        slices.append(slice(old - new, None))
    if sum(new != old for new, old in zip(value.shape, expected.shape)) > 1:
        return None
    return expected[tuple(slices)]


def same_positions(value: Any, expected: Any, axis: int) -> tuple[Any, Any]:
    """Return two tensors, both cut to the last position if either has only that."""
    shapes = value.shape, expected.shape
    if len(shapes[0]) != len(shapes[1]) or not 0 <= axis < len(shapes[0]):
        return value, expected
    if 1 in (shapes[0][axis], shapes[1][axis]) and shapes[0] != shapes[1]:
        last = (slice(None),) * axis + (slice(-1, None),)
        return value[last], expected[last]
    return value, expected


def first_part(value: Any, longer: Any) -> Any:
    """Return the first positions of `longer`, cut to the shape of `value`, or None.
    The result is None if `value` is larger along an axis."""
    if value.ndim != longer.ndim:
        return None
    if any(new > old for new, old in zip(value.shape, longer.shape)):
        return None
    return longer[tuple(slice(0, size) for size in value.shape)]
