"""Tells a run as log lines.

What a line does not show is not computed: every statistic is asked for only when its line will be
written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polygraphy.adapters.console import verdicts
from polygraphy.domain.accuracy import AccuracyResult, PairResult
from polygraphy.domain.arithmetic import summarize
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.domain.validation import OutputValidity
from polygraphy.logger import G_LOGGER

__all__ = ["LogConsole"]

_ENOUGH_TO_SPREAD = 10


class LogConsole:
    """Writes what happens to the log."""

    def note(self, text: str) -> None:
        """Something was assumed that the user may want to know."""
        G_LOGGER.warning(text)

    def runner_activating(self, runner: str) -> None:
        """A runner is about to build or load its model."""
        G_LOGGER.start(f"{runner:35} | Activating and starting inference")

    def iteration_starting(self, index: int) -> None:
        """All runners are about to take the data of an iteration."""
        G_LOGGER.verbose(f"Streaming iteration {index}")

    def inputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner is fed with."""
        G_LOGGER.info(f"{runner:35}\n---- Inference Input(s) ----\n{metadata}")

    def outputs_described(self, runner: str, metadata: TensorMetadata) -> None:
        """What the runner gave."""
        G_LOGGER.info(f"{runner:35}\n---- Inference Output(s) ----\n{metadata}")

    def runner_completed(self, runner: str, runtimes: Sequence[float]) -> None:
        """A runner is done."""
        if not runtimes:
            G_LOGGER.finish(
                f"{runner:35} | Completed; the runner does not measure its inference time."
            )
            return
        total = sum(runtimes) * 1000
        G_LOGGER.finish(
            f"{runner:35} | Completed {len(runtimes)} iteration(s) in {total:.4g} ms"
            f" | Average inference time: {total / len(runtimes):.4g} ms."
        )
        if len(runtimes) >= _ENOUGH_TO_SPREAD:
            G_LOGGER.info(lambda: f"{runner:35} | {_spread(runtimes)}")

    def runner_failed(self, runner: str, reason: str) -> None:
        """A runner failed where the others go on."""
        G_LOGGER.error(f"{runner:35} | FAILED | {reason}")

    def comparison_starting(self, runner0: str, runner1: str) -> None:
        """Two runs are about to be compared."""
        G_LOGGER.start(f"Accuracy Comparison | {runner0} vs. {runner1}")

    def iteration_compared(self, pair: PairResult) -> None:
        """The outputs of one iteration of two runs were compared."""
        with G_LOGGER.indent():
            if pair.iteration > 0:
                G_LOGGER.info(
                    f"Iteration: {pair.iteration} | {pair.runners[0]} vs. {pair.runners[1]}"
                )
            for name, result in pair.results.items():
                verdicts.log_output(pair, name, result)
            verdicts.log_iteration(pair)

    def comparison_finished(self, result: AccuracyResult) -> None:
        """All iterations of all pairs of runs were compared."""
        verdicts.log_summary(result)

    def validation_starting(self, runners: Sequence[str]) -> None:
        """Outputs are about to be checked."""
        G_LOGGER.start(f"Output Validation | Runners: {list(runners)}")

    def output_validated(self, runner: str, validity: OutputValidity) -> None:
        """One output was checked."""
        with G_LOGGER.indent():
            G_LOGGER.verbose(f"{runner:35} | Validating output: {validity.name}")
            with G_LOGGER.indent():
                for what, count, first in (
                    ("NaN", validity.nan, validity.first_nan),
                    ("Inf", validity.inf, validity.first_inf),
                ):
                    if count:
                        G_LOGGER.error(
                            f"{what} Detected | Output: {validity.name} of {runner}: {count} of"
                            f" {validity.size} elements, the first at {first}"
                        )
                if not validity.nan and not validity.inf:
                    G_LOGGER.info(f"PASSED | Output: {validity.name} is valid")

    def validation_finished(self, passed: bool) -> None:
        """All outputs of an iteration were checked."""
        with G_LOGGER.indent():
            if passed:
                G_LOGGER.finish("PASSED | Output Validation")
            else:
                G_LOGGER.error("FAILED | Output Validation")


def _spread(runtimes: Sequence[float]) -> str:
    """Say how inference times spread; the first call, which pays for what later ones reuse, stands
    apart.
    """
    summary = summarize(np.array(runtimes[1:]) * 1000, quantiles=(0.5, 0.9, 0.99))
    facts = {"mean": summary.mean, **{f"p{q * 100:g}": t for q, t in summary.quantiles.items()}}
    listed = ", ".join(f"{name}={value:.4g}" for name, value in facts.items())
    return f"Inference time: first={runtimes[0] * 1000:.4g} ms; of the others {listed} ms."
