"""The data of a model with states, step by step: every input has a value that goes with the past,
and states come from the step before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.binding import port
from polygraphy.domain.asked import read_config, read_tokens
from polygraphy.domain.catalog.steps import DEFAULT_PROMPT, DEFAULT_STEPS
from polygraphy.domain.data.loading import describe_model, notes_of
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.model.description import Graph, Tensor
from polygraphy.domain.states.aligning import padding
from polygraphy.domain.states.first_model import FirstModel, match_outputs
from polygraphy.domain.states.memory import StepFacts, StepFeed
from polygraphy.domain.states.pairs import (
    FIRST_MODEL,
    GROWS,
    REPLACED,
    SLOTS,
    Conflict,
    StatePair,
    describe_pairs,
    state_pairs,
)
from polygraphy.domain.states.roles import (
    CHUNK,
    CONSTANT,
    FLAG,
    LAST,
    MASK,
    PAST,
    POSITIONS,
    TOKENS,
    TOTAL,
    Roles,
    describe_unreached,
    roles_of,
)
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import some_of
from polygraphy.domain.tensors.precision import epsilon_of
from polygraphy.domain.tensors.profile import Profile

_AUDIO, _FRAMES = 512, 8
"""Samples of a chunk of one channel, and frames of one of several, where the model takes any."""
_CONTEXT = 8
"""The length of what is the same in each step, such as the states of an encoder."""


class StatePlan:
    """A model with states: its pairs, the roles of its other inputs, and the values of those.

    Attributes:
        graph: the graph.
        pairs: the states.
        roles: the other inputs.
        conflicts: where the graph contradicts the names.
        first: another model that runs the first step; None for none.
    """

    def __init__(
        self,
        graph: Graph,
        config: object = None,
        states: Sequence[tuple[str, str]] | None = None,
        first: Graph | None = None,
    ) -> None:
        self.graph = graph
        self.pairs, self.conflicts = state_pairs(graph, config, states)
        self.first: FirstModel | None = None
        if first is not None:
            names, kept = match_outputs(first, graph, self.pairs)
            self.pairs = [*self.pairs, *kept]
            plan = StatePlan(first, None, ())
            self.first = FirstModel(plan, names)
        self.roles: Roles = roles_of(graph, self.pairs)
        if not self.is_decoder:  # A stream writes each chunk into the same places.
            self.pairs = [
                evolve(pair, kind=REPLACED, axis=None) if pair.kind == SLOTS else pair
                for pair in self.pairs
            ]
            self.roles = roles_of(graph, self.pairs)
        self.inputs: dict[str, Tensor] = {tensor.name: tensor for tensor in graph.inputs}
        self._lengths: dict[str, int] = {}
        if self.first is not None and self.roles.judged is not None:
            judged = self.first.plan.roles.judged
            names = {judged: self.roles.judged} if judged is not None else {}
            names |= self.first.outputs
            self.first = FirstModel(self.first.plan, names)

    def at(self, index: int) -> StatePlan:
        """Return the plan of the model that runs a step."""
        return self if index or self.first is None else self.first.plan

    def lines(self) -> list[str]:
        """Return a line about the states and a line about the other inputs."""
        first = [] if self.first is None else [f"First step: {self.first.plan.roles}"]
        return [describe_pairs(self.pairs), str(self.roles), *first, *map(str, self.conflicts)]

    def accuracy_levels(self) -> set[int]:
        """Return the precisions (accuracy_level) allowed for products with low-bit weights."""
        nodes = (node for inner in self.graph.walk() for node in inner.nodes)
        return {
            int(node.attribute("accuracy_level", 0)) for node in nodes if node.op == "MatMulNBits"
        }

    @property
    def is_decoder(self) -> bool:
        """Return whether a step reads tokens and a past (a stream reads one chunk at a time)."""
        return bool(self.roles.named(TOKENS)) or any(
            pair.kind == GROWS for pair in self.pairs if "embed" in " ".join(self.roles.of)
        )

    def chunk_length(self, prompt: int, index: int, given: Mapping[str, Sequence[int]]) -> int:
        """Return the number of positions in a step."""
        fixed = self.at(index).roles.chunk
        if fixed is not None:
            return fixed
        if self.is_decoder:
            return prompt if index == 0 else 1
        for name in self.roles.named(CHUNK):
            shape, axis = self.inputs[name].shape or (), self.roles.axis
            if name in given and axis < len(given[name]):
                return int(given[name][axis])
            if len(shape) == 2:
                return _AUDIO
        return _FRAMES

    def shape(self, name: str, length: int, past: int) -> list[int]:
        """Return the shape of an input in a step; equal dimension names have equal sizes."""
        tensor, role = self.inputs[name], self.roles.of.get(name)
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
            elif role == CONSTANT and axis:
                sizes.append(self._lengths.get(f"{dim}", _CONTEXT))
            else:
                sizes.append(1)
        return sizes

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
        for name in (*self.roles.named(TOKENS), *self.roles.named(CHUNK)):
            shape = self.inputs[name].shape or ()
            if dim is not None and dim in shape[1:] and not grows:
                return length
        return past + length

    def initial(self, pair: StatePair) -> Array:
        """Return the initial state: zeros, of length 0 if it grows."""
        tensor = self.inputs[pair.input]
        growing = self._growing
        shape = [
            (
                dim
                if isinstance(dim, int)
                else (
                    0
                    if dim in growing or (pair.kind == GROWS and axis == pair.axis)
                    else self._open(pair, dim, axis)
                )
            )
            for axis, dim in enumerate(tensor.shape or ())
        ]
        return np.zeros(shape, _numpy(tensor))

    @property
    def _growing(self) -> set[str]:
        """Return the names of dimensions along which states grow."""
        dims = set()
        for pair in self.pairs:
            shape = self.inputs[pair.input].shape or ()
            if pair.kind == GROWS and pair.axis is not None and pair.axis < len(shape):
                dim = shape[pair.axis]
                dims.update([dim] if isinstance(dim, str) else [])
        return dims

    def _open(self, pair: StatePair, dim: Any, axis: int) -> int:
        """Return the length of a dynamic dimension of a state at the start."""
        if axis and "batch" not in f"{dim}".lower() and "encoder" in f"{pair.input}_{dim}".lower():
            return self._lengths.get(f"{dim}", _CONTEXT)
        return 1

    def value(self, name: str, length: int, past: int, drawn: Mapping[str, Array]) -> Array:
        """Return an input of a step.

        Args:
            name: the input.
            length: how many positions are new.
            past: how many came before.
            drawn: the tokens, chunks and constants.
        """
        role, tensor = self.roles.of[name], self.inputs[name]
        if role in (TOKENS, CHUNK, CONSTANT):
            return drawn[name]
        dtype, shape = _numpy(tensor), self.shape(name, length, past)
        numbers = {PAST: past, TOTAL: past + length, LAST: past + length - 1, FLAG: past > 0}
        if role in numbers:
            return np.full(shape, numbers[role]).astype(dtype)
        if role == POSITIONS:
            count = shape[-1] if shape else 1
            first = past if count == length else max(past + length - count, 0)
            values = np.arange(first, first + count) if shape else np.array(past)
            return np.ascontiguousarray(np.broadcast_to(values, shape)).astype(dtype)
        return _mask(dtype, shape, length, past)


def _mask(dtype: Any, shape: Sequence[int], length: int, past: int) -> Array:
    """Return a mask over positions, or for each new position over those visible to it."""
    total = shape[-1] if shape else 1
    if len(shape) < 3:
        seen = np.arange(total) < past + length
        is_additive = False
    else:
        rows = shape[-2] if shape[-2] != 1 or length == 1 else 1
        last = (
            past + np.arange(rows)[:, None] if rows == length else np.array([[past + length - 1]])
        )
        seen = np.arange(total)[None, :] <= last
        is_additive = epsilon_of(dtype) > 0
    seen = np.broadcast_to(seen, shape)
    if is_additive:
        return np.ascontiguousarray(np.where(seen, 0.0, -1e4)).astype(dtype)
    return np.ascontiguousarray(seen).astype(dtype)


def _numpy(tensor: Tensor) -> Any:
    """Return the NumPy data type of a tensor; float32 if it is unknown."""
    entry = DataType.from_dtype(tensor.dtype)
    return np.dtype(np.float32) if entry is None else entry.numpy()


class StepLoader:
    """Yields the inputs of a model with states, one step after another.

    Each runner keeps its own states: what an output holds after a step is what an input holds in
    the next. States come from the graph of the model, a `genai_config.json` beside it, or names.

    Attributes:
        input_metadata: what the model asks for; set before the first step is asked for.
        model_facts: what else is known of the model.
        first_model: the model that runs the first step, if that is another one; None otherwise.
        notes: the states and the inputs in words, and what the steps do not reach.
        iterations: how many steps there are.
    """

    def __init__(
        self,
        model: Any = None,
        steps: int | None = None,
        prompt: int | None = None,
        states: Sequence[str] | None = None,
        tokens: str | None = None,
        data_loader: Any = None,
        first_model: Any = None,
    ) -> None:
        """Describe the steps.

        Args:
            model: the path of the ONNX model, or an ``onnx.ModelProto`` (default: that of the
                first runner).
            steps: how often the model is run (default: 8; with `tokens`, to their end).
            prompt: how many tokens the first step takes (default: 4); each other takes one.
            states: pairs of an output and an input, as ``present:past``; empty for none (default:
                those of the model).
            tokens: a file of tokens: numbers in text or JSON, or an ``.npy`` file (default:
                random ones).
            data_loader: generates or loads the other inputs (default: `DataLoader()`); what it
                loads takes the place of what is made up.
            first_model: the ONNX model that runs the first step, if that is another one: its path,
                or an ``onnx.ModelProto``.

        Raises:
            UsageError: a number is too small, or a pair is not one.
        """
        self._model = model
        self._steps = steps
        self._prompt = prompt
        self._states = None if states is None else [_pair(text) for text in states]
        self._tokens_file = tokens
        self._data = DataLoader() if data_loader is None else data_loader
        self.first_model = first_model
        for flag, number in (("steps", steps), ("prompt", prompt)):
            if number is not None and number < 1:
                raise UsageError(
                    f"{flag} is {number}, but at least one"
                    f" {'step' if flag == 'steps' else 'token in the first step'} is required.",
                    hint=f"Use a number of at least 1, as in --{flag} 4.",
                )
        self.input_metadata: TensorMetadata | None = None
        self.model_facts: Facts | None = None
        self.notes: list[str] = []
        self.iterations = DEFAULT_STEPS if steps is None else steps
        self.seed = getattr(self._data, "seed", None)
        self._plan: StatePlan | None = None
        if tokens is not None and steps is None:
            known = len(read_tokens(tokens))
            self.iterations = max(1, known - (prompt or min(DEFAULT_PROMPT, known)) + 1)

    def __len__(self) -> int:
        return self.iterations

    def for_model(self, model: Any, first_model: Any = None) -> StepLoader:
        """Return a loader of the same steps for another model."""
        return StepLoader(
            model,
            self.iterations,
            self._first_length(),
            None if self._states is None else [":".join(pair) for pair in self._states],
            self._tokens_file,
            self._data,
            first_model,
        )

    def with_states(self, pairs: Sequence[tuple[str, str]]) -> StepLoader:
        """Return a loader of the same steps with other state pairs."""
        computed_first = {pair.output for pair in self.plan.pairs if pair.source == FIRST_MODEL}
        source = self._model
        if source is None and self.model_facts is not None:
            source = self.model_facts.source
        return StepLoader(
            source,
            self.iterations,
            self._first_length(),
            [":".join(pair) for pair in pairs if pair[0] not in computed_first],
            self._tokens_file,
            self._data,
            self.first_model,
        )

    def options(self) -> dict[str, Any]:
        """Return the options of a command line that runs these steps."""
        given: dict[str, Any] = {"steps": self.iterations}
        if self._prompt is not None:
            given["prompt"] = self._prompt
        if self._states is not None:
            given["state"] = tuple(":".join(pair) for pair in self._states) or ("none",)
        if self._tokens_file is not None:
            given["tokens"] = self._tokens_file
        if isinstance(self.first_model, str):
            given["first_model"] = self.first_model
        return given

    @property
    def plan(self) -> StatePlan:
        """The states and the roles of the inputs of the model.

        Raises:
            UsageError: the model is not an ONNX model, or has no states.
        """
        if self._plan is None:
            source = self._model
            if source is None and self.model_facts is not None:
                source = self.model_facts.source
            graph = None if source is None else read_graph(source)
            if graph is None:
                raise UsageError(
                    "The states of the model are unknown, because there is no ONNX model.",
                    hint="Pass the ONNX model with the states.",
                )
            config = read_config(source) if isinstance(source, str) else None
            first = None if self.first_model is None else read_graph(self.first_model)
            if first is None and self.first_model is not None:
                raise UsageError(f"--first-model: {self.first_model} is not an ONNX model.")
            plan = StatePlan(graph, config, self._states, first)
            if not plan.pairs and self._states is None:
                raise _no_states(graph)
            self._plan = plan
        return self._plan

    def __iter__(self) -> Iterator[StepFeed]:
        """Start at the first step, when it is asked for: the model has been described by then."""
        plan, prompt = self.plan, self._first_length()
        shapes = _given_shapes(self._data)
        lengths = [plan.chunk_length(prompt, at, shapes) for at in range(self.iterations)]
        total = sum(lengths)
        self._check_capacity(total)
        tokens = self._tokens(total)
        for line in plan.lines():
            self._add_note(line)
        left = describe_unreached(plan.roles.limits, total, lengths[0] if lengths else 0)
        if left:
            self._add_note(f"Not reached: {'; '.join(left)}.")
        yield from self._step_feeds(plan, lengths, tokens)

    def profiles(self, first_model: bool = False) -> list[Profile]:
        """Return the ranges of shapes for which a backend builds the model: one for the first step,
        with the prompt, and one for all later steps. Models with equal shapes in each step have
        one.

        Args:
            first_model: whether the model that runs the first step is meant, if that is another.

        Raises:
            UsageError: the model has no states.
        """
        from polygraphy.domain.states.profiles import shape_ranges, step_shapes

        plan, shapes = self.plan, _given_shapes(self._data)
        lengths = [
            plan.chunk_length(self._first_length(), at, shapes) for at in range(self.iterations)
        ]
        loaded = [
            {name: tuple(getattr(array, "shape", ())) for name, array in feed.items()}
            for feed in self._inputs_to_measure()
        ]
        steps = list(step_shapes(plan, lengths, shapes, loaded))
        if plan.first is not None:
            steps = steps[:1] if first_model else steps[1:]
            return shape_ranges(steps[:1]) if first_model else shape_ranges([{}, *steps])[-1:]
        return shape_ranges(steps)

    def _inputs_to_measure(self) -> Iterator[Mapping[str, Any]]:
        """Yield the user's inputs for all steps, if they can be loaded again for the run."""
        is_generated = isinstance(self._data, DataLoader)
        if not is_generated and not isinstance(self._data, Iterator):
            yield from islice(self._load_inputs(), self.iterations)

    def _step_feeds(
        self, plan: StatePlan, lengths: Sequence[int], tokens: Sequence[Array]
    ) -> Iterator[StepFeed]:
        """Yield the feed of each step."""
        loaded = None if isinstance(self._data, DataLoader) else self._load_inputs()
        past = 0
        constants: dict[str, Array] = {}
        judged = plan.roles.judged
        for index, expected in enumerate(lengths):
            own = None if loaded is None else next(loaded, None)
            if loaded is not None and own is None:
                return
            current = plan.at(index)
            length = self._length_in(current, own or {}, expected)
            drawn = dict(constants)
            for name, row in zip(current.roles.named(TOKENS), tokens):
                shape = current.shape(name, length, past)
                drawn[name] = np.resize(row[past : past + length], shape).astype(row.dtype)
            missing = [
                name
                for name, role in current.roles.of.items()
                if role in (TOKENS, CHUNK, CONSTANT) and name not in drawn
            ]
            drawn.update(self._draw_step_inputs(current, missing, index, length, past))
            constants.update(
                {name: drawn[name] for name in missing if current.roles.of[name] == CONSTANT}
            )
            feed = {name: current.value(name, length, past, drawn) for name in current.roles.of}
            states = {pair.input for pair in plan.pairs}
            if index == 0:
                pairs = (pair for pair in plan.pairs if pair.input in current.inputs)
                feed.update({pair.input: plan.initial(pair) for pair in pairs})
            feed.update(
                {
                    name: array
                    for name, array in (own or {}).items()
                    if name in current.inputs and (index == 0 or name not in states)
                }
            )
            if own is not None:
                constants.update(
                    {name: feed[name] for name in current.roles.named(CONSTANT) if name in own}
                )
            hidden = padding(current, feed)
            if hidden is not None:
                self._add_note("Not compared: positions that the mask hides. Nothing reads them.")
            facts = StepFacts(
                index,
                past,
                length,
                states=tuple(pair.output for pair in plan.pairs),
                judged=judged,
                tokens=bool(plan.roles.named(TOKENS)),
                is_last=index == len(lengths) - 1,
                axis=plan.roles.axis,
                pairs=plan.pairs,
                inputs=[*current.inputs],
                outputs=[tensor.name for tensor in plan.graph.outputs],
                hidden=hidden,
            )
            names = {} if plan.first is None or index else plan.first.outputs
            yield StepFeed(feed, facts, plan.pairs, names)
            past += length

    def _first_length(self) -> int:
        """Return the number of positions of the first step."""
        if self._prompt is not None:
            return self._prompt
        if self._tokens_file is None:
            return DEFAULT_PROMPT
        known = len(read_tokens(self._tokens_file))
        return max(1, min(DEFAULT_PROMPT, known - self.iterations + 1))

    def _check_capacity(self, total: int) -> None:
        """Raise InputError if the steps need more positions than the cache has."""
        capacity = self.plan.roles.capacity
        if capacity is not None and total > capacity:
            raise InputError(
                f"The steps need {total} positions, but the cache of the model holds {capacity}.",
                hint=f"Use at most --steps {max(1, capacity - self._first_length() + 1)}.",
            )
        for limit in self.plan.roles.limits:
            if limit.is_hard and total > limit.length:
                raise InputError(
                    f"The steps need {total} positions, but {limit.what} has {limit.length}.",
                    hint=f"Use at most --steps {max(1, limit.length - self._first_length() + 1)}.",
                )

    def _tokens(self, total: int) -> list[Array]:
        """Return the tokens of all steps, for each token input."""
        names = self.plan.roles.named(TOKENS)
        if self._tokens_file is not None and not names:
            raise UsageError(
                "--tokens: the model has no token input.",
                hint="Load chunks of data with --load-inputs.",
            )
        rows = []
        for name in names:
            dtype = _numpy(self.plan.inputs[name])
            if self._tokens_file is not None:
                known = read_tokens(self._tokens_file)
                self._check_tokens(known, total)
                rows.append(np.array(known[:total], dtype))
            else:
                drawn = self._generate_inputs(self.plan, {name: [1, total]}, 0)[name]
                rows.append(drawn.reshape(-1))
        return rows

    def _check_tokens(self, tokens: Sequence[int], total: int) -> None:
        """Raise InputError for a token outside the vocabulary, or too few tokens."""
        count = self.plan.roles.vocabulary
        wrong = [each for each in tokens if each < 0 or (count is not None and each >= count)]
        if wrong:
            known = "" if count is None else f", which has {count}"
            raise InputError(
                f"{self._tokens_file}: token {wrong[0]} is outside the vocabulary{known}.",
                hint=f"Tokens must be from 0{'' if count is None else f' to {count - 1}'}.",
            )
        if len(tokens) < total:
            raise InputError(
                f"{self._tokens_file}: {len(tokens)} tokens, but the steps need {total}.",
                hint=f"Use at most --steps {max(1, len(tokens) - self._first_length() + 1)}.",
            )

    def _draw_step_inputs(
        self, plan: StatePlan, names: Sequence[str], index: int, length: int, past: int
    ) -> dict[str, Array]:
        """Return generated inputs of a step, by name."""
        if not names:
            return {}
        shapes = {name: plan.shape(name, length, past) for name in names}
        return self._generate_inputs(plan, shapes, index)

    def _generate_inputs(
        self, plan: StatePlan, shapes: Mapping[str, Sequence[int]], index: int
    ) -> dict[str, Array]:
        """Return generated inputs of some shapes, with a seed for the step."""
        data = self._data if isinstance(self._data, DataLoader) else DataLoader()
        loader = data.drawing_from(data.seed, None)
        loader.iterations = index + 1
        given = _given_shapes(data)
        metadata = TensorMetadata()
        for name, shape in shapes.items():
            tensor = plan.inputs[name]
            is_row = name in plan.roles.named(TOKENS)
            own = shape if is_row or name not in given else given[name]
            metadata.add(name, DataType.from_dtype(tensor.dtype), own)
        loader.input_metadata = metadata
        loader._turns = [TensorMetadata()]
        loader.model_facts = self.model_facts
        drawn = loader[index]
        for note in notes_of(loader):
            self._add_note(note)
        return drawn

    def _load_inputs(self) -> Iterator[Mapping[str, Any]]:
        """Yield the user's inputs."""
        if self.input_metadata is not None:
            facts = self.model_facts
            describe_model(self._data, self.input_metadata, lambda: facts)  # type: ignore[arg-type, return-value]
        data = self._data() if callable(self._data) else self._data
        yield from data

    def _length_in(self, plan: StatePlan, given: Mapping[str, Any], expected: int) -> int:
        """Return the number of positions in the data of a step."""
        roles = plan.roles
        for name in (*roles.named(TOKENS), *roles.named(CHUNK)):
            shape = getattr(given.get(name), "shape", None)
            if shape is not None and roles.axis < len(shape):
                return int(shape[roles.axis])
        return expected

    def _add_note(self, text: str) -> None:
        """Append a note, once."""
        if text not in self.notes:
            self.notes.append(text)


