"""A console and progress that remember what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from attrs import Factory, define

from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
from polygraphy.domain.accuracy.samples import SamplesCompared
from polygraphy.domain.profiling.table import ProfileTable
from polygraphy.domain.results.results import DeviceTimes, OutputValidity
from polygraphy.domain.states.comparing import StepsCompared
from polygraphy.domain.tensors.metadata import TensorMetadata


class RecordingConsole:
    """Records the events that are reported to it.

    Attributes:
        events: the name of each method that was called, with its arguments, in order. With
            ``keep_arguments=False`` the arguments are left out, and with them the arrays behind
            verdicts.
    """

    def __init__(self, *, keep_arguments: bool = True) -> None:
        """Set whether arguments are recorded."""
        self.events: list[tuple[str, tuple[Any, ...]]] = []
        self._keep_arguments = keep_arguments

    def names(self) -> list[str]:
        """Return the names of all events, in order."""
        return [name for name, _ in self.events]

    def arguments_of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every event of one name, in order."""
        return [arguments for event, arguments in self.events if event == name]

    def _record_event(self, name: str, *arguments: Any) -> None:
        """Append an event with its arguments."""
        self.events.append((name, arguments if self._keep_arguments else ()))

    def note(self, text: str) -> None:
        """Record a note for the user."""
        self._record_event("note", text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Record where the input data come from."""
        self._record_event("data_chosen", source, seed, iterations)

    def runner_activating(self, runner: str) -> None:
        """Record that a runner builds or loads its model."""
        self._record_event("runner_activating", runner)

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """Record that a model runs in segments of layers."""
        self._record_event("segments_planned", segments, tensors, budget)

    def iteration_starting(self, index: int) -> None:
        """Record the start of an iteration."""
        self._record_event("iteration_starting", index)

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Record the inputs of a runner."""
        self._record_event("inputs_described", runner, metadata)

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Record the outputs of a runner."""
        self._record_event("outputs_described", runner, metadata)

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """Record the times of a runner."""
        self._record_event("runner_completed", runner, list(runtimes))

    def loading_included(self, runner: str) -> None:
        """Record that the time of the only iteration includes loading."""
        self._record_event("loading_included", runner)

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """Record the times that a device measured."""
        self._record_event("device_times_measured", runner, list(times))

    def runner_failed(self, runner: str, reason: str) -> None:
        """Record the error of a runner while others continue."""
        self._record_event("runner_failed", runner, reason)

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Record that two runs are compared."""
        self._record_event("comparison_starting", runner0, runner1)

    def iteration_compared(self, pair: PairResult) -> None:
        """Record the comparison of one iteration."""
        self._record_event("iteration_compared", pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """Record the result of a comparison."""
        self._record_event("comparison_finished", result)

    def samples_compared(self, compared: SamplesCompared) -> None:
        """Record the comparison of samples."""
        self._record_event("samples_compared", compared)

    def steps_compared(self, compared: StepsCompared) -> None:
        """Record the comparison of steps."""
        self._record_event("steps_compared", compared)

    def nodes_profiled(self, table: ProfileTable, order: str, rows: int) -> None:
        """Record a table of profiles."""
        self._record_event("nodes_profiled", table, order, rows)

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Record that outputs are checked."""
        self._record_event("validation_starting", list(runners))

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """Record the check of one output."""
        self._record_event("output_validated", runner, validity)

    def validation_finished(self, passed: bool) -> None:
        """Record that all outputs of an iteration were checked."""
        self._record_event("validation_finished", passed)


T = TypeVar("T")


@define
class FollowedJob:
    """A job: its name, number of steps, steps taken, whether it ended, and its stages."""

    what: str
    total: int | None
    steps: int = 0
    has_ended: bool = False
    parts: list[str] = Factory(list)

    def step(self) -> None:
        """Count a step; after the end of the job, do nothing."""
        assert not self.has_ended, f"{self.what} was used after it ended"
        self.steps += 1

    def tell(self, part: str) -> None:
        """Record the stage of the job; after its end, do nothing."""
        assert not self.has_ended, f"{self.what} was used after it ended"
        self.parts.append(part)


@define
class RecordingProgress:
    """Records the jobs that it followed, in order."""

    jobs: list[FollowedJob] = Factory(list)

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Return a context that follows a job; see `polygraphy.ports.reporting`."""
        job = FollowedJob(what, total)
        return self._follow_job(job, job.step)

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context that follows a job of other code; see `polygraphy.ports.reporting`."""
        job = FollowedJob(what, None)
        return self._follow_job(job, job.tell)

    @contextmanager
    def _follow_job(self, job: FollowedJob, step: T) -> Iterator[T]:
        """Record a job, and mark it as ended when the block is left."""
        self.jobs.append(job)
        try:
            yield step
        finally:
            job.has_ended = True
