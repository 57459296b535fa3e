"""What explains that one run takes longer than another, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from polygraphy.domain.profiling.execution import ExecutionProfile, ModelNodes
from polygraphy.domain.profiling.table import (
    INSERTED,
    NODES,
    OUTSIDE,
    ProfileTable,
    TimeRow,
    profile_table,
)
from polygraphy.domain.tensors.naming import count_text, join_words

_ENOUGH = 0.8
"""Share of the difference that is explained before the sentence ends."""
_MOST_CAUSES = 3
_NOTABLE = 0.2
"""Share of the difference above which a cause in the other direction is named."""
_OP_COUNT = 3


@frozen
class Cause:
    """Rows that explain a part of the difference.

    Attributes:
        kind: that of the rows.
        text: what they are.
        microseconds: how much longer the second run takes because of them; less than 0 if it takes
            less time.
        rows: how many they are.
    """

    kind: str
    text: str
    microseconds: float
    rows: int = 1


def compare_profiles(
    profiles: Sequence[ExecutionProfile], model: ModelNodes | None = None
) -> ProfileTable:
    """Put profiles side by side, and explain the difference of the first and the last one; see
    `profile_table`.
    """
    table = profile_table(profiles, model)
    return evolve(table, sentence=explain_difference(table)) if len(profiles) > 1 else table


def explain_difference(table: ProfileTable) -> str:
    """Return the sentence about the first and the last profile of a table."""
    first, last = table.sides[0], table.sides[-1]
    one, two = (first.runner, last.runner) if first.runner != last.runner else ("A", "B")
    difference = last.time - first.time
    if abs(difference) <= 3 * (first.spread + last.spread) or not first.time or not last.time:
        return (
            f"{one} and {two} take equally long: the difference of {time_text(abs(difference))} is"
            " within the spread of the runs."
        )
    is_slower = difference > 0
    ratio = last.time / first.time if is_slower else first.time / last.time
    start = f"{two} is {ratio:.2f} times as {'slow' if is_slower else 'fast'} as {one}"
    causes = find_causes(table)
    sign = 1 if is_slower else -1
    same = sorted(
        (each for each in causes if each.microseconds * sign > 0),
        key=lambda each: -abs(each.microseconds),
    )
    against = [each for each in causes if each.microseconds * sign < 0]
    total = sum(abs(each.microseconds) for each in same)
    if not same or sign * (last.profiled - first.profiled) <= 0:
        return f"{start}, but not while it is measured node by node: no node explains it."
    chosen: list[Cause] = []
    for each in same:
        if len(chosen) == _MOST_CAUSES or sum(abs(c.microseconds) for c in chosen) >= (
            _ENOUGH * total
        ):
            break
        chosen.append(each)
    word = "more" if is_slower else "less"
    parts = [
        f"{each.text} {_verb(each)} {time_text(abs(each.microseconds))} {word}" for each in chosen
    ]
    if chosen[0].kind == INSERTED and is_slower and last.profiled:
        share = abs(chosen[0].microseconds) / last.profiled
        parts[0] += f" ({share:.0%} of the run)"
    sentence = f"{start}: {join_words(parts)}"
    worst = max(against, key=lambda each: abs(each.microseconds), default=None)
    if worst is not None and abs(worst.microseconds) > _NOTABLE * abs(
        last.profiled - first.profiled
    ):
        opposite = "less" if is_slower else "more"
        sentence += f"; {worst.text} {_verb(worst)} {time_text(abs(worst.microseconds))} {opposite}"
    return f"{sentence}."


def _verb(cause: Cause) -> str:
    return "takes" if cause.rows == 1 else "take"


def find_causes(table: ProfileTable) -> list[Cause]:
    """Return what the difference consists of: inserted nodes, time outside of nodes, and rows, put
    together if the same operators ran as the same others.
    """
    causes = []
    kinds: dict[tuple[str, str], list[TimeRow]] = {}
    for row in table.rows:
        if row.kind == INSERTED:
            causes.append(_inserted_cause(row))
        elif row.kind == OUTSIDE:
            causes.append(Cause(OUTSIDE, "the time outside nodes", row.difference))
        elif row.is_significant:
            kinds.setdefault((_main_op(row, 0), _main_op(row, -1)), []).append(row)
    for (before, after), rows in kinds.items():
        difference = sum(row.difference for row in rows)
        causes.append(Cause(NODES, _rows_in_words(rows, before, after), difference, len(rows)))
    return causes


def _inserted_cause(row: TimeRow) -> Cause:
    cell = max(row.cells[0], row.cells[-1], key=lambda each: each.time)
    ops = sorted(set(cell.executed), key=cell.executed.count, reverse=True)
    words = [count_text(cell.executed.count(op), f"inserted {op}") for op in ops[:_OP_COUNT]]
    return Cause(
        INSERTED, join_words(words) or "inserted nodes", row.difference, len(cell.executed)
    )


def _main_op(row: TimeRow, side: int) -> str:
    """Return the executed operators of a row, each once; empty if it ran none."""
    return "+".join(dict.fromkeys(row.cells[side].executed))


def _rows_in_words(rows: Sequence[TimeRow], before: str, after: str) -> str:
    if len(rows) == 1:
        what = rows[0].label
    else:
        what = f"{len(rows)} rows such as {max(rows, key=lambda row: abs(row.difference)).label}"
    if before == after or not (before and after):
        return what
    return f"{what} ({before} in the first run, {after} in the second)"


def time_text(microseconds: float) -> str:
    """Return a time in words, with three digits: ``12.3 us``, ``1.23 ms``."""
    for unit, size in (("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        value = microseconds / size
        if abs(value) < 999.5 or unit == "s":
            return f"{value:.0f} {unit}" if abs(value) >= 99.95 else f"{value:.3g} {unit}"
    raise AssertionError