def _given_shapes(data: Any) -> dict[str, Sequence[int]]:
    """Return the shapes configured for generated data."""
    if not isinstance(data, DataLoader):
        return {}
    return {
        name: [int(dim) for dim in shape]
        for name, (_, shape) in data.user_input_metadata.items()
        if shape is not None and all(isinstance(dim, int) for dim in shape)
    }


def _pair(text: str) -> tuple[str, str]:
    """Return output and input of a state; raise UsageError if the text is not a pair."""
    output, separator, name = text.rpartition(":")
    if not separator or not output or not name:
        raise UsageError(
            f"State {text!r} is not a pair of an output and an input.",
            hint="Write OUTPUT:INPUT, as in --state present:past.",
        )
    return output, name


def _no_states(graph: Graph) -> UsageError:
    """Return the UsageError for a model without states."""
    outputs = some_of([tensor.name for tensor in graph.outputs])
    inputs = some_of([tensor.name for tensor in graph.inputs])
    return UsageError(
        f"No state found: no output ({outputs}) continues an input ({inputs}).",
        hint="Set pairs with --state OUTPUT:INPUT, or run without states: --state none.",
    )


def conflicts_in(graph: Graph, config: object = None) -> list[Conflict]:
    """Return the contradictions between the states in a graph and a configuration or names."""
    return state_pairs(graph, config)[1]


@port
def read_graph(model: Any) -> Graph | None:
    """Return the graph of a model with its nodes and their attributes; None for a model that is not
    ONNX.

    Args:
        model: a path, or a model in memory.

    Raises:
        FileError: the file is missing.
        ModelError: it is damaged.
    """
