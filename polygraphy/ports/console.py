"""How a person follows a run.

Use cases tell what happened; an adapter decides how it looks. Whoever implements this asks the
verdicts for no more than it shows, because a statistic is computed when it is first read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.accuracy import AccuracyResult, PairResult
    from polygraphy.domain.device_times import DeviceTimes
    from polygraphy.domain.metadata import TensorMetadata
    from polygraphy.domain.validation import OutputValidity

__all__ = ["Console"]


class Console(Protocol):
    """Told about every step of a run, in the order in which they happen."""

    def note(self, text: str) -> None:
        """Something was assumed that the user may want to know."""

    def runner_activating(self, runner: str) -> None:
        """A runner is about to build or load its model."""

    def stretches_planned(self, stretches: int, tensors: int, budget: int) -> None:
        """A model with many outputs, `tensors`, is about to be run in so many stretches of layers,
        so that its tensors need no more than `budget` bytes at a time.
        """

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of iteration `index`."""

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner asks for."""

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner gave, in its first iteration."""

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """A runner is done; `runtimes` are the seconds of its iterations, in order."""

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """What a runner's device measured of its iterations, in order; told after
        `runner_completed`, if there is any.
        """

    def runner_failed(self, runner: str, reason: str) -> None:
        """A runner failed where the others go on."""

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""

    def iteration_compared(self, pair: PairResult) -> None:
        """The outputs of one iteration of two runs were compared."""

    def comparison_finished(self, result: AccuracyResult) -> None:
        """All iterations of all pairs of runs were compared."""

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked for NaN and infinity."""

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """One output was checked."""

    def validation_finished(self, passed: bool) -> None:
        """All outputs of an iteration were checked."""
