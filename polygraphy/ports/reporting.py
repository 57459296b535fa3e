"""How a person follows what happens, and what is drawn.

Use cases report what happened; an adapter decides how it looks. An adapter asks the
verdicts for no more than it shows, because a statistic is computed when it is first read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.binding import port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults, PairResult
    from polygraphy.domain.accuracy.inspection import DataReport
    from polygraphy.domain.accuracy.output_rows import OutputRow
    from polygraphy.domain.accuracy.samples import SamplesCompared
    from polygraphy.domain.checks.capability import SupportReport
    from polygraphy.domain.environment import Environment
    from polygraphy.domain.model import Model
    from polygraphy.domain.model.drawing import GraphDrawing
    from polygraphy.domain.model.statistics import ModelStatistics
    from polygraphy.domain.profiling.table import ProfileTable
    from polygraphy.domain.report.document import Document
    from polygraphy.domain.results.results import DeviceTimes, OutputValidity
    from polygraphy.domain.states.comparing import StepsCompared
    from polygraphy.domain.sweep.outcome import SweepOutcome
    from polygraphy.domain.tactics import Algorithm, TacticReplay
    from polygraphy.domain.tensors.metadata import TensorMetadata


class Console(Protocol):
    """Receives every event of a run, in order."""

    def note(self, text: str) -> None:
        """Report an assumption that the user may want to know."""

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Report that input data are about to be loaded from a data loader.

        Args:
            source: the kind of loader.
            seed: of the first iteration, where data are generated.
            iterations: their number, where that is known.
        """

    def runner_activating(self, runner: str) -> None:
        """Report that a runner is about to build or load its model."""

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """Report that a model with many outputs, `tensors`, is about to be run in that many
        segments of layers, so that its tensors need no more than `budget` bytes at a time.
        """

    def iteration_starting(self, index: int) -> None:
        """Report that all runners are about to run the data of iteration `index`."""

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Show the inputs of a runner."""

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Show the outputs of a runner, from its first iteration."""

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """Report that a runner is done; `runtimes` are the seconds of its iterations, in order."""

    def loading_included(self, runner: str) -> None:
        """Report that the time of a runner's only iteration includes loading libraries and kernels
        of a device; called after `runner_completed`."""

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """Report the device times of a runner's iterations, in order;
        called after `runner_completed`, if there are any."""

    def runner_failed(self, runner: str, reason: str) -> None:
        """Report that a runner failed and the others continue."""

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Report that two runs are about to be compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        """Report the comparison of the outputs of one iteration of two runs."""

    def comparison_finished(self, result: AccuracyResult) -> None:
        """Report that all iterations of all pairs of runs were compared."""

    def samples_compared(self, compared: SamplesCompared) -> None:
        """Report the samples of a pair of runs with different predictions, and the accuracy of both
        runs."""

    def steps_compared(self, compared: StepsCompared) -> None:
        """Report that all steps of a model with states were compared."""

    def nodes_profiled(self, table: ProfileTable, order: str, rows: int) -> None:
        """Report the profiles of runners with the same input shapes.

        Args:
            table: the times of their nodes.
            order: by what rows are sorted: ``time``, ``difference`` or ``error``.
            rows: number of rows shown; 0 for all.
        """

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Report that outputs are about to be checked for NaN and infinity."""

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """Report the check of one output."""

    def validation_finished(self, passed: bool) -> None:
        """Report that all outputs of an iteration were checked."""


class Findings(Protocol):
    """Receives the findings of a use case, for programs that write a report. They are not shown."""

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Add the facts of a finding to the report.

        Args:
            kind: its kind, such as ``iteration``.
            facts: about it: plain values, or attrs objects of them.
        """

    def conclude(
        self,
        verdict: str | None = None,
        culprits: Sequence[Mapping[str, Any]] = (),
        summary: str = "",
    ) -> None:
        """Report the overall verdict.

        Args:
            verdict: in a word, or a few with hyphens; None where the exit code tells.
            culprits: the parts at fault, in plain values.
            summary: the verdict in a sentence; empty where outputs and errors tell.
        """


class Reports(Protocol):
    """Receives reports, one at a time."""

    def source(self, path: str) -> None:
        """Show the path of the next of several files."""

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        """Show input data, or results of runners.

        Args:
            report: the report.
            num_items: number of elements shown at each end of each dimension where there are too
                many to show all; -1 for all.
            line_width: the longest line of elements; -1 for any length.
        """

    def accuracy(self, results: AccuracyResults) -> None:
        """Show saved verdicts."""

    def environment(self, environment: Environment) -> None:
        """Show the software that is installed on this machine."""

    def sweep(self, outcome: SweepOutcome) -> None:
        """Show the cells of a sweep, and the causes of failures."""

    def profile(self, table: ProfileTable, *, sort: str, rows: int) -> None:
        """Show the times of nodes.

        Args:
            table: the profile table.
            sort: by what rows are sorted: ``time``, ``difference`` or ``error``.
            rows: number of rows shown; 0 for all.
        """

    def replay(self, replay: TacticReplay) -> None:
        """Show the tactic of each layer."""

    def replays_compared(
        self,
        name0: str,
        name1: str,
        difference: Mapping[str, tuple[Algorithm | None, Algorithm | None]],
    ) -> None:
        """Show the layers whose tactic differs between two builds, with both;
        None for a build without the layer.
        """

    def bad_tactics(
        self, good: int, bad: int, suspicious: Mapping[str, Sequence[Algorithm]]
    ) -> None:
        """Show the tactics that only failed builds chose, per layer, out of `good` and `bad`
        builds.
        """

    def support(self, report: SupportReport) -> None:
        """Show which parts of a model a backend supports."""


class Progress(Protocol):
    """Shows the progress of jobs with many steps."""

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Return a context manager that shows the progress of a job, and a function to call after
        each step.

        Args:
            what: name of the job.
            total: the number of steps; None if unknown.

        Returns:
            A context manager whose value is called after each step.
        """

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context manager that shows the time of a job that other code does, and a
        function to call with its current stage.

        Args:
            what: name of the job.

        Returns:
            A context manager whose value is called, from any thread, with what is done now; it
            need not be.
        """


@port
def report_page(document: Document, model: Model | None, folder: str = ".") -> str:
    """Return a self-contained HTML page about a report.

    Args:
        document: the details to show.
        model: the model that it is about, read with layers and attributes; None where there is
            none.
        folder: the folder that the page will be in, at which its links start.
    """


@port
def model_page(
    model: Model,
    drawings: Sequence[GraphDrawing],
    statistics: ModelStatistics,
    errors: Mapping[str, OutputRow] | None = None,
) -> str:
    """Return a self-contained HTML page about a model.

    Args:
        model: the details to show.
        drawings: its graphs, the main one first.
        statistics: of its size.
        errors: the findings about its tensors, by name, by which nodes are colored; None to
            color them by their operators.
    """


@port
def serve_page(page: str, port: int, announce: Callable[[str], Any]) -> None:
    """Serve a page to browsers on this machine only, until the user interrupts.

    Args:
        page: the page.
        port: a TCP port; 0 for any that is free.
        announce: called with the address as soon as it can be opened.

    Raises:
        UsageError: the port is taken.
    """
