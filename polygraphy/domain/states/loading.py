"""The data of a model with states, step by step: every input has a value that goes with the past,
and states come from the step before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from polygraphy.binding import port
from polygraphy.domain.catalog.steps import DEFAULT_PROMPT, DEFAULT_STEPS
from polygraphy.domain.data.loading import describe_model, notes_of
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.errors import (
    FileError,
    InputError,
    MissingFileError,
    NotFetchedError,
    UnknownNameError,
    UsageError,
)
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.ports import read_config, read_tokens
from polygraphy.domain.states.aligning import padding
from polygraphy.domain.states.memory import StepFacts, StepFeed
from polygraphy.domain.states.pairs import (
    FIRST_MODEL,
    Conflict,
    state_pairs,
)
from polygraphy.domain.states.plan import StatePlan, numpy_dtype
from polygraphy.domain.states.position_limits import describe_unreached
from polygraphy.domain.states.uses import (
    CHUNK,
    CONSTANT,
    TOKENS,
)
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import Facts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import list_some
from polygraphy.domain.tensors.precision import is_float
from polygraphy.domain.tensors.profile import Profile
from polygraphy.domain.tensors.shapes import fits

_MOST = 10_000_000
"""Steps, or tokens of a prompt: their tokens take 80 MB."""


class StepLoader:
    """Yields the inputs of a model with states, one step after another.

    Each runner keeps its own states: the value of a state output becomes the value of its input in
    the next step. States come from the graph of the model, a `genai_config.json` beside it, or
    names.

    Attributes:
        input_metadata: the inputs of the model; set before the first step.
        model_facts: further facts about the model.
        first_model: the model that runs the first step; None if it is the same model.
        notes: lines about the states, the inputs, and limits that the steps do not reach.
        iterations: number of steps.
    """

    has_states = True

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
            model: the path of the ONNX model, or an ``onnx.ModelProto`` (default: the model of the
                first runner).
            steps: number of runs of the model (default: 8; with `tokens`, until they end).
            prompt: the number of tokens of the first step (default: 4); each later step has one.
            states: pairs of an output and an input, such as ``present:past``; empty for no states
                (default: those of the model).
            tokens: a file of tokens: numbers as text or JSON, or an ``.npy`` file (default: random
                tokens).
            data_loader: generates or loads the other inputs (default: `DataLoader()`); loaded data
                replace generated data.
            first_model: the ONNX model that runs the first step, if it is a different one: its
                path, or an ``onnx.ModelProto``.

        Raises:
            UsageError: a number is too small, or a pair is invalid.
        """
        self._model = model
        self._steps = steps
        self._prompt = prompt
        self._states = None if states is None else [_pair(text) for text in states]
        self._tokens_file = tokens
        self._data = DataLoader() if data_loader is None else data_loader
        self.first_model = first_model
        self._first: Graph | None = None
        for flag, number in (("steps", steps), ("prompt", prompt)):
            if number is not None and number < 1:
                raise UsageError(
                    f"{flag} is {number}, but at least one"
                    f" {'step' if flag == 'steps' else 'token in the first step'} is required.",
                    hint=f"Use a number of at least 1, as in --{flag} 4.",
                )
            if number is not None and number > _MOST:
                raise UsageError(
                    f"{flag} is {number}, but at most {_MOST} are supported.",
                    hint=f"Use a smaller number, as in --{flag} 1000.",
                )
        self.input_metadata: TensorMetadata | None = None
        self.model_facts: Facts | None = None
        self.notes: list[str] = []
        self.iterations = DEFAULT_STEPS if steps is None else steps
        self.seed = getattr(self._data, "seed", None)
        self._unused_tokens = 0
        self._plan: StatePlan | None = None
        self._title = ""
        if tokens is not None and steps is None:
            known_count = len(read_tokens(tokens))
            self.iterations = max(1, known_count - (prompt or min(DEFAULT_PROMPT, known_count)) + 1)

    def __len__(self) -> int:
        """Return the number of steps."""
        return self.iterations

    def for_model(self, model: Any, first_model: Any = None, title: str = "") -> StepLoader:
        """Return a loader of the same steps for another model, which errors call `title`."""
        loader = StepLoader(
            model,
            self.iterations,
            self._first_length(),
            None if self._states is None else [":".join(pair) for pair in self._states],
            self._tokens_file,
            self._data,
            first_model,
        )
        loader._title = title
        return loader

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
        given_options: dict[str, Any] = {"steps": self.iterations}
        if self._prompt is not None:
            given_options["prompt"] = self._prompt
        if self._states is not None:
            given_options["state"] = tuple(":".join(pair) for pair in self._states) or ("none",)
        if self._tokens_file is not None:
            given_options["tokens"] = self._tokens_file
        if isinstance(self.first_model, str):
            given_options["first_model"] = self.first_model
        return given_options

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
            plan = StatePlan(graph, config, self._states, self._first_graph())
            if not plan.pairs and self._states is None:
                raise _no_states_error(graph, self._title)
            self._plan = plan
        return self._plan

    def _first_graph(self) -> Graph | None:
        """Return the graph of the model that runs the first step; None if it is the same model.

        Raises:
            UsageError: it is not an ONNX model.
        """
        if self.first_model is None or self._first is not None:
            return self._first
        try:
            self._first = read_graph(self.first_model)
        except (MissingFileError, NotFetchedError):
            raise
        except FileError as error:
            raise UsageError(f"--first-model: {error}") from None
        if self._first is None:
            raise UsageError(
                f"--first-model: {self.first_model} is not an ONNX model.",
                hint="Pass the ONNX model that runs the first step.",
            )
        return self._first

    def __iter__(self) -> Iterator[StepFeed]:
        """Return the feeds from the first step on.
        The model must be described before the first is taken.
        """
        self._first_graph()  # Report errors of the first model before a backend loads anything.
        return self._feeds()

    def _feeds(self) -> Iterator[StepFeed]:
        """Yield the feeds from the first step on."""
        plan, prompt = self.plan, self._first_length()
        shapes = self._check_shapes(plan)
        plan.set_batch(shapes)
        for pair in plan.pairs:
            if pair.input in shapes and pair.input in plan.for_step(0).inputs:
                start = plan.initial(pair).shape
                if start != tuple(shapes[pair.input]):
                    self._add_note(
                        f"The shape of {pair.input!r} is not used: the state starts with shape"
                        f" {_shape_text(start)}."
                    )
        first, later = (plan.chunk_length(prompt, at, shapes) for at in (0, 1))
        total = first + later * (self.iterations - 1)
        self._check_capacity(total)
        lengths = [first, *[later] * (self.iterations - 1)]
        tokens = self._tokens(total)
        for line in plan.lines():
            self._add_note(line)
        unreached = describe_unreached(plan.roles.limits, total, first)
        if self._unused_tokens:
            unreached.append(
                f"the last {self._unused_tokens} tokens of {self._tokens_file}"
                f" (--steps {self.iterations + self._unused_tokens} reads all)"
            )
        if unreached:
            self._add_note(f"Not reached: {'; '.join(unreached)}.")
        yield from self._step_feeds(plan, lengths, tokens)

    def profiles(self, first_model: bool = False) -> list[Profile]:
        """Return the ranges of shapes for which a backend builds the model: one for the first step,
        with the prompt, and one for all later steps. Models with equal shapes in each step have
        one.

        Args:
            first_model: whether to return those of the model that runs the first step, if it is a
                different one.

        Raises:
            UsageError: the model has no states.
        """
        from polygraphy.domain.states.profiles import shape_ranges, step_shapes

        plan, shapes = self.plan, _data_loader_shapes(self._data)
        plan.set_batch(shapes)
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
        states = {pair.input for pair in plan.pairs}
        state_outputs = tuple(pair.output for pair in plan.pairs)
        outputs = [tensor.name for tensor in plan.graph.outputs]
        for index, expected in enumerate(lengths):
            own_values = None if loaded is None else next(loaded, None)
            if loaded is not None and own_values is None:
                self._add_note(f"The loaded data ends after {index} of {len(lengths)} steps.")
                return
            current = plan.for_step(index)
            length = self._length_in(current, own_values or {}, expected)
            if own_values is not None:
                self._check_loaded(current, own_values, index, past + length)
            drawn = dict(constants)
            for name, row in zip(current.roles.inputs_of(TOKENS), tokens):
                shape = current.shape(name, length, past)
                drawn[name] = np.resize(row[past : past + length], shape).astype(row.dtype)
            missing = [
                name
                for name, role in current.roles.by_input.items()
                if role in (TOKENS, CHUNK, CONSTANT) and name not in drawn
            ]
            drawn.update(self._draw_step_inputs(current, missing, index, length, past))
            constants.update(
                {name: drawn[name] for name in missing if current.roles.by_input[name] == CONSTANT}
            )
            feed = {
                name: current.value(name, length, past, drawn) for name in current.roles.by_input
            }
            if index == 0:
                pairs = (pair for pair in plan.pairs if pair.input in current.inputs)
                feed.update({pair.input: plan.initial(pair) for pair in pairs})
            feed.update(
                {
                    name: _as_type(array, numpy_dtype(current.inputs[name]))
                    for name, array in (own_values or {}).items()
                    if name in current.inputs and (index == 0 or name not in states)
                }
            )
            if own_values is not None:
                constants.update(
                    {
                        name: feed[name]
                        for name in current.roles.inputs_of(CONSTANT)
                        if name in own_values
                    }
                )
            hidden = padding(current, feed)
            if hidden is not None:
                self._add_note("Not compared: positions that the mask hides. Nothing reads them.")
            facts = StepFacts(
                index,
                past,
                length,
                states=state_outputs,
                judged=plan.roles.judged,
                tokens=bool(plan.roles.inputs_of(TOKENS)),
                is_last=index == len(lengths) - 1,
                axis=plan.roles.axis,
                pairs=plan.pairs,
                inputs=[*current.inputs],
                outputs=outputs,
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
            return self._prompt_of_shapes() or DEFAULT_PROMPT
        length = len(read_tokens(self._tokens_file))
        return max(1, min(DEFAULT_PROMPT, length - self.iterations + 1))

    def _prompt_of_shapes(self) -> int | None:
        """Return the number of tokens in the shape that the user set; None if there is none."""
        if self._plan is None:
            return None
        shapes, roles = _data_loader_shapes(self._data), self._plan.roles
        for name in roles.inputs_of(TOKENS):
            if len(shapes.get(name, ())) > roles.axis:
                return shapes[name][roles.axis]
        return None

    def _check_shapes(self, plan: StatePlan) -> dict[str, Sequence[int]]:
        """Return the shapes that the user set.
        Raise an error if the model does not have such an input, or if it has a different shape.
        """
        shapes = _data_loader_shapes(self._data)
        names = {*plan.inputs, *plan.for_step(0).inputs}
        for name, shape in shapes.items():
            if name not in names:
                raise UnknownNameError("Input", name, [*plan.inputs])
            for tensors in (plan.inputs, plan.for_step(0).inputs):
                if name in tensors and not fits(shape, tensors[name].shape):
                    raise InputError(
                        f"Shape mismatch: input {name!r} has shape"
                        f" {_shape_text(tensors[name].shape or ())} in the model, which does not"
                        f" match {_shape_text(shape)}.",
                        hint="Set a different shape with --input-shapes.",
                    )
            if 0 in shape and plan.roles.by_input.get(name) in (TOKENS, CHUNK):
                raise InputError(
                    f"Input {name!r} cannot be empty in a step.",
                    hint="Set a larger shape with --input-shapes.",
                )
        return shapes

    def _check_capacity(self, total: int) -> None:
        """Raise InputError if the steps need more positions than the cache has."""
        capacity = self.plan.roles.capacity
        if capacity is not None and total > capacity:
            raise InputError(
                f"The steps need {total} positions, but the cache of the model holds {capacity}.",
                hint=self._length_advice(capacity),
            )
        for limit in self.plan.roles.limits:
            if limit.is_hard and limit.is_certain and total > limit.length:
                raise InputError(
                    f"The steps need {total} positions, but {limit.what} has {limit.length}.",
                    hint=self._length_advice(limit.length),
                )

    def _length_advice(self, length: int) -> str:
        """Return the advice which options fit into a number of positions."""
        first = self._first_length()
        if first > length:
            if self.iterations > length:
                return f"Use at most --steps {length}, with --prompt 1."
            return f"Use at most --prompt {length - self.iterations + 1}."
        return f"Use at most --steps {length - first + 1}."

    def _tokens(self, total: int) -> list[Array]:
        """Return the tokens of all steps, for each token input."""
        names = self.plan.roles.inputs_of(TOKENS)
        if self._tokens_file is not None and not names:
            raise UsageError(
                "--tokens: the model has no token input.",
                hint="Load chunks of data with --load-inputs.",
            )
        rows = []
        for name in names:
            dtype = numpy_dtype(self.plan.inputs[name])
            if self._tokens_file is not None:
                tokens = read_tokens(self._tokens_file)
                self._check_tokens(tokens, total)
                self._unused_tokens = len(tokens) - total
                rows.append(np.array(tokens[:total], dtype))
            else:
                drawn = self._generate_inputs(self.plan, {name: [1, total]}, 0)[name]
                self._check_vocabulary(drawn, "--val-range", f" of input {name!r}")
                rows.append(self._replace_special_tokens(drawn.reshape(-1)))
        return rows

    def _replace_special_tokens(self, row: Array) -> Array:
        """Return random tokens without those that the model treats in a special way,
        such as padding, from which positions may be counted.
        """
        special = self.plan.roles.special
        usual = [token for token in range(len(special) + 1) if token not in special]
        return np.where(np.isin(row, [*special]), usual[0], row).astype(row.dtype)

    def _check_loaded(
        self, plan: StatePlan, loaded: Mapping[str, Any], index: int, total: int
    ) -> None:
        """Raise InputError for loaded inputs that the model does not accept in a step:
        tokens outside the vocabulary, wrong types or shapes, or more positions than it has.
        """
        self._check_capacity(total)
        names = {*plan.inputs, *self.plan.inputs}
        unknown = [name for name in loaded if name not in names]
        if unknown and len(unknown) == len(loaded) and not self._title:
            raise InputError(
                f"Step {index}: the data is for {list_some(unknown)}, but the model has no such"
                " input.",
                hint=f"The model has the inputs {list_some([*plan.inputs])}.",
            )
        if unknown:
            self._add_note(f"Not used, because the model has no such input: {list_some(unknown)}.")
        for name, array in loaded.items():
            tensor = plan.inputs.get(name)
            shape = getattr(array, "shape", None)
            if tensor is None or shape is None:
                continue
            if index == 0:
                plan.set_batch({name: shape})
            dims = tensor.shape
            fits = dims is None or (
                len(dims) == len(shape)
                and all(not isinstance(dim, int) or dim == size for dim, size in zip(dims, shape))
            )
            is_integer = not is_float(np.empty(0, numpy_dtype(tensor)))
            is_lossy = is_integer and is_float(array) and bool((array % 1 != 0).any())
            if not fits or is_lossy:
                wanted = "any shape" if dims is None else f"shape {_shape_text(dims)}"
                raise InputError(
                    f"Step {index}: the data for input {name!r} is {array.dtype}"
                    f" {_shape_text(shape)}, but it has type {tensor.dtype} and {wanted}.",
                    hint="Load data of this type and shape, or omit the input.",
                )
            if plan.roles.by_input.get(name) == TOKENS:
                self._check_vocabulary(array, f"Step {index}", f" of input {name!r}")

    def _check_vocabulary(self, tokens: Any, where: str, what: str = "") -> None:
        """Raise InputError for a token outside the vocabulary.

        Args:
            tokens: the tokens.
            where: their file, option or step.
            what: the input, for the message.
        """
        count = self.plan.roles.vocabulary
        array = np.asarray(tokens)
        wrong = array[(array < 0) | (array >= (np.inf if count is None else count))]
        if wrong.size:
            size = "" if count is None else f", which has {count}"
            raise InputError(
                f"{where}: token {wrong.flat[0]}{what} is outside the vocabulary{size}.",
                hint=f"Tokens must be from 0{'' if count is None else f' to {count - 1}'}.",
            )

    def _check_tokens(self, tokens: Sequence[int], total: int) -> None:
        """Raise InputError for a token outside the vocabulary, or too few tokens."""
        self._check_vocabulary(tokens, f"{self._tokens_file}")
        if len(tokens) < total:
            raise InputError(
                f"{self._tokens_file}: the steps need {total} tokens, not {len(tokens)}.",
                hint=self._length_advice(len(tokens)),
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
        loader = data.with_seed(data.seed, None)
        loader.iterations = index + 1
        given_values = _data_loader_shapes(data)
        metadata = TensorMetadata()
        for name, shape in shapes.items():
            tensor = plan.inputs[name]
            is_row = name in plan.roles.inputs_of(TOKENS)
            own_shape = shape if is_row or name not in given_values else given_values[name]
            metadata.add(name, DataType.from_dtype(tensor.dtype), own_shape)
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

    def _length_in(self, plan: StatePlan, arrays: Mapping[str, Any], expected: int) -> int:
        """Return the number of positions in the data of a step."""
        roles = plan.roles
        for name in (*roles.inputs_of(TOKENS), *roles.inputs_of(CHUNK)):
            shape = getattr(arrays.get(name), "shape", None)
            if shape is not None and roles.axis < len(shape):
                return int(shape[roles.axis])
        return expected

    def _add_note(self, text: str) -> None:
        """Append a note, once."""
        if text not in self.notes:
            self.notes.append(text)


def _data_loader_shapes(data: Any) -> dict[str, Sequence[int]]:
    """Return the shapes configured for generated data."""
    if not isinstance(data, DataLoader):
        return {}
    return {
        name: [int(dim) for dim in shape]
        for name, (_, shape) in data.user_input_metadata.items()
        if shape is not None and all(isinstance(dim, int) for dim in shape)
    }


def _as_type(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array in a data type if that loses nothing, else unchanged:
    a reference may have states of a different type.
    """
    if not isinstance(array, np.ndarray) or array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    is_same = np.array_equal(converted.astype(array.dtype), array)
    return converted if is_same else array


def _pair(text: str) -> tuple[str, str]:
    """Return output and input of a state; raise UsageError if the text is not a pair."""
    output, separator, name = text.rpartition(":")
    if not separator or not output or not name:
        raise UsageError(
            f"State {text!r} is not a pair of an output and an input.",
            hint="Write OUTPUT:INPUT, as in --state present:past.",
        )
    return output, name


def _shape_text(shape: Sequence[Any]) -> str:
    """Return a shape as text, such as ``[1,seq,8]``."""
    return f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def _no_states_error(graph: Graph, title: str) -> UsageError:
    """Return the UsageError for a model without states; `title` is empty for the only model."""
    where = f" in {title}" if title else ""
    outputs = list_some([tensor.name for tensor in graph.outputs])
    inputs = list_some([tensor.name for tensor in graph.inputs])
    return UsageError(
        f"No state found{where}: no output ({outputs}) continues an input ({inputs}).",
        hint="Set pairs with --state OUTPUT:INPUT, or run without states: --state none.",
    )


def conflicts_in(graph: Graph, config: object = None) -> list[Conflict]:
    """Return the contradictions between the states in a graph and a configuration or names."""
    return state_pairs(graph, config)[1]


@port
def read_graph(model: Any) -> Graph | None:
    """Return the graph of a model with its nodes and their attributes, or None.
    The result is None for a model that is not ONNX.

    Args:
        model: a path, or a model in memory.

    Raises:
        FileError: the file is missing.
        ModelError: it is damaged.
    """
