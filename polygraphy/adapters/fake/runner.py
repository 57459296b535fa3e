"""Runners, loaders, memory, processes and measures without a technology."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Union

import numpy as np
from attrs import frozen

from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.base.runner import BaseRunner
from polygraphy.domain.data.loading import own_copy
from polygraphy.domain.errors import BackendError
from polygraphy.domain.profiling.execution import ExecutedNode, ExecutionProfile
from polygraphy.domain.search.check_rules import TIMED_OUT, CommandEnd
from polygraphy.domain.sweep.cells import Job, Limits
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.ports.running import RunningCommand

Outputs = Mapping[str, Any]
Timeline = list[tuple[str, str]]


class FakeRunner(BaseRunner):
    """Returns configured outputs, and records its calls.

    Attributes:
        events: the events, in order, as ``(runner name, what)`` with ``activate``, ``infer``
            and ``deactivate``; runners that share a list record their common order.
        feeds: a copy of the data of every inference, in order; empty with ``keep_feeds=False``.
        outputs_are_fresh: whether the arrays of an inference are not overwritten by the next one.
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
        """Set the outputs, the inputs, and when the runner fails.

        Args:
            outputs: the outputs of an inference: the arrays, or a function that computes them from
                the data. The arrays are copied.
            inputs: the inputs of the model (default: nothing).
            name: name of the runner.
            runtime: the duration in seconds that every inference reports; None for a runner that
                does not measure.
            fail_at: the index of the inference since activation that fails; -1 for the activation
                itself.
            error: the exception that a failure raises (default: a BackendError).
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
        """Record the deactivation and release the buffers."""
        self.events.append((self.name, "deactivate"))
        self._buffers = {}

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Return the configured inputs."""
        return TensorMetadata(self._inputs)

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Record the data and return the outputs."""
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
        return {name: self._fill_buffer(name, array) for name, array in outputs.items()}

    def _failure(self, what: str) -> BaseException:
        """Return the configured exception."""
        if self._error is not None:
            return self._error
        return BackendError(f"{self.name} {what}, as requested.", backend="fake")

    def _fill_buffer(self, name: str, array: Any) -> Any:
        """Return the buffer of an output filled with an array; a new one if its type or shape
        differs.
        """
        source = np.asarray(array)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != source.shape or buffer.dtype != source.dtype:
            buffer = self._buffers[name] = np.empty_like(source)
        buffer[...] = source
        return buffer


class FakeLoader(BaseLoader):
    """Returns a configured value, and counts its calls.

    Attributes:
        calls: number of times that the loader was called, failures included.
    """

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set the value or the error of a call."""
        self._calls: list[None] = []
        self._value = value
        self._error = error

    @property
    def calls(self) -> int:
        """Return the number of calls."""
        return len(self._calls)

    def call_impl(self) -> Any:
        """Count the call, and return the value or raise the error."""
        self._calls.append(None)
        if self._error is not None:
            raise self._error
        return self._value


_ALIGNMENT = 256
_FIRST_ADDRESS = 0x7F00_0000_0000
_UNWRITTEN = 0xA5


