"""How wrong tensors are, in the few steps that colours can show."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, log10

from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.accuracy.words import brief

STEPS = 4
"""From what just fails to what is worst; 0 stands for what passed."""


def levels_of(rows: Mapping[str, OutputRow]) -> dict[str, tuple[int, str]]:
    """Return, by tensor, its step and a few words about its error."""
    failed = [_excess(row) for row in rows.values() if not row.passed]
    worst = max((excess for excess in failed if isfinite(excess)), default=1.0)
    return {name: (_level(row, worst), _words(row)) for name, row in rows.items()}


def _excess(row: OutputRow) -> float:
    return inf if row.worst.excess is None else row.worst.excess


def _level(row: OutputRow, worst: float) -> int:
    if row.passed:
        return 0
    if not isfinite(_excess(row)):
        return STEPS
    share = log10(max(_excess(row), 1.0)) / log10(max(worst, 10.0))
    return max(1, min(STEPS, 1 + int(share * STEPS)))


def _words(row: OutputRow) -> str:
    error = row.metrics.get("max_absdiff")
    if error is not None:
        return f"max abs {brief(float(error))}"
    return "passed" if row.passed else "differs"
