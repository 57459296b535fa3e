"""A model with states: its pairs, the roles of its other inputs, and the value of each input in a
step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.model.graph import Graph, Tensor
from polygraphy.domain.states.cache_sizes import cache_sizes
from polygraphy.domain.states.first_model import match_outputs
from polygraphy.domain.states.names import pairs_by_name
from polygraphy.domain.states.pairs import (
    GROWS,
    REPLACED,
    SLOTS,
    StatePair,
    describe_pairs,
    state_pairs,
)
from polygraphy.domain.states.roles import Roles, roles_of
from polygraphy.domain.states.uses import (
    CHUNK,
    CONSTANT,
    FLAG,
    LAST,
    LENGTH,
    MASK,
    PAST,
    POSITIONS,
    TOKENS,
    TOTAL,
)
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.precision import epsilon_of

_AUDIO, _FRAMES = 512, 8
"""Samples of a chunk with one channel, and frames of one with several, if the model accepts any
number."""
_CONTEXT = 8
"""The length of what is the same in each step, such as the states of an encoder."""


@frozen
class FirstModel:
    """The model of the first step.

    Attributes:
        plan: the roles of its inputs.
        outputs: by name of its outputs, the names of the same tensors in later steps.
    """

    plan: StatePlan
    outputs: Mapping[str, str]


class StatePlan:
    """A model with states: its pairs, the roles of its other inputs, and the values of these.

    Attributes:
        graph: the graph.
        pairs: the states.
        roles: the other inputs.
        conflicts: the places where the graph contradicts the names.
        first: another model that runs the first step; None for none.
        sizes: the sizes of dimensions by their names: those of a batch, if the data set them, and
            of heads.
    """

    def __init__(
        self,
        graph: Graph,
        config: object = None,
        states: Sequence[tuple[str, str]] | None = None,
        first: Graph | None = None,
    ) -> None:
        """Find the states and roles of a graph; `states` are pairs set by the user."""
        self.graph = graph
        self.pairs, self.conflicts = state_pairs(graph, config, states)
        self.first: FirstModel | None = None
        if first is not None:
            names, pairs = match_outputs(first, graph, self.pairs)
            self.pairs = [*self.pairs, *pairs]
            plan = StatePlan(first, None, ())
            self.first = FirstModel(plan, names)
        self.roles: Roles = roles_of(graph, self.pairs)
        if not (self.is_decoder and self._knows_positions):
            # Without positions, slots are always overwritten: per chunk in a stream, per layer in a
            # recurrent model.
            self.pairs = [
                evolve(pair, kind=REPLACED, axis=None) if pair.kind == SLOTS else pair
                for pair in self.pairs
            ]
            self.roles = roles_of(graph, self.pairs)
        self.sizes: dict[str, int] = cache_sizes(graph, self.pairs, config)
        self.inputs: dict[str, Tensor] = {tensor.name: tensor for tensor in graph.inputs}
        self._lengths: dict[str, int] = {}
        if self.first is not None and self.roles.judged is not None:
            judged = self.first.plan.roles.judged
            names = {judged: self.roles.judged} if judged is not None else {}
            names |= self.first.outputs
            self.first = FirstModel(self.first.plan, names)

    @property
    def _knows_positions(self) -> bool:
        """Return whether an input contains the length of the past,
        so that a step can locate its slots."""
        return any(self.roles.inputs_of(role) for role in (MASK, POSITIONS, PAST, TOTAL, LAST))

    def for_step(self, index: int) -> StatePlan:
        """Return the plan of the model that runs a step."""
        return self if index or self.first is None else self.first.plan

    def lines(self) -> list[str]:
        """Return a line about the states and a line about the other inputs."""
        first = (
            []
            if self.first is None
            else [self.first.plan.roles.in_words("Inputs of the first step")]
        )
        conflicts = map(str, self.conflicts)
        return [self.describe_states(), str(self.roles), *first, *conflicts]

    def describe_states(self) -> str:
        """Return a line about the states; it warns if neither the order of inputs and outputs nor
        their names pair them."""
        line = describe_pairs(self.pairs)
        shown = [pair for pair in self.pairs if pair.source == "graph"]
        names = pairs_by_name([pair.output for pair in shown], [pair.input for pair in shown])
        inputs = [*self.inputs]
        input_numbers = [inputs.index(pair.input) for pair in shown if pair.output not in names]
        if input_numbers == sorted(input_numbers) or self.conflicts:
            return line
        return f"{line} They are not in the order of the inputs: do not pair them by position."

    def accuracy_levels(self) -> set[int]:
        """Return the precisions (accuracy_level) allowed for products with low-bit weights."""
        nodes = (node for inner in self.graph.walk() for node in inner.nodes)
        return {
            int(node.attribute("accuracy_level", 0)) for node in nodes if node.op == "MatMulNBits"
        }

    @property
    def is_decoder(self) -> bool:
        """Return whether a step reads tokens and a past (a stream reads one chunk at a time)."""
        return bool(self.roles.inputs_of(TOKENS)) or any(
            pair.kind == GROWS for pair in self.pairs if "embed" in " ".join(self.roles.by_input)
        )

    def chunk_length(
        self, prompt: int, index: int, given_values: Mapping[str, Sequence[int]]
    ) -> int:
        """Return the number of positions in a step."""
        fixed = self.for_step(index).roles.chunk
        if fixed is not None:
            return fixed
        if self.is_decoder:
            return prompt if index == 0 else 1
        for name in self.roles.inputs_of(CHUNK):
            shape, axis = self.inputs[name].shape or (), self.roles.axis
            if name in given_values and axis < len(given_values[name]):
                return int(given_values[name][axis])
            if len(shape) == 2:
                return _AUDIO
        return _FRAMES

    def shape(self, name: str, length: int, past: int) -> list[int]:
        """Return the shape of an input in a step; equal dimension names have equal sizes."""
        tensor, role = self.inputs[name], self.roles.by_input.get(name)
        shape = list(tensor.shape or ())
        sizes: list[int] = []
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                sizes.append(dim)
            elif role in (TOKENS, CHUNK, POSITIONS) and axis == self._position_axis(role, shape):
                sizes.append(length)
            elif role == MASK and axis == len(shape) - 1:
                sizes.append(self._mask_length(dim, length, past))
            elif role == MASK and axis == len(shape) - 2 and axis:
                sizes.append(length)
            elif role == CONSTANT and axis and f"{dim}" not in self.sizes:
                sizes.append(self._lengths.get(f"{dim}", _CONTEXT))
            else:
                sizes.append(self.sizes.get(f"{dim}", 1))
        return sizes

    def set_batch(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Set the batch size from the shapes of tokens or chunks.
        Equal dimension names have equal sizes.
        """
        for name in (*self.roles.inputs_of(TOKENS), *self.roles.inputs_of(CHUNK)):
            dims, shape = self.inputs[name].shape or (), shapes.get(name, ())
            if self.roles.axis and dims and shape and isinstance(dims[0], str):
                self.sizes[dims[0]] = int(shape[0])

    def _position_axis(self, role: str, shape: Sequence[Any]) -> int:
        """Return the axis of the positions in an input of a role."""
        if role == POSITIONS:
            return len(shape) - 1
        return min(self.roles.axis, len(shape) - 1)

    def _mask_length(self, dim: Any, length: int, past: int) -> int:
        """Return the length of a mask: all positions, or the new ones if its dimension has their
        name.
        """
        grows = any(pair.kind == GROWS for pair in self.pairs)
        for name in (*self.roles.inputs_of(TOKENS), *self.roles.inputs_of(CHUNK)):
            shape = self.inputs[name].shape or ()
            if dim is not None and dim in shape[1:] and not grows:
                return length
        return past + length

    def initial(self, pair: StatePair) -> Array:
        """Return the initial state: zeros, of length 0 if it grows."""
        tensor = self.inputs[pair.input]
        growing = self._growing_dimensions
        shape = [
            (
                dim
                if isinstance(dim, int)
                else (
                    0
                    if dim in growing or (pair.kind == GROWS and axis == pair.axis)
                    else self._dynamic_length(pair, dim, axis)
                )
            )
            for axis, dim in enumerate(tensor.shape or ())
        ]
        return np.zeros(shape, numpy_dtype(tensor))

    @property
    def _growing_dimensions(self) -> set[str]:
        """Return the names of dimensions along which states grow."""
        dims = set()
        for pair in self.pairs:
            shape = self.inputs[pair.input].shape or ()
            if pair.kind == GROWS and pair.axis is not None and pair.axis < len(shape):
                dim = shape[pair.axis]
                dims.update([dim] if isinstance(dim, str) else [])
        return dims

    def _dynamic_length(self, pair: StatePair, dim: Any, axis: int) -> int:
        """Return the length of a dynamic dimension of a state at the start."""
        if axis and "batch" not in f"{dim}".lower() and "encoder" in f"{pair.input}_{dim}".lower():
            return self._lengths.get(f"{dim}", _CONTEXT)
        return self.sizes.get(f"{dim}", 1)

    def value(self, name: str, length: int, past: int, drawn: Mapping[str, Array]) -> Array:
        """Return the array for an input of a step.

        Args:
            name: the input.
            length: the number of new positions.
            past: the number of earlier positions.
            drawn: the tokens, chunks and constants.
        """
        role, tensor = self.roles.by_input[name], self.inputs[name]
        if role in (TOKENS, CHUNK, CONSTANT):
            return drawn[name]
        dtype, shape = numpy_dtype(tensor), self.shape(name, length, past)
        numbers = {
            PAST: past,
            TOTAL: past + length,
            LAST: past + length - 1,
            LENGTH: length,
            FLAG: past > 0,
        }
        if role in numbers:
            return np.full(shape, numbers[role]).astype(dtype)
        if role == POSITIONS:
            count = shape[-1] if shape else 1
            first = past if count == length else max(past + length - count, 0)
            values = np.arange(first, first + count) if shape else np.array(past)
            return np.ascontiguousarray(np.broadcast_to(values, shape)).astype(dtype)
        return _mask(dtype, shape, length, past)


