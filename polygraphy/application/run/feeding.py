"""Gives every runner the same data, in the form that its model asks for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from polygraphy.binding import UnboundPortError, resolve
from polygraphy.domain.calling import optional_method
from polygraphy.domain.data.loading import (
    ONLY_FIRST,
    describe_model,
    fit_with_notes,
    has_more,
    iterate_feeds,
    notes_of,
    own_copy,
)
from polygraphy.domain.errors import (
    BackendError,
    InputError,
    MissingDependencyError,
    UsageError,
)
from polygraphy.domain.ports import Tensors
from polygraphy.domain.results.results import DeviceTimes
from polygraphy.domain.states.memory import StepFeed
from polygraphy.domain.tensors.facts import Facts, ModelFacts
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import escape_command, one_line
from polygraphy.domain.tensors.shapes import command_line_shape, quote_name
from polygraphy.last_words import note_inputs
from polygraphy.ports.reporting import Console
from polygraphy.ports.running import Promise, Runner, RunnerExtras

Feed = Mapping[str, Any]


def facts_of(runner: Runner) -> Facts:
    """Return the facts an active runner knows about its model; empty if it has none."""
    method = optional_method(runner, RunnerExtras.get_model_facts)
    return ModelFacts() if method is None else method()


def last_device_times(runner: Runner) -> DeviceTimes | None:
    """Return the device times of a runner's last inference; None if it does not measure."""
    measured = optional_method(runner, RunnerExtras.last_device_times)
    return None if measured is None else measured()


def promises(runner: Any, what: Promise) -> bool:
    """Return whether a runner guarantees a property, such as ``leaves_inputs_alone``.

    The promise of a class does not hold for a derived class with its own `infer`.
    """
    own_values: Mapping[str, Any] = getattr(runner, "__dict__", {})
    for names in (own_values, *map(vars, type(runner).__mro__)):
        if what in names:
            return bool(names[what])
        if not _INFERENCE.isdisjoint(names):
            return False
    return False


_INFERENCE = frozenset(("infer", "infer_impl"))


@contextmanager
def explain_assumptions(data_loader: Any) -> Iterator[None]:
    """Add the assumed shapes of data to errors that backends raise inside the block."""
    try:
        yield
    except (BackendError, InputError) as error:
        assumed: Mapping[str, Sequence[int]] = getattr(data_loader, "assumed", None) or {}
        if assumed and not isinstance(error, MissingDependencyError):
            shapes = " ".join(
                f"{name}:{command_line_shape(shape)}" for name, shape in assumed.items()
            )
            larger: Mapping[str, Sequence[int]] = getattr(data_loader, "larger", None) or assumed
            example = " ".join(
                escape_command(shlex.quote(f"{quote_name(name)}:{command_line_shape(shape)}"))
                for name, shape in larger.items()
            )
            chosen = (
                f"The shapes of the data are {one_line(shapes)}, with 1 for each dynamic"
                " dimension. If the model cannot run with these shapes, set --input-shapes"
                + (f", for example: --input-shapes {example}" if larger != assumed else ".")
            )
            is_sentence = str(error).rstrip().endswith((".", "?", "!"))
            error.hint = f"{error.hint} {chosen}".strip() if is_sentence else f"| {chosen}"
        raise


class InputAdapter:
    """Adapts feed dictionaries to the inputs of a runner or model. Data that look like the last
    ones are passed on directly. A runner that may change its inputs gets copies."""

    def __init__(self, consumer: Runner | TensorMetadata, console: Console) -> None:
        """Set the runner or the inputs to adapt to."""
        self._consumer = consumer
        self._console = console
        is_runner = not isinstance(consumer, TensorMetadata)
        self._copies = is_runner and not promises(consumer, "leaves_inputs_alone")
        self._accepted: tuple[Any, ...] | None = None
        self._seen: set[str] = set()

    def __call__(self, feed: Feed) -> Feed:
        """Return data adapted to the inputs; raise InputError if that is impossible."""
        fitted = self._fit(feed)
        return _copies_of(fitted) if self._copies else fitted

    def _fit(self, feed: Feed) -> Feed:
        """Return the feed with the types, shapes and names of the runner's inputs.
        Each change is logged."""
        described = _feed_signature(feed)
        if described == self._accepted:
            return feed
        if any(not isinstance(array, (np.ndarray, int)) for array in feed.values()):
            feed = {name: _as_array(array) for name, array in feed.items()}
            described = _feed_signature(feed)
            if described == self._accepted:
                return feed
        if isinstance(self._consumer, TensorMetadata):
            name, metadata = "The model", self._consumer
        else:
            name = self._consumer.name
            accept = optional_method(self._consumer, RunnerExtras.accept_inputs)
            if accept is not None:
                accept(feed)
            metadata = self._consumer.get_input_metadata(use_numpy_dtypes=False)
        fitted, is_changed = fit_with_notes(feed, metadata, self._console.note, self._seen, name)
        note_inputs(fitted)
        if not is_changed and list(fitted) == list(feed):
            self._accepted = described
        return fitted


