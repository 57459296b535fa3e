"""Log lines about many outputs at once: a table, and the first output that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from polygraphy.adapters.console.numbers import brief
from polygraphy.domain.accuracy import AccuracyResult, RunnerPair
from polygraphy.domain.compare.result import CompareResult
from polygraphy.logger import G_LOGGER

__all__ = ["log_outputs"]

_HANDFUL = 5
_TITLES = ("Output", "Type", "Shape", "Max. abs.", "Max. rel.", "Verdict")
_NUMBERS = (3, 4)
_UNKNOWN = "-"

Iterations = Sequence[Mapping[str, Any]]


def log_outputs(result: AccuracyResult) -> None:
    """Show how each output fared where they are many, and name the first that failed.

    Outputs are in the order in which the model computes them, so that what goes wrong goes wrong
    there first. Where averages are judged, those have been shown already.
    """
    if result.is_average:
        return
    for pair, iterations in result.items():
        names = list(dict.fromkeys(name for answers in iterations for name in answers))
        if len(names) > _HANDFUL and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
            G_LOGGER.info(_table(pair, names, iterations))
        failed = _first_failure(iterations)
        if len(names) > 1 and failed is not None:
            where = f" in iteration {failed[0]}" if len(iterations) > 1 else ""
            G_LOGGER.error(
                f"First output that fails, in the order of the model: {failed[1]!r}{where};"
                f" {_failures(names, iterations)} of {len(names)} outputs fail."
            )


def _first_failure(iterations: Iterations) -> tuple[int, str] | None:
    for index, answers in enumerate(iterations):
        for name, answer in answers.items():
            if not answer:
                return index, name
    return None


def _failures(names: Sequence[str], iterations: Iterations) -> int:
    return sum(any(not answers.get(name, True) for answers in iterations) for name in names)


def _table(pair: RunnerPair, names: Sequence[str], iterations: Iterations) -> str:
    rows = [_TITLES, *(_row(name, iterations) for name in names)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        " | ".join(
            f"{cell:>{width}}" if index in _NUMBERS else f"{cell:{width}}"
            for index, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([f"{pair[0]} vs. {pair[1]}", "---- Outputs ----", *lines])


def _row(name: str, iterations: Iterations) -> tuple[str, ...]:
    """Describe one output: its tensor, the largest differences of all iterations, the verdict."""
    answers = [answers[name] for answers in iterations if name in answers]
    verdict = "PASSED" if all(answers) else "FAILED"
    first = answers[0] if isinstance(answers[0], CompareResult) else None
    tensors = [] if first is None else [t for t in (first.tensor0, first.tensor1) if t is not None]
    return (
        name,
        ", ".join(dict.fromkeys(tensor.dtype for tensor in tensors)) or _UNKNOWN,
        ", ".join(dict.fromkeys(str(tensor.shape) for tensor in tensors)) or _UNKNOWN,
        _largest([getattr(answer, "max_absdiff", None) for answer in answers]),
        _largest([getattr(answer, "max_reldiff", None) for answer in answers]),
        verdict,
    )


def _largest(values: Sequence[float | None]) -> str:
    """Return the largest of some metrics; NaN counts as larger than any number."""
    known = [value for value in values if value is not None]
    if not known:
        return _UNKNOWN
    return brief(max(known, key=lambda value: (isnan(value), value)))
