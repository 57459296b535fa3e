"""Tables of outputs: a row per output over all iterations, for lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf, isnan
from typing import TYPE_CHECKING

from polygraphy.adapters.console.numbers import apart, brief
from polygraphy.domain.accuracy.output_rows import OutputRow, OutputRows
from polygraphy.domain.compare.metric import MetricThreshold
from polygraphy.domain.limits.tolerance import Tolerance
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger.severity import ERROR, INFO, ULTRA_VERBOSE

if TYPE_CHECKING:
    from polygraphy.logger.sinks import Line

MOST_ROWS = 20
"""Rows of a table that is shown whole."""
_AROUND = 3
"""Rows that are shown before and after the first output that fails."""
_WORST = 5
_LEAST_NAME = 12
_WIDE = 100
"""Columns where there is no terminal."""
_GAP = "  "
_NUMBERS = (2, 3, 5)


def table_lines(title: str, table: OutputRows, *, width: int | None, whole: str) -> list[Line]:
    """Return the lines of a table, and how severe each is.

    Args:
        title: what was compared with what.
        table: the rows.
        width: the columns of the terminal; None for as many as it takes.
        whole: says where all rows are, if not all of them are shown.
    """
    every = table.rows()
    rows = [row for row in every if not row.worst.is_missing]
    shown = _shown(rows)
    titles, cells = _cells(rows, shown)
    widths = [max(map(len, column)) for column in zip(titles, *cells)]
    others = sum(widths[1:]) + len(_GAP) * len(titles)
    room = max(widths[0], len(title)) if width is None else max(width - others, _LEAST_NAME)
    widths[0] = min(max(widths[0], len(title) - len(_GAP)), room)
    is_long = len(title) > widths[0] + len(_GAP)
    lines = [(title, INFO)] if is_long else []
    head = _line("", ["" if is_long else title, *titles[1:]], [widths[0] + len(_GAP), *widths[1:]])
    lines.append((head, INFO))
    for place, row_cells in zip(shown, cells):
        if place is None:
            lines.append(("  ...", ULTRA_VERBOSE))
            continue
        row = rows[place]
        severity = INFO if row.passed else ERROR
        lines.append((_line("  " if row.passed else "x ", row_cells, widths), severity))
        if row.worst.reason:
            lines.append((f"      not compared: {one_line(row.worst.reason)}", ERROR))
    if len(rows) < len(every):
        missing = [one_line(row.name) for row in every if row.worst.is_missing]
        lines += _missing_lines(missing, width)
    if len(shown) < len(rows):
        lines.append((f"  {whole}", ULTRA_VERBOSE))
    return lines


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


def _shown(rows: Sequence[OutputRow]) -> list[int | None]:
    """Return the positions of the rows that are shown: all, or those around the first that fails
    and the worst ones; None stands for rows in between that are not.
    """
    if len(rows) <= MOST_ROWS:
        return list(range(len(rows)))
    first = next((at for at, row in enumerate(rows) if not row.passed), None)
    near = range(0) if first is None else range(max(0, first - _AROUND), first + _AROUND + 1)
    by_badness = sorted(range(len(rows)), key=lambda at: badness(rows[at]), reverse=True)
    chosen = {at for at in near if at < len(rows)} | set(by_badness[:_WORST])
    shown: list[int | None] = []
    last = -1
    for at in sorted(chosen):
        if at != last + 1:
            shown.append(None)
        shown.append(at)
        last = at
    if last != len(rows) - 1:
        shown.append(None)
    return shown


def badness(row: OutputRow) -> tuple[bool, float]:
    """Order rows: what failed first, then by how much of the tolerance they need."""
    excess = row.worst.excess
    return not row.passed, (0.0 if row.passed else inf) if excess is None else excess


def _cells(
    rows: Sequence[OutputRow], shown: Sequence[int | None]
) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and the cells of each row."""
    chosen = [rows[at] for at in shown if at is not None]
    by_differences = all(row.metric in {"simple", ""} for row in chosen)
    titles = ["", "shape", "max abs", "max rel", "tolerance", "passed", ""]
    if not by_differences:
        titles[2:4] = [next(row.metric for row in chosen if row.metric not in {"simple", ""}), ""]
    cells = []
    last = ""
    for at in shown:
        if at is None:
            cells.append([""] * len(titles))
            continue
        row = rows[at]
        numbers = [short(row.absolute), short(row.relative)]
        if row.metric not in {"simple", ""}:
            numbers = ["" if row.value is None else brief(row.value), ""]
        limit = limit_words(row)
        cells.append(
            [
                one_line(row.name),
                _shape(row),
                *numbers,
                "" if limit == last else limit,
                f"{row.matched}/{row.total}",
                _criterion(row) if row.passed else count_words(row),
            ]
        )
        last = limit
    return titles, cells


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
    """Say what an output is held to."""
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
        text = brief(limit.threshold)
        if row.value is not None:
            text = apart(row.value, limit.threshold)[1]
        return f"{least} {text}{limit.metric.unit}"
    return ""


def _criterion(row: OutputRow) -> str:
    """Say which of two tolerances an output passes by, where it is not both."""
    if not row.passed or row.metric != "simple" or len(row.kept) == 2:
        return ""
    kept = "".join(row.kept)
    return f"by {kept}" if kept else "by abs or rel"


def count_words(row: OutputRow) -> str:
    """Say how many elements are to blame."""
    worst = row.worst
    if worst.non_finite is not None and any(map(any, worst.non_finite)):
        (nan0, inf0), (nan1, inf1) = worst.non_finite
        for what, one, other in (("NaN", nan0, nan1), ("inf", inf0, inf1)):
            if one or other:
                return f"{what} {one} vs. {other}" if one and other else f"{what} {one or other}"
    return "" if worst.mismatched is None else f"{worst.mismatched} of {worst.size}"


def _line(mark: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = []
    for at, (cell, width) in enumerate(zip(cells, widths)):
        fitted = cell if len(cell) <= width else _cut(cell, width)
        texts.append(f"{fitted:>{width}}" if at in _NUMBERS else f"{fitted:{width}}")
    return (mark + _GAP.join(texts)).rstrip()


def _cut(text: str, width: int) -> str:
    """Return the two ends of a name that is too long: what tells layers apart is at the end."""
    head = (width - 2) // 3
    return f"{text[:head]}..{text[len(text) - (width - 2 - head):]}"
