"""A sweep on the console: a matrix of models and combinations, and what failures have in common."""

from __future__ import annotations

from collections.abc import Iterator

from polygraphy.adapters.console.screen import wrapped
from polygraphy.adapters.console.tables import Column, drawn
from polygraphy.domain.sweep.outcome import (
    FAILED,
    INCONCLUSIVE,
    MISSING,
    NO_REFERENCE,
    PASSED,
    Group,
    Row,
    SweepOutcome,
)
from polygraphy.domain.tensors.naming import counted, one_line

_MOST_MODELS = 40
"""Rows of a matrix."""
_MOST_GROUPS = 10
_MOST_CELLS = 3
_WORDS = {PASSED: "ok", MISSING: "-", NO_REFERENCE: "no ref", INCONCLUSIVE: "?", FAILED: "FAILED"}


def sweep_lines(outcome: SweepOutcome, width: int | None) -> Iterator[str]:
    """Yield the lines.

    Args:
        outcome: what came of the sweep.
        width: the columns of the terminal; None for as many as it takes.
    """
    yield from _matrix(outcome, width)
    for group in outcome.groups[:_MOST_GROUPS]:
        yield ""
        yield from _group(group)
    if len(outcome.groups) > _MOST_GROUPS:
        yield ""
        yield f"... and {counted(len(outcome.groups) - _MOST_GROUPS, 'more cause')}, see --report."
    changed = [row for row in outcome.rows if row.changes]
    if changed:
        yield ""
    for row in changed[:_MOST_MODELS]:
        yield f"  {', '.join(row.changes)}: {one_line(row.name)}"
    yield from ("", *wrapped(outcome.summary, 0), "")


def _matrix(outcome: SweepOutcome, width: int | None) -> Iterator[str]:
    """Yield the models that have something to tell, and how many have not."""
    matrix = outcome.matrix
    notable = {
        model: cells
        for model, cells in matrix.items()
        if any(row.state != PASSED or row.changes for row in cells.values())
    }
    chosen = notable if len(matrix) > _MOST_MODELS else matrix
    shown = dict(list(chosen.items())[:_MOST_MODELS])
    labels = [label for label in outcome.labels if any(label in cells for cells in shown.values())]
    columns = [
        Column(label, [_word(cells.get(label)) for cells in shown.values()]) for label in labels
    ]
    names = Column("", [one_line(model) for model in shown])
    failed = [
        any(row.failed and not row.known for row in cells.values()) for cells in shown.values()
    ]
    if shown:
        narrow = width if width is None or _fits(columns, width) else None
        for line, _ in drawn("model", names, columns, failed, narrow):
            yield line
    rest = len(matrix) - len(shown)
    if rest:
        passed = "" if len(notable) > len(shown) else ", all of whose cells passed"
        yield f"  {counted(rest, 'more model')}{passed}"


def _fits(columns: list[Column], width: int) -> bool:
    """Return whether all columns fit a terminal, which a matrix does not do without."""
    return sum(column.width + 2 for column in columns) + 30 <= width


def _word(row: Row | None) -> str:
    if row is None:
        return ""
    word = _WORDS.get(row.state, row.state)
    return f"({word})" if row.known else word


def _group(group: Group) -> Iterator[str]:
    count = counted(len(group.cells), "cell")
    yield from wrapped(f"{count}: {one_line(group.cause)}", 4)
    names = ", ".join(map(one_line, group.cells[:_MOST_CELLS]))
    more = len(group.cells) - _MOST_CELLS
    yield from wrapped(f"    {names}{f' and {more} more' if more > 0 else ''}", 4)
    if group.remedy:
        yield f"    {'FIX' if group.proven else 'TRY'} {one_line(group.remedy)}"
