"""Log lines about many outputs at once: a table, and the first output that fails."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.adapters.console.numbers import format_number
from polygraphy.domain.accuracy.accuracy import AccuracyResult, RunnerPair, first_failure
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow
from polygraphy.domain.results.runner_names import label_of_runners
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER

_SEVERAL = 2
_HANDFUL = 5
_TITLES = ("Output", "Type", "Shape", "Max. abs.", "Max. rel.", "Verdict")
_NUMBERS = (3, 4)
_UNKNOWN = "-"


def log_outputs(result: AccuracyResult) -> None:
    """Show how each output fared where they are many, and name the first that failed.

    Outputs are in the order in which the model computes them, so that what goes wrong goes wrong
    there first. Where averages are judged, those have been shown already.
    """
    if result.is_average:
        return
    for table, (pair, iterations) in zip(AccuracyTable.of(result), result.read()):
        outputs = table.rows()
        if len(outputs) < _SEVERAL:
            continue
        if len(outputs) > _HANDFUL and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
            G_LOGGER.info(_table(pair, outputs))
        failing = sum(not output.passed for output in outputs)
        failed = first_failure(iterations)
        if failed is None:
            continue
        if failed.output is None:
            G_LOGGER.error(f"No output was compared in iteration {failed.iteration}.")
            continue
        where = f" in iteration {failed.iteration}" if len(iterations) > 1 else ""
        G_LOGGER.error(
            f"First output that fails, in the order of the model: {failed.output!r}{where};"
            f" {failing} of {len(outputs)} outputs fail."
        )


def _table(pair: RunnerPair, outputs: Sequence[OutputRow]) -> str:
    rows = [_TITLES, *map(_cells, outputs)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        " | ".join(
            f"{cell:>{width}}" if index in _NUMBERS else f"{cell:{width}}"
            for index, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([label_of_runners(pair), "---- Outputs ----", *lines])


def _cells(output: OutputRow) -> tuple[str, ...]:
    """Describe one output: its tensor, the largest differences of all iterations, the verdict."""
    return (
        one_line(output.name),
        ", ".join(output.dtypes) or _UNKNOWN,
        ", ".join(map(str, output.shapes)) or _UNKNOWN,
        _UNKNOWN if output.absolute is None else format_number(output.absolute),
        _UNKNOWN if output.relative is None else format_number(output.relative),
        "PASSED" if output.passed else "FAILED",
    )
