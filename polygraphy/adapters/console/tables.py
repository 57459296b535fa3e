"""Tables of outputs: a row per output over all iterations, for lines of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isinf, isnan
from typing import TYPE_CHECKING

from polygraphy.adapters.console.columns import Column, drawn
from polygraphy.adapters.console.numbers import format_distinct, format_number
from polygraphy.domain.accuracy.output_rows import OutputRow, OutputRows, largest_jump
from polygraphy.domain.compare.metric import MetricThreshold
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.limits.tolerance import Tolerance
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER
from polygraphy.logger.severity import ERROR, ULTRA_VERBOSE
from polygraphy.ports.binding import resolve
from polygraphy.ports.storage import TextFiles

if TYPE_CHECKING:
    from polygraphy.domain.model import Node
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


def table_lines(
    title: str,
    table: OutputRows,
    *,
    width: int | None,
    whole: str,
    makers: Mapping[str, Node] | None = None,
) -> list[Line]:
    """Return the lines of a table, and how severe each is.

    Args:
        title: what was compared with what.
        table: the rows.
        width: the columns of the terminal; None for as many as it takes.
        whole: says where all rows are, if not all of them are shown.
        makers: the nodes that make the outputs, if these are to be named.
    """
    every = table.rows()
    rows = [row for row in every if not row.worst.is_missing]
    shown = _shown(rows)
    chosen = [rows[at] for at in shown]
    columns = _result_columns(chosen)
    if makers:
        limits = {limit_words(row) for row in rows}
        if len(limits) == 1:
            title = f"{title}: {limits.pop()}"
            columns = [column for column in columns if column.title != _TOLERANCE]
        nodes = [makers.get(row.name) for row in chosen]
        columns.insert(0, Column("op", [one_line(node.op) if node else "" for node in nodes],
                                  rank=1))  # fmt: skip
        origins = [str(node.origin or "") if node else "" for node in nodes]
        columns.append(Column("from", origins, rank=5))
    names = Column("", [one_line(row.name) for row in chosen])
    if len(shown) < len(rows):
        names = Column("", [f"{at + 1:{len(str(len(rows)))}} {name}"
                             for at, name in zip(shown, names.cells)])  # fmt: skip
    lines = drawn(title, names, columns, [not row.passed for row in chosen], width)
    for row in chosen:
        if row.worst.reason:
            text = f"      {one_line(row.name)} was not compared: {one_line(row.worst.reason)}"
            lines.append((text, ERROR))
    if len(rows) < len(every):
        missing = [one_line(row.name) for row in every if row.worst.is_missing]
        lines += _missing_lines(missing, width)
    if len(shown) < len(rows):
        lines.append((f"  {whole}", ULTRA_VERBOSE))
    return lines


def whole_text(title: str, table: OutputRows, makers: Mapping[str, Node]) -> str:
    """Return all rows of a table, for a file: in full, and with the nodes that make the outputs."""
    rows = table.rows()
    nodes = [makers.get(row.name) for row in rows]
    sides = [next((side for side in row.tensors if side is not None), None) for row in rows]
    columns = [
        Column("output", [one_line(row.name) for row in rows]),
        Column("op", [one_line(node.op) if node else "" for node in nodes]),
        Column("node", [one_line(node.label) if node else "" for node in nodes]),
        Column("dtype", [side.dtype if side else "" for side in sides]),
        *_result_columns(rows, repeats=True),
        Column("from", [str(node.origin or "") if node else "" for node in nodes]),
        Column("not compared", [one_line(row.worst.reason) for row in rows]),
    ]
    number = Column("", [str(at + 1) for at in range(len(rows))], is_number=True)
    lines = drawn(title, number, columns, [not row.passed for row in rows], None)
    return "".join(f"{text}\n" for text, _ in lines)


def whole_words(
    title: str,
    table: OutputRows,
    makers: Mapping[str, Node],
    path: str | None = None,
    *,
    saves: bool = False,
) -> str:
    """Say where all rows of a table are, of which some are not shown.

    Args:
        title: what was compared with what.
        table: the rows.
        makers: the nodes that make the outputs.
        path: a file that holds them besides the log file; None for none.
        saves: whether they are saved if they are nowhere else.
    """
    path = path or G_LOGGER.log_file
    if path is None and saves and len(table) > MOST_ROWS:
        path = saved_whole(title, table, makers)
    return f"All {len(table)} rows: {path or 'add --log-file PATH, or -v'}"


def saved_whole(title: str, table: OutputRows, makers: Mapping[str, Node]) -> str | None:
    """Save all rows of a table among temporary files; return the path, None where that fails."""
    import os
    from tempfile import mkstemp

    try:
        handle, path = mkstemp(prefix="polygraphy-outputs-", suffix=".txt")
        os.close(handle)
        resolve(TextFiles).write(path, whole_text(title, table, makers))
    except (OSError, PolygraphyException):  # What is known is on the screen.
        return None
    return path


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
    by_badness = sorted(range(len(rows)), key=lambda at: badness(rows[at]), reverse=True)
    chosen = set(by_badness[:_WORST])
    if first is not None:
        jump = largest_jump(rows)
        centre = first if jump is None else jump
        chosen |= {first, *range(max(0, centre - _AROUND), min(centre + _AROUND + 1, len(rows)))}
    return sorted(chosen)


def badness(row: OutputRow) -> tuple[bool, float]:
    """Order rows: what failed first, then by how much of the tolerance they need."""
    excess = row.worst.excess
    return not row.passed, (0.0 if row.passed else inf) if excess is None else excess


def _result_columns(rows: Sequence[OutputRow], *, repeats: bool = False) -> list[Column]:
    """Return the columns about what was found; `repeats` says whether a limit is written again
    where it is that of the row above.
    """
    numbers = [
        Column("max abs", [short(row.absolute) for row in rows], is_number=True),
        Column("max rel", [short(row.relative) for row in rows], is_number=True),
    ]
    others = [row.metric for row in rows if row.metric not in _DIFFERENCES]
    if others:
        values = ["" if row.value is None else format_number(row.value) for row in rows]
        numbers = [Column(others[0], values, is_number=True)]
    limits = [limit_words(row) for row in rows]
    said = [limit if repeats or limit != last else "" for limit, last in zip(limits, ["", *limits])]
    return [
        Column("shape", [_shape(row) for row in rows], rank=4),
        *numbers,
        Column(_TOLERANCE, said, rank=3),
        Column("passed", [f"{row.matched}/{row.total}" for row in rows], is_number=True),
        Column("", [_criterion(row) if row.passed else count_words(row) for row in rows], rank=2),
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