def _feed_signature(feed: Feed) -> tuple[Any, ...]:
    """Return a key of names, types and shapes; feeds with equal keys fit equally."""
    return tuple(
        [
            (name, type(data), getattr(data, "dtype", None), getattr(data, "shape", None))
            for name, data in feed.items()
        ]
    )


def _as_array(data: Any) -> Any:
    """Return a tensor of another library as an array; other values unchanged."""
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, (np.ndarray, int)) or library == "builtins":
        return data
    try:
        tensors = resolve(Tensors, library)
    except UnboundPortError:
        return data
    return tensors.to_array(data)


class Feeds:
    """The feed dictionaries of a run, one at a time.

    The assumptions of the data loader (its `notes`) are passed on to the console, each note once.
    """

    def __init__(
        self, data_loader: Any, console: Console, seen_names: set[str] | None = None
    ) -> None:
        """Start iterating over a data loader; print its notes.

        Args:
            data_loader: source of the data.
            console: takes the notes.
            seen_names: notes that are not repeated; new ones are added.

        Raises:
            UsageError: it is nothing that can be iterated over.
        """
        self._loader = data_loader
        self._console = console
        self._feeds: Iterator[Feed] = iterate_feeds(data_loader)
        self._seen: set[str] = set() if seen_names is None else seen_names
        self._current: Feed | None = None
        console.data_chosen(type(data_loader).__name__, _seed_of(data_loader), self.total)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process; raise an error if data were read in this one."""
        if self._current is not None:
            raise TypeError("Some of the data was already used.")
        return {"_loader": self._loader, "_seen": self._seen}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the state in another process."""
        vars(self).update(state, _current=None, _feeds=iterate_feeds(state["_loader"]))
        self._console = resolve(Console)

    @contextmanager
    def report_to(self, console: Console) -> Iterator[None]:
        """Pass notes to another console inside the block."""
        before, self._console = self._console, console
        try:
            yield
        finally:
            self._console = before

    def describe_model_inputs(
        self, runners: Sequence[Runner], *, may_be_none: bool = False
    ) -> None:
        """Pass the inputs of runners to loaders that accept them, and load the first data.

        The inputs are those of the first runner. See `describe_model` for `may_be_none`.

        Raises:
            UsageError: there are no data.
        """
        if runners:
            inputs = runners[0].get_input_metadata(use_numpy_dtypes=False)
            describe_model(self._loader, inputs, partial(facts_of, runners[0]))
        self._take_first(may_be_none)

    def describe_model(
        self, inputs: TensorMetadata, facts: Callable[[], Facts], *, may_be_none: bool = False
    ) -> None:
        """Pass the inputs of a model to loaders that accept them, and load the first data.

        Args:
            inputs: the inputs of the model.
            facts: finds out what else it tells.
            may_be_none: whether a loader that is made for 0 iterations will do.

        Raises:
            UsageError: there are no data.
        """
        describe_model(self._loader, inputs, facts)
        self._take_first(may_be_none)

    @property
    def total(self) -> int | None:
        """Return the number of iterations; None if unknown until the data end."""
        try:
            return len(self._loader)
        except TypeError:
            return None

    @property
    def is_load_only(self) -> bool:
        """Return whether models are only loaded, because the loader has 0 iterations."""
        return getattr(self._loader, "iterations", None) == 0

    def report_load_only(self) -> None:
        """Log that models were loaded but not run."""
        self._log_once("Nothing was run: iterations is 0.")

    def _take_first(self, may_be_none: bool) -> None:
        """Load the first input set; raise UsageError if there is none."""
        if not self.advance() and not (may_be_none and self.is_load_only):
            raise UsageError("There is no input data: the data loader is empty.")

    @property
    def current(self) -> Feed:
        """Return the data of the current iteration."""
        assert self._current is not None
        return self._current

    def copy_current(self) -> Feed:
        """Return a copy of the current data, which the loader may overwrite."""
        return _copies_of(self.current)

    def advance(self) -> bool:
        """Load the next data; return whether there are any.

        Raises:
            UsageError: the data loader yields something else than dictionaries.
        """
        self._current = None
        feed = next(self._feeds, None)
        for note in notes_of(self._loader):
            self._log_once(note)
        self._current = feed
        return feed is not None

    def report_unused_data(self) -> None:
        """Log that only the first of several input sets is used, and stop reading data."""
        if has_more(self._loader, self._feeds):
            self._log_once(ONLY_FIRST)

    def _log_once(self, note: str) -> None:
        """Log a note, once."""
        if note not in self._seen:
            self._seen.add(note)
            self._console.note(note)

    def copy_remaining(self) -> list[Feed]:
        """Return all data from here on; a loader may reuse its arrays, so they are copied."""
        copied: list[Feed] = []
        while self._current is not None:
            copied.append(self.copy_current())
            self.advance()
        return copied


def _seed_of(data_loader: Any) -> int | None:
    """Return the seed of a loader that generates data; None for other loaders."""
    seed = getattr(data_loader, "seed", None)
    return seed if isinstance(seed, int) else None


def _copies_of(feed: Feed) -> Feed:
    """Return input data with copied arrays."""
    copies = {name: own_copy(array) for name, array in feed.items()}
    return feed.with_arrays(copies) if isinstance(feed, StepFeed) else copies
