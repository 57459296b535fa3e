"""Reports a run as log lines.

Statistics are computed only if their line is written, and the modules for comparisons are imported
only if there is a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polygraphy.domain.results.results import (
    DeviceTimes,
    OutputValidity,
    label_of_runner,
    label_of_runners,
)
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, PairResult
    from polygraphy.domain.accuracy.samples import SamplesCompared
    from polygraphy.domain.profiling.table import ProfileTable
    from polygraphy.domain.states.comparing import StepsCompared


_ENOUGH_TO_SPREAD = 10
_QUICK = 1 << 14
"""Elements whose statistics are computed before a line could be read."""


class LogConsole:
    """Writes events to the log.

    Attributes:
        explains: whether it logs a sentence that explains a comparison.
    """

    def __init__(self, *, draws: bool = True) -> None:
        """Set whether distributions of failed outputs are drawn."""
        self._draws = draws
        self.explains = True

    def note(self, text: str) -> None:
        """Log a note."""
        G_LOGGER.warning(text)

    def data_chosen(self, source: str, seed: int | None, iterations: int | None) -> None:
        """Log where the input data come from."""

    def runner_activating(self, runner: str) -> None:
        """Log that a runner starts."""
        G_LOGGER.start(f"{label_of_runner(runner):35} | Activating and starting inference")

    def segments_planned(self, segments: int, tensors: int, budget: int) -> None:
        """Log into how many segments a layerwise run is divided."""
        severity = G_LOGGER.INFO if segments > 1 else G_LOGGER.VERBOSE
        pieces = f"{segments} segments of layers" if segments > 1 else "one piece"
        text = f"Layerwise | {tensors} tensors | {pieces} | Memory for tensors: {budget >> 20} MiB"
        G_LOGGER.log(text, severity)

    def iteration_starting(self, index: int) -> None:
        """Log the number of an iteration."""
        G_LOGGER.verbose(f"Streaming iteration {index}")

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Log the metadata of the inputs of a runner."""
        G_LOGGER.info(f"{label_of_runner(runner):35}\n---- Inference Input(s) ----\n{metadata}")

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """Log the metadata of the outputs of a runner."""
        G_LOGGER.info(f"{label_of_runner(runner):35}\n---- Inference Output(s) ----\n{metadata}")

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """Log the inference times of a runner."""
        if not runtimes:
            G_LOGGER.finish(
                f"{label_of_runner(runner):35} | Completed; this runner does not measure"
                " inference times."
            )
            return
        total = sum(runtimes) * 1000
        G_LOGGER.finish(
            f"{label_of_runner(runner):35} | Completed {len(runtimes)} iteration(s) in"
            f" {total:.4g} ms | Average inference time: {total / len(runtimes):.4g} ms."
        )
        if len(runtimes) >= _ENOUGH_TO_SPREAD:
            G_LOGGER.info(lambda: f"{label_of_runner(runner):35} | {_spread(runtimes)}")

    def loading_included(self, runner: str) -> None:
        """Log that the time includes loading libraries."""
        G_LOGGER.info(
            f"{label_of_runner(runner):35} | The time includes loading libraries and kernels. With"
            " --iterations, an untimed run comes first."
        )

    def device_times_measured(self, runner: str, times: Sequence[DeviceTimes]) -> None:
        """Log the times on the device."""
        G_LOGGER.info(lambda: f"{label_of_runner(runner):35} | {_device_spread(times)}")

    def runner_failed(self, runner: str, reason: str) -> None:
        """Log an error of a runner."""
        G_LOGGER.error(f"{label_of_runner(runner):35} | FAILED | {reason}")

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Log the runners that are compared."""
        G_LOGGER.start(f"Accuracy Comparison | {label_of_runners((runner0, runner1))}")

    def iteration_compared(self, pair: PairResult) -> None:
        """Log the comparison of two runners in one iteration."""
        if _is_quick(pair):
            with G_LOGGER.together():
                self._log_outputs(pair)
        else:
            self._log_outputs(pair)

    def _log_outputs(self, pair: PairResult) -> None:
        """Log the results of an iteration, output by output."""
        from polygraphy.adapters.console import verdicts

        with G_LOGGER.indent():
            if pair.iteration > 0:
                G_LOGGER.info(f"Iteration: {pair.iteration} | {label_of_runners(pair.runners)}")
            verdicts.log_outputs(pair, draws=self._draws)
            verdicts.log_iteration(pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """Log the summary of a comparison."""
        from polygraphy.adapters.console import verdicts

        verdicts.log_summary(result, is_explained=self.explains)

    def samples_compared(self, compared: SamplesCompared) -> None:
        """Log the table of samples."""
        from polygraphy.adapters.console.tables import sample_lines
        from polygraphy.domain.report.document import as_json_value

        G_LOGGER.info("\n".join(sample_lines(as_json_value(compared))))

    def steps_compared(self, compared: StepsCompared) -> None:
        """Log the table of steps."""
        from polygraphy.adapters.console.tables import step_lines
        from polygraphy.domain.report.document import as_json_value

        G_LOGGER.info("\n".join(step_lines(as_json_value(compared))))

    def nodes_profiled(self, table: ProfileTable, order: str, rows: int) -> None:
        """Log the table of nodes with their times."""
        from polygraphy.adapters.console.profiles import profile_lines

        G_LOGGER.info("\n".join(profile_lines(table, order, rows, None)))

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Log the runners whose outputs are validated."""
        G_LOGGER.start(f"Output Validation | Runners: {[*map(label_of_runner, runners)]}")

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """Log whether an output has NaN or infinite values."""
        with G_LOGGER.indent():
            name = one_line(validity.name)
            G_LOGGER.verbose(f"{label_of_runner(runner):35} | Validating output: {name}")
            with G_LOGGER.indent():
                for problem, count, first in (
                    ("NaN", validity.nan, validity.first_nan),
                    ("Inf", validity.inf, validity.first_inf),
                ):
                    if count:
                        G_LOGGER.error(
                            f"{problem} Detected | Output: {name} of"
                            f" {label_of_runner(runner)}: {count} of {validity.size} elements, the"
                            f" first at {first}"
                        )
                if not validity.nan and not validity.inf:
                    G_LOGGER.info(f"PASSED | Output: {name} is valid")

    def validation_finished(self, passed: bool) -> None:
        """Log PASSED or FAILED for the validation."""
        with G_LOGGER.indent():
            if passed:
                G_LOGGER.finish("PASSED | Output Validation")
            else:
                G_LOGGER.error("FAILED | Output Validation")