def _mask(dtype: Any, shape: Sequence[int], length: int, past: int) -> Array:
    """Return a mask of the positions up to the new ones or, with three or more dimensions,
    for each new position a mask of those visible to it."""
    total = shape[-1] if shape else 1
    if len(shape) < 3:
        broadcast = np.arange(total) < past + length
        is_additive = False
    else:
        rows = shape[-2] if shape[-2] != 1 or length == 1 else 1
        last = (
            past + np.arange(rows)[:, None] if rows == length else np.array([[past + length - 1]])
        )
        broadcast = np.arange(total)[None, :] <= last
        is_additive = epsilon_of(dtype) > 0
    broadcast = np.broadcast_to(broadcast, shape)
    if is_additive:
        return np.ascontiguousarray(np.where(broadcast, 0.0, -1e4)).astype(dtype)
    return np.ascontiguousarray(broadcast).astype(dtype)


def numpy_dtype(tensor: Tensor) -> Any:
    """Return the NumPy data type of a tensor; float32 if it is unknown."""
    return _numpy_dtype(tensor.dtype)


@lru_cache(maxsize=64)
def _numpy_dtype(name: str | None) -> Any:
    """Return the NumPy data type of this name; float32 for None."""
    entry = DataType.from_dtype(name)
    return np.dtype(np.float32) if entry is None else entry.numpy()
