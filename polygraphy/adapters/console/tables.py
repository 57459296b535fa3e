"""Tables of outputs: a row per output over all iterations, for lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING

from polygraphy.adapters.console.columns import Column, drawn
from polygraphy.adapters.console.numbers import format_distinct, format_number
from polygraphy.domain.accuracy.output_rows import OutputRow, largest_jump
from polygraphy.domain.accuracy.words import badness
from polygraphy.domain.compare.metric import MetricThreshold
from polygraphy.domain.limits.tolerance import Tolerance
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger.severity import ERROR, ULTRA_VERBOSE

if TYPE_CHECKING:
    from polygraphy.domain.report.document import Comparison
    from polygraphy.logger.sinks import Line

MOST_ROWS = 20
"""Rows of a table that is shown whole."""
_AROUND = 3
"""Rows that are shown before and after the one where errors jump."""
_WORST = 5
_WIDE = 100
"""Columns where there is no terminal."""
_DIFFERENCES = frozenset({"simple", ""})
_TOLERANCE = "tolerance"


def table_lines(each: Comparison, *, width: int | None, whole: str) -> list[Line]:
    """Return the lines of a table, and how severe each is.

    Args:
        each: what was compared with what, and the rows.
        width: the columns of the terminal; None for as many as it takes.
        whole: says where all rows are, if not all of them are shown.
    """
    rows = [row for row in each.outputs if not row.worst.is_missing]
    shown = _shown(rows)
    chosen = [rows[at] for at in shown]
    columns, title = _result_columns(chosen), each.title
    if each.is_of_layers:
        limits = {limit_words(row) for row in rows}
        if len(limits) == 1:
            title = f"{title}: {limits.pop()}"
            columns = [column for column in columns if column.title != _TOLERANCE]
        ops = [one_line(row.node.op) if row.node else "" for row in chosen]
        columns.insert(0, Column("op", ops, rank=1))
        origins = [str(row.node.origin or "") if row.node else "" for row in chosen]
        columns.append(Column("from", origins, rank=5))
    is_cut = len(shown) < len(rows)
    if is_cut:
        columns.insert(0, Column("#", [str(at + 1) for at in shown], is_number=True))
    names = Column("", [one_line(row.name) for row in chosen])
    lines = drawn(title, names, columns, [not row.passed for row in chosen], width)
    if is_cut:
        lines = _with_gaps(lines, shown, len(rows))
    for row in chosen:
        if row.worst.reason:
            text = f"      {one_line(row.name)} was not compared: {one_line(row.worst.reason)}"
            lines.append((text, ERROR))
    if len(rows) < len(each.outputs):
        missing = [one_line(row.name) for row in each.outputs if row.worst.is_missing]
        lines += _missing_lines(missing, width)
    if is_cut:
        lines.append((f"  All {len(rows)} rows: {whole}", ULTRA_VERBOSE))
    return lines


def _with_gaps(lines: Sequence[Line], shown: Sequence[int], total: int) -> list[Line]:
    """Return the lines of a table, with a line for each gap between rows, and before and after."""
    head, rows = lines[: len(lines) - len(shown)], lines[len(lines) - len(shown) :]
    marked = [*head]
    for before, at, row in zip([-1, *shown], shown, rows):
        if at > before + 1:
            marked.append(("  ...", ULTRA_VERBOSE))
        marked.append(row)
    return [*marked, ("  ...", ULTRA_VERBOSE)] if shown[-1] < total - 1 else marked


def _missing_lines(names: Sequence[str], width: int | None) -> list[Line]:
    """Name the outputs that only one side has, as many as fit a line."""
    text = f"x only one side has {len(names)} more: "
    for at, name in enumerate(names):
        after = f"{name}, " if at + 1 < len(names) else name
        if len(text) + len(after) + len("...") > (width or _WIDE):
            text += "..."
            break
        text += after
    return [(text, ERROR)]


def _shown(rows: Sequence[OutputRow]) -> list[int]:
    """Return the positions of the rows that are shown: all, or the first that fails, those around
    the one where errors jump, and the worst ones.
    """
    if len(rows) <= MOST_ROWS:
        return list(range(len(rows)))
    first = next((at for at, row in enumerate(rows) if not row.passed), None)
    failing = [at for at, row in enumerate(rows) if not row.passed] or range(len(rows))
    chosen = set(sorted(failing, key=lambda at: badness(rows[at]), reverse=True)[:_WORST])
    if first is not None:
        jump = largest_jump(rows)
        centre = first if jump is None else jump
        chosen |= {first, *range(max(0, centre - _AROUND), min(centre + _AROUND + 1, len(rows)))}
    return sorted(chosen)


def _result_columns(rows: Sequence[OutputRow]) -> list[Column]:
    """Return the columns about what was found."""
    numbers = [
        Column("max abs", [short(row.absolute) for row in rows], is_number=True),
        Column("max rel", [short(row.relative) for row in rows], is_number=True),
    ]
    others = [row.metric for row in rows if row.metric not in _DIFFERENCES]
    if others:
        values = ["" if row.value is None else format_number(row.value) for row in rows]
        numbers = [Column(others[0], values, is_number=True)]
    limits = [limit_words(row) for row in rows]
    said = [limit if limit != last else "" for limit, last in zip(limits, ["", *limits])]
    return [
        Column("shape", [_shape(row) for row in rows], rank=4),
        *numbers,
        Column(_TOLERANCE, said, rank=3),
        Column("passed", [f"{row.matched}/{row.total}" for row in rows], is_number=True),
        Column("", [_remark(row) if row.passed else count_words(row) for row in rows], rank=2),
    ]


def _shape(row: OutputRow) -> str:
    return "" if row.shape is None else str(list(row.shape)).replace(" ", "")


def short(number: float | None) -> str:
    """Return a difference with two digits."""
    if number is None:
        return "-"
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "inf"
    return "0" if number == 0 else f"{number:.1e}"


def limit_words(row: OutputRow) -> str:
    """Return what an output is held to."""
    limit = row.limit
    if isinstance(limit, Tolerance):
        atol, rtol = f"{limit.atol:g}", f"{limit.rtol:g}"
        words = f"{atol} abs or rel" if atol == rtol else f"abs {atol} or rel {rtol}"
        checked = (
            "" if limit.check_error_stat == ("elemwise",) else "+".join(limit.check_error_stat)
        )
        return f"{words} ({checked})" if checked else words
    if isinstance(limit, MetricThreshold):
        least = "at most" if limit.metric.lower_is_better else "at least"
        text = format_number(limit.threshold)
        if row.value is not None:
            text = format_distinct(row.value, limit.threshold)[1]
        return f"{least} {text}{limit.metric.unit}"
    return ""


def _remark(row: OutputRow) -> str:
    """Return what is to be known about an output that passed."""
    return ", ".join(filter(None, (_criterion(row), row.uniform[0] or row.uniform[1])))


def _criterion(row: OutputRow) -> str:
    """Return which of two tolerances an output passes by, where it is not both."""
    if not row.passed or row.metric != "simple" or len(row.kept) == 2:
        return ""
    kept = "".join(row.kept)
    return f"by {kept}" if kept else "by abs or rel"


def count_words(row: OutputRow) -> str:
    """Return how many elements are to blame."""
    worst = row.worst
    if worst.non_finite is not None and any(map(any, worst.non_finite)):
        (nan0, inf0), (nan1, inf1) = worst.non_finite
        for what, one, other in (("NaN", nan0, nan1), ("inf", inf0, inf1)):
            if one or other:
                return f"{what} {one} vs. {other}" if one and other else f"{what} {one or other}"
    return "" if worst.mismatched is None else f"{worst.mismatched} of {worst.size}"
