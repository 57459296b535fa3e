"""A sentence that explains why one run takes longer than another."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from attrs import evolve, frozen

from polygraphy.domain.profiling.execution import ExecutionProfile, ModelNodes
from polygraphy.domain.profiling.table import (
    INSERTED,
    NODES,
    OUTSIDE,
    UNKNOWN,
    ProfileTable,
    Side,
    TimeRow,
    profile_table,
    time_text,
)
from polygraphy.domain.tensors.naming import count_text, join_words

_ENOUGH = 0.8
"""Share of the difference that is explained before the sentence ends. Chosen, not measured."""
_MOST_CAUSES = 3
_NOTABLE = 0.2
"""Share of the difference above which a cause in the other direction is named, and below which
causes explain nothing. Chosen, not measured."""
_UNCLEAR = 0.1
"""Share of a run above which a difference within the spread means that the runs vary too much.
Chosen, not measured."""
_OP_COUNT = 3
_SIGMAS = 3.0
_ERROR_OF_MEDIAN = 1.86
"""Standard error of the median of normal values, by their median distance from it: 1.48 x 1.25."""


@frozen
class Cause:
    """Rows that explain a part of the difference.

    Attributes:
        kind: the kind of the rows.
        text: the facts about them.
        microseconds: the additional time of the second run because of them; less than 0 if it takes
            less time.
        rows: their number.
    """

    kind: str
    text: str
    microseconds: float
    rows: int = 1


def compare_profiles(
    profiles: Sequence[ExecutionProfile], model: ModelNodes | None = None
) -> ProfileTable:
    """Return the table of profiles, with the causes of the difference between the first and the
    last.
    """
    table = profile_table(profiles, model)
    return evolve(table, sentence=explain_difference(table)) if len(profiles) > 1 else table


def explain_difference(table: ProfileTable) -> str:
    """Return the sentence on how the times of the first and the last profile of a table differ, and
    why."""
    first, last = table.sides[0], table.sides[-1]
    first_name, last_name = (
        (first.runner, last.runner) if first.runner != last.runner else ("A", "B")
    )
    times, measured = (first.time, last.time), (first.profiled, last.profiled)
    limit, condition = _uncertainty(first, last), ""
    by_nodes = first.is_disturbed or last.is_disturbed or _lacks_outside_time(table)
    if by_nodes:
        times = measured = (_node_time(table, 0), _node_time(table, -1))
        limit, condition = _uncertainty_of_rows(table), " by the time of its nodes"
    elif (first.microseconds is None) != (last.microseconds is None):
        times = measured
        limit, condition = _uncertainty_of_rows(table), " by the sum of its parts"
    difference, explained = times[1] - times[0], measured[1] - measured[0]
    if abs(difference) <= limit and abs(difference) > _UNCLEAR * min(times):
        return (
            f"The runs of {first_name} and {last_name} vary too much for a comparison: the"
            " difference of"
            f" {time_text(abs(difference))} is within their spread."
        )
    if abs(difference) <= limit or not all(times):
        return (
            f"{first_name} and {last_name} take equally long: the difference of"
            f" {time_text(abs(difference))} is"
            " within the spread of the runs."
        )
    is_slower = difference > 0
    ratio = times[1] / times[0] if is_slower else times[0] / times[1]
    speed = "slow" if is_slower else "fast"
    start = f"{last_name} is {ratio:.2f} times as {speed} as {first_name}{condition}"
    causes = [cause for cause in find_causes(table) if not (by_nodes and cause.kind == OUTSIDE)]
    sign = 1 if is_slower else -1
    similar_causes = sorted(
        (cause for cause in causes if cause.microseconds * sign > 0),
        key=lambda cause: -abs(cause.microseconds),
    )
    against = [cause for cause in causes if cause.microseconds * sign < 0]
    total = sum(abs(cause.microseconds) for cause in similar_causes)
    if sign * explained <= 0:
        return f"{start}, but not while its nodes are measured, so no node explains the difference."
    if total < _NOTABLE * abs(explained):
        return f"{start}, but the times of nodes vary too much to explain the difference."
    chosen: list[Cause] = []
    for cause in similar_causes:
        if len(chosen) == _MOST_CAUSES or sum(abs(c.microseconds) for c in chosen) >= (
            _ENOUGH * total
        ):
            break
        chosen.append(cause)
    word = "more" if is_slower else "less"
    parts = [
        f"{cause.text} {_verb(cause)} {time_text(abs(cause.microseconds))} {word}"
        for cause in chosen
    ]
    if chosen[0].kind == INSERTED and is_slower and measured[1]:
        share = abs(chosen[0].microseconds) / measured[1]
        parts[0] += f" ({share:.0%} of the run)"
    sentence = f"{start}: {join_words(parts)}"
    worst = max(against, key=lambda cause: abs(cause.microseconds), default=None)
    if worst is not None and abs(worst.microseconds) > _NOTABLE * abs(explained):
        opposite = "less" if is_slower else "more"
        sentence += f"; {worst.text} {_verb(worst)} {time_text(abs(worst.microseconds))} {opposite}"
    return f"{sentence}."


def _lacks_outside_time(table: ProfileTable) -> bool:
    """Return whether only one profile has the time outside nodes."""
    outside = [row for row in table.rows if row.kind == OUTSIDE]
    return any(
        (row.cells[0].microseconds is None) != (row.cells[-1].microseconds is None)
        for row in outside
    )


def _node_time(table: ProfileTable, at: int) -> float:
    """Return the time of all nodes in a profile, which other programs disturb least."""
    return sum(row.cells[at].time for row in table.rows if row.kind != OUTSIDE)


def _uncertainty(first: Side, last: Side) -> float:
    """Return three standard errors of the difference of two medians, by the spread of the runs."""
    squares = sum(side.spread**2 / max(side.runs, 1) for side in (first, last))
    return _SIGMAS * _ERROR_OF_MEDIAN * sqrt(squares)


def _uncertainty_of_rows(table: ProfileTable) -> float:
    """Return three standard errors of the difference, by the spread of the rows of nodes."""
    squares = 0.0
    for at in (0, -1):
        runs = max(table.sides[at].runs, 1)
        rows = [row.cells[at].spread for row in table.rows if row.kind != OUTSIDE]
        squares += sum(value**2 for value in rows) / runs
    return _SIGMAS * _ERROR_OF_MEDIAN * sqrt(squares)


def _verb(cause: Cause) -> str:
    """Return the verb for the number of rows of a cause."""
    return "takes" if cause.rows == 1 else "take"


def find_causes(table: ProfileTable) -> list[Cause]:
    """Return the causes of the difference: inserted nodes, time outside nodes, and rows.
    Rows with the same operators in both profiles are merged."""
    causes = []
    kinds: dict[tuple[frozenset[str], frozenset[str]], list[TimeRow]] = {}
    for row in table.rows:
        if row.kind == INSERTED:
            causes.append(_explain_insertion(row))
        elif row.kind == UNKNOWN:
            causes.append(Cause(UNKNOWN, "nodes with unknown names", row.difference, 2))
        elif row.kind == OUTSIDE:
            causes.append(Cause(OUTSIDE, "the time outside nodes", row.difference))
        elif row.is_significant:
            key = frozenset(row.cells[0].executed), frozenset(row.cells[-1].executed)
            kinds.setdefault(key, []).append(row)
    for rows in kinds.values():
        before, after = _operators(rows[0], 0), _operators(rows[0], -1)
        difference = sum(row.difference for row in rows)
        causes.append(Cause(NODES, _rows_in_words(rows, before, after), difference, len(rows)))
    return causes


def _explain_insertion(row: TimeRow) -> Cause:
    """Return the cause of a difference: nodes that the backend inserted."""
    cell = max(row.cells[0], row.cells[-1], key=lambda cell: cell.time)
    ops = sorted(set(cell.executed), key=cell.executed.count, reverse=True)
    words = [count_text(cell.executed.count(op), f"inserted {op} node") for op in ops[:_OP_COUNT]]
    return Cause(
        INSERTED, join_words(words) or "inserted nodes", row.difference, len(cell.executed)
    )


def _operators(row: TimeRow, side: int) -> str:
    """Return the executed operators of a row, each once; empty if it ran none."""
    return ", ".join(dict.fromkeys(row.cells[side].executed))


def _rows_in_words(rows: Sequence[TimeRow], before: str, after: str) -> str:
    """Return rows as words of a sentence."""
    if len(rows) == 1:
        label = rows[0].label
    else:
        label = f"{len(rows)} rows such as {max(rows, key=lambda row: abs(row.difference)).label}"
    if before == after or not (before and after):
        return label
    return f"{label} ({before} in the first run, {after} in the second)"
