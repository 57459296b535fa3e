"""A runner and a loader without a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Union

import numpy as np

from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.domain.data.feed import own_copy
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.metadata import TensorMetadata

Outputs = Mapping[str, Any]
Timeline = list[tuple[str, str]]


class FakeRunner(BaseRunner):
    """Answers with what it was given, and remembers how it was used.

    Attributes:
        events: what happened, in order, as ``(runner name, what)`` with ``activate``, ``infer``
            and ``deactivate``; runners that are given the same list show in which order they took
            turns.
        feeds: a copy of the data of every inference, in order; empty with ``keep_feeds=False``.
        outputs_are_fresh: whether the arrays of one inference are left alone by the next.
    """

    leaves_inputs_alone = True

    def __init__(
        self,
        outputs: Union[Outputs, Callable[[Mapping[str, Any]], Outputs]],
        inputs: TensorMetadata | None = None,
        name: str | None = None,
        runtime: float | None = 1e-3,
        *,
        fail_at: int | None = None,
        error: BaseException | None = None,
        reuse_buffers: bool = False,
        keep_feeds: bool = True,
        events: Timeline | None = None,
    ) -> None:
        """Set how the runner behaves.

        Args:
            outputs: what an inference returns: the arrays, or a function of the data that makes
                them. The arrays are copied.
            inputs: what the model asks for (default: nothing).
            name: name of the runner.
            runtime: how long every inference claims to take, in seconds; None for a runner that
                does not measure.
            fail_at: which inference since activation fails, from 0; -1 for the activation itself.
            error: what a failure raises (default: a BackendError).
            reuse_buffers: whether every inference writes its outputs into the arrays of the one
                before, as engines with buffers of their own do.
            keep_feeds: whether copies of the data are kept.
            events: the list that events are appended to (default: one of its own).
        """
        super().__init__(name=name, prefix="fake-runner")
        self.events: Timeline = [] if events is None else events
        self.feeds: list[dict[str, Any]] = []
        self.outputs_are_fresh = not reuse_buffers
        self._outputs = outputs
        self._inputs = TensorMetadata() if inputs is None else inputs
        self._runtime = runtime
        self._fail_at = fail_at
        self._error = error
        self._keep_feeds = keep_feeds
        self._iteration = 0
        self._buffers: dict[str, Any] = {}

    def activate_impl(self) -> None:
        """Record the activation."""
        self.events.append((self.name, "activate"))
        if self._fail_at == -1:
            raise self._failure("could not load the model")
        self._iteration = 0

    def deactivate_impl(self) -> None:
        """Record the deactivation and let go of the buffers."""
        self.events.append((self.name, "deactivate"))
        self._buffers = {}

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the inputs, as given."""
        return TensorMetadata(self._inputs)

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Record the data and answer."""
        self.events.append((self.name, "infer"))
        if self._keep_feeds:
            self.feeds.append({name: own_copy(data) for name, data in feed_dict.items()})
        iteration, self._iteration = self._iteration, self._iteration + 1
        if iteration == self._fail_at:
            raise self._failure(f"failed in inference {iteration}")
        if callable(self._outputs):
            outputs = self._outputs({name: own_copy(data) for name, data in feed_dict.items()})
        else:
            outputs = self._outputs
        self.inference_time = self._runtime
        if self.outputs_are_fresh:
            return {name: own_copy(array) for name, array in outputs.items()}
        return {name: self._buffered(name, array) for name, array in outputs.items()}

    def _failure(self, what: str) -> BaseException:
        if self._error is not None:
            return self._error
        return BackendError(f"{self.name} {what}, as requested.", backend="fake")

    def _buffered(self, name: str, array: Any) -> Any:
        """Return the buffer of an output, filled; a new one when it has not the right form."""
        source = np.asarray(array)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != source.shape or buffer.dtype != source.dtype:
            buffer = self._buffers[name] = np.empty_like(source)
        buffer[...] = source
        return buffer


class FakeLoader(BaseLoader):
    """Hands over the value that it was given, and counts how often it was asked.

    Attributes:
        calls: how often the loader was called, failures included.
    """

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set what a call returns, or raises."""
        self._calls: list[None] = []
        self._value = value
        self._error = error

    @property
    def calls(self) -> int:
        """How often the loader was called."""
        return len(self._calls)

    def call_impl(self) -> Any:
        """Count the call, and return the value or raise the error."""
        self._calls.append(None)
        if self._error is not None:
            raise self._error
        return self._value