class HostMemory:
    """Stands in for device memory, and rejects errors that a real device might not report.

    Addresses are invented, so that they cannot be dereferenced by mistake, and never reused, so
    that the use of freed memory is noticed. As on a device, an address may point into the middle of
    an allocation, and new memory holds garbage: the byte 0xA5 throughout.
    """

    def __init__(self, capacity: int | None = None) -> None:
        """Set the number of bytes (default: no limit)."""
        self._capacity = capacity
        self._next_address = _FIRST_ADDRESS
        self._buffers: dict[int, np.ndarray[Any, Any]] = {}

    @property
    def outstanding(self) -> dict[int, int]:
        """Return the size in bytes of each allocation that was not freed, by address."""
        return {address: buffer.nbytes for address, buffer in self._buffers.items()}

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` of new memory.
        Raise BackendError if there is not enough."""
        if nbytes < 0:
            raise BackendError(f"{nbytes} bytes is not a valid memory size.", backend="fake")
        in_use = sum(self.outstanding.values())
        if self._capacity is not None and in_use + nbytes > self._capacity:
            raise BackendError(
                f"Out of memory: {nbytes} bytes were requested, but {in_use} of {self._capacity}"
                " are in use.",
                backend="fake",
            )
        address = self._next_address
        # Keep at least one byte between allocations, so that no end equals the next start.
        self._next_address += (nbytes // _ALIGNMENT + 1) * _ALIGNMENT
        self._buffers[address] = np.full(nbytes, _UNWRITTEN, dtype=np.uint8)
        return address

    def free(self, address: int) -> None:
        """Free memory; raise BackendError for an address that is not allocated."""
        if address not in self._buffers:
            raise BackendError(
                f"Address {address:#x} cannot be freed: it is not allocated, or was already freed.",
                backend="fake",
            )
        del self._buffers[address]

    def copy_to_device(self, address: int, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into memory; raise BackendError if it does not fit."""
        target = self._span(address, source)
        target[...] = source.reshape(-1).view(np.uint8)

    def copy_to_host(self, target: np.ndarray[Any, Any], address: int) -> None:
        """Fill a contiguous host array from memory.
        Raise BackendError if there are too few bytes."""
        source = self._span(address, target)
        if not target.flags.writeable:
            raise BackendError("The host array cannot be written.", backend="fake")
        target.reshape(-1).view(np.uint8)[...] = source

    def _span(self, address: int, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the bytes at `address` that an array is copied to or from."""
        if not array.flags.c_contiguous:
            raise BackendError("Only contiguous host arrays can be copied.", backend="fake")
        starts = list(self._buffers)  # Addresses only grow, so they are in ascending order.
        position = bisect_right(starts, address) - 1
        start = starts[position] if position >= 0 else None
        if start is None or address - start > self._buffers[start].nbytes:
            raise BackendError(f"Address {address:#x} is not allocated.", backend="fake")
        span = self._buffers[start][address - start :]
        if array.nbytes > span.nbytes:
            raise BackendError(
                f"{array.nbytes} bytes at {address:#x} are more than the {span.nbytes} that are"
                " allocated there.",
                backend="fake",
            )
        return span[: array.nbytes]


T = TypeVar("T")


class FunctionCommands:
    """Calls a function in place of each command.

    Attributes:
        commands: those that were run, in order.
    """

    def __init__(self, answer: Callable[[Sequence[str]], int | str]) -> None:
        """Set the function that accepts the words of a command, and returns an exit code, or the
        output of a successful command."""
        self.commands: list[list[str]] = []
        self._answer = answer

    def prepare(self, command: Sequence[str]) -> None:
        """Do nothing, because there is no process."""

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        in_new_process: bool = False,
    ) -> RunningCommand:
        """Call the function, and return the finished command; a timeout of 0 stops it."""
        self.commands.append(list(command))
        if timeout == 0:
            return FinishedCommand(CommandEnd(TIMED_OUT, "", 0.0, True))
        answer = self._answer(command)
        process = CommandEnd(answer, "") if isinstance(answer, int) else CommandEnd(0, answer)
        return FinishedCommand(process)

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> CommandEnd:
        """Call the function, and return the finished command."""
        return self.start(command, timeout=timeout).wait()


@frozen
class FinishedCommand:
    """A command that has already ended."""

    done: CommandEnd

    def wait(self) -> CommandEnd:
        """Return the end of the command."""
        return self.done

    def stop(self) -> None:
        """Do nothing, because the command has ended."""


class InlineIsolation:
    """Calls functions in this process, and records their purpose; it can be set to fail for some of
    them.

    Attributes:
        calls: the calls, with the time limit of each.
    """

    def __init__(self, crashes: dict[str, Exception] | None = None) -> None:
        """Set the error for each action that should fail."""
        self.calls: list[tuple[str, float | None]] = []
        self._crashes = crashes or {}

    def __call__(
        self,
        function: Callable[[], T],
        *,
        what: str,
        timeout: float | None = None,
        is_silent: bool = False,
        memory: int | None = None,
    ) -> T:
        """Return the result of a function, or raise the error set for it."""
        self.calls.append((what, timeout))
        if what in self._crashes:
            raise self._crashes[what]
        return function()


class MeanDistance:
    """Uses the mean absolute difference as the perceptual distance of images."""

    def __init__(self, *, is_available: bool = True) -> None:
        """Set whether the metric is available."""
        self._is_available = is_available

    def prepare(self) -> None:
        """Raise MissingDependencyError unless the metric is available.

        Raises:
            BackendError: the metric is not available.
        """
        if not self._is_available:
            raise BackendError("The perceptual distance is not available.")

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two arrays of images of one shape.

        Raises:
            TypeError: they do not hold numbers.
        """
        self.prepare()
        return float(np.abs(image0.astype(np.float64) - image1.astype(np.float64)).mean())


class ScriptedEngine:
    """Implements the port `SweepEngine`: a function returns the result of each job.

    Attributes:
        jobs: the jobs that were run, in order.
    """

    def __init__(self, answer: Callable[[Job], Mapping[str, Any]]) -> None:
        """Set the function that returns the fields in which the record of a job differs from a
        passing one."""
        self.jobs: list[Job] = []
        self._answer = answer

    def run(
        self,
        jobs: Sequence[Job],
        limits: Limits,
        ended: Callable[[Job, Mapping[str, Any]], object],
    ) -> None:
        """Report the result of every job in order, without limits."""
        for job in jobs:
            self.jobs.append(job)
            passed = {"summary": "1 output matched.", "verdict": "passed", "inference": 0.01}
            record = {
                "key": job.key,
                "ended": "exit",
                "code": 0,
                "seconds": 1.0,
                "memory": 1 << 20,
                "shared": not job.exclusive,
                "machine": {},
                "said": "",
                "essence": passed,
            }
            ended(job, {**record, **self._answer(job)})


class FakeNodeProfiler:
    """Implements the port `NodeProfiler`: each node takes the same time in each run.

    Attributes:
        runs: the number of runs so far.
        is_closed: whether it was closed.
    """

    def __init__(self, times: Mapping[str, float]) -> None:
        """Set the microseconds of each node, by its name, in order."""
        self.runs = 0
        self.is_closed = False
        self._times = dict(times)

    def infer(self, feed_dict: Mapping[str, Any]) -> None:
        """Count a run."""
        self.runs += 1

    def finish(self, groups: Sequence[Sequence[int]]) -> list[ExecutionProfile]:
        """Return the profiles; raise BackendError if a run is missing."""
        if any(number >= self.runs for group in groups for number in group):
            raise BackendError("This run does not exist.", backend="fake")
        total = sum(self._times.values())
        return [
            ExecutionProfile(
                "fake",
                [
                    ExecutedNode(name, name, [time] * len(group), origins=[name])
                    for name, time in self._times.items()
                ],
                run_times=[total] * len(group),
            )
            for group in groups
        ]

    def close(self) -> None:
        """Record that the profiler was closed."""
        self.is_closed = True
