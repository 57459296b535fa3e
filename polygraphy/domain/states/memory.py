"""The states of one runner from step to step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from polygraphy.domain.errors import BackendError
from polygraphy.domain.states.names import is_cross_attention
from polygraphy.domain.states.pairs import (
    BRANCH,
    CONSTANT,
    FIRST_MODEL,
    GROWS,
    RING,
    SLOTS,
    StatePair,
)


@frozen
class StepFacts:
    """The position of a step in a run, and its states.

    Attributes:
        index: its number, from 0.
        start: the position of its first token, or chunk.
        length: number of its positions.
        states: the outputs that are states.
        judged: the output that is judged; None if all are states.
        tokens: whether that output has a score for each token.
        is_last: whether no step follows.
        axis: the axis of positions of outputs that are not states.
        pairs: the states whose axes of positions are known.
        inputs: all inputs of the ONNX model, in order.
        outputs: all outputs of the ONNX model, in order.
        hidden: the positions that the mask hides from all others, [batch, positions]; None for
            none.
    """

    index: int
    start: int
    length: int
    states: Sequence[str] = ()
    judged: str | None = None
    tokens: bool = False
    is_last: bool = False
    axis: int = 1
    pairs: Sequence[StatePair] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    hidden: Any = field(default=None, eq=False)

    def positions_of(self, name: str, value: Any) -> tuple[int | None, int]:
        """Return an output's axis of positions, or None, and the position of its first entry."""
        pair = next((pair for pair in self.pairs if pair.output == name), None)
        if pair is None:
            if value.ndim <= self.axis:
                return None, self.start
            # The output may contain only the last positions.
            return self.axis, self.start + max(0, self.length - value.shape[self.axis])
        if pair.kind not in (GROWS, SLOTS, RING) or pair.axis is None:
            return None, self.start
        axis = pair.axis % value.ndim
        return axis, self.start if value.shape[axis] == self.length else 0


class StepFeed(dict[str, Any]):
    """The inputs of a step, without the states that come from the step before.

    Attributes:
        step: the facts that identify the step.
        pairs: the states; those of step 0 are among the inputs.
        names: by output of this step's model, its name in later steps, if it differs.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        step: StepFacts,
        pairs: Sequence[StatePair],
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create the inputs of a step, with the facts needed to add the states."""
        super().__init__(arrays)
        self.step = step
        self.pairs = pairs
        self.names = names

    def with_arrays(self, arrays: Mapping[str, Any]) -> StepFeed:
        """Return a feed of the same step with other arrays."""
        return StepFeed(arrays, self.step, self.pairs, self.names)

    def rename_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs of a step with the names of later steps.
        Those of a program that has other names come in the order of the ONNX model.
        """
        if self.names:
            return {self.names.get(name, name): array for name, array in outputs.items()}
        is_missing = any(name not in outputs for name in self.step.states)
        if is_missing and len(outputs) == len(self.step.outputs):
            return dict(zip(self.step.outputs, outputs.values()))
        return outputs

    def __reduce__(self) -> Any:
        """Return what pickle stores."""
        return StepFeed, (dict(self), self.step, self.pairs, dict(self.names))


class StateMemory:
    """The states of one runner."""

    def __init__(self) -> None:
        """Create a memory without states."""
        self.states: dict[str, Any] = {}

    def complete(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs of a step with its states added; other inputs are unchanged."""
        if not isinstance(feed, StepFeed):
            return feed
        if feed.step.index == 0:
            self.states = {}
        fed = {**self.states, **feed}
        # A program with different input names accepts inputs in the order of the ONNX model.
        ordered = {name: fed[name] for name in feed.step.inputs if name in fed}
        return {**ordered, **fed}

    def keep(
        self, feed: Mapping[str, Any], fed: Mapping[str, Any], outputs: Mapping[str, Any], name: str
    ) -> Mapping[str, Any]:
        """Store the states that a step computed, and return its outputs with states reduced to
        their new slots.

        Args:
            feed: the inputs without states.
            fed: the inputs with states.
            outputs: the outputs of the step.
            name: the party that computed it, for messages.

        Returns:
            The outputs. States that grow, or that are written in slots, contain only the new
            slots, except in the last step.

        Raises:
            BackendError: an output that is a state is missing, or cannot be fed back.
        """
        if not isinstance(feed, StepFeed):
            return outputs
        shown_outputs, step = dict(outputs), feed.step
        for pair in feed.pairs:
            new, old = outputs.get(pair.output), fed.get(pair.input)
            if new is None and pair.source == FIRST_MODEL and step.index:
                # Only the first model provides this state, and later steps do not change it.
                continue
            if new is None:
                raise BackendError(
                    f"{name} has no output {pair.output!r}, the next value of"
                    f" input {pair.input!r}."
                )
            is_kept = pair.kind in (CONSTANT, BRANCH) or is_cross_attention(pair.input)
            if is_kept and step.index and _size(new) < _size(old):
                # The decoding branch returns an empty tensor for this state, so keep the previous
                # one.
                self.states[pair.input] = old
            else:
                self.states[pair.input] = new
            if not step.is_last or pair.kind == RING:
                # Other states are partly unwritten memory in the last step, which is arbitrary.
                shown_outputs[pair.output] = _new_part(pair, old, new, step)
        return shown_outputs


def _size(array: Any) -> int:
    """Return the number of elements; 1 for a value without a size."""
    return int(getattr(array, "size", 0)) if not callable(getattr(array, "size", 0)) else 1


def _new_part(pair: StatePair, old: Any, new: Any, step: StepFacts) -> Any:
    """Return the slots of a state that a step wrote; the whole state if unknown."""
    before, after = getattr(old, "shape", None), getattr(new, "shape", None)
    axis = pair.axis
    if axis is None or before is None or after is None or len(before) != len(after):
        return new
    axis %= len(after)
    if pair.kind == GROWS and before[axis] < after[axis]:
        return new[_slots(axis, before[axis], None)]
    if pair.kind in (SLOTS, RING) and step.start + step.length <= after[axis]:
        return new[_slots(axis, step.start, step.start + step.length)]
    return new


@lru_cache(maxsize=256)
def _slots(axis: int, start: int, stop: int | None) -> tuple[slice, ...]:
    """Return the index of a range along an axis; all states of a step share one."""
    return (slice(None),) * axis + (slice(start, stop),)


def state_names(pairs: Sequence[StatePair]) -> Iterator[str]:
    """Yield the outputs that are states."""
    return (pair.output for pair in pairs)