def _is_quick(pair: PairResult) -> bool:
    """Return whether an iteration takes so little time that its lines can be logged together."""
    size = 0
    for outputs in pair.outputs:
        for output in outputs.values():
            if not isinstance(output, np.ndarray):
                return False
            size += output.size
    return size < _QUICK


def _spread(runtimes: Sequence[float]) -> str:
    """Return the spread of inference times as text.
    The first call is separate, because it includes one-time costs.
    """
    percentiles = _percentiles(runtimes[1:])
    return f"Inference time: first={runtimes[0] * 1000:.4g} ms; others: {percentiles} ms."


def _device_spread(times: Sequence[DeviceTimes]) -> str:
    """Return the spread of device times as text, part by part; without the first call,
    unless it is the only one.
    """
    later = times[1:] or times
    parts = {
        "H2D": [device_times.to_device for device_times in later],
        "compute": [device_times.compute for device_times in later],
        "D2H": [device_times.to_host for device_times in later],
        "total": [device_times.total for device_times in later],
    }
    lines = [f"{part:7} | {_percentiles(seconds)}" for part, seconds in parts.items()]
    device_spread = " after the first" if len(times) > 1 else ""
    return "\n".join([f"Times on the device{device_spread}, in ms, over {len(later)}:", *lines])


def _percentiles(seconds: Sequence[float]) -> str:
    """Return mean and percentiles in milliseconds, as text."""
    from polygraphy.domain.arithmetic import summarize

    summary = summarize(np.array(seconds) * 1000, quantiles=(0.5, 0.9, 0.99))
    facts = {"mean": summary.mean, **{f"p{q * 100:g}": t for q, t in summary.quantiles.items()}}
    return ", ".join(f"{name}={value:.4g}" for name, value in facts.items())
