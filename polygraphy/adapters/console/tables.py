"""Tables of outputs: a row per output over all iterations, for lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from attrs import frozen

from polygraphy.adapters.console.numbers import format_number
from polygraphy.adapters.console.screen import wrap_text
from polygraphy.domain.accuracy.output_rows import OutputRow, brief_pair, largest_jump, row_sort_key
from polygraphy.domain.compare.metric import MetricThreshold
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.report.summary import sample_sentences
from polygraphy.domain.tensors.naming import count_text, one_line
from polygraphy.logger.severity import ERROR, INFO, ULTRA_VERBOSE

if TYPE_CHECKING:
    from polygraphy.domain.accuracy.output_rows import Comparison
    from polygraphy.logger.sinks import Line


_LEAST_NAME = 12
_USUAL_NAME = 28
"""Columns of a name for which a narrow terminal does without other cells."""
_GAP = "  "
_CUT = ".."


@frozen
class Column:
    """A column of a table: its title and cells.

    Attributes:
        title: above it.
        cells: of each row.
        is_number: whether they are aligned on the right.
        rank: a narrow terminal does without the columns of the highest rank first, and never
            without those of rank 0.
    """

    title: str
    cells: Sequence[str]
    is_number: bool = False
    rank: int = 0

    @property
    def width(self) -> int:
        """Return the width of the widest cell."""
        return max(map(columns_of, (self.title, *self.cells)))

    def pad_cell(self, text: str, width: int) -> str:
        """Return a cell, or the title, padded to the width of the column."""
        text = text if columns_of(text) <= width else _cut(text, width)
        padding = " " * (width - columns_of(text))
        return padding + text if self.is_number else text + padding


def draw_table(
    title: str,
    names: Column,
    columns: Sequence[Column],
    failed: Sequence[bool],
    width: int | None,
) -> list[Line]:
    """Return the lines of a table with their severities: a head, and a line for each row.

    Args:
        title: stands above the names.
        names: the first column, which is cut where a terminal is too narrow.
        columns: the other ones.
        failed: of each row, whether it is marked.
        width: the columns of the terminal; None for as many as it takes.
    """
    columns = [column for column in columns if any(column.cells)]
    while width is not None and (rank := max((column.rank for column in columns), default=0)):
        if min(names.width, _USUAL_NAME) + _columns_width(columns) <= width:
            break
        columns = [column for column in columns if column.rank < rank]
    room = max(names.width, len(title))
    if width is not None:
        room = max(width - _columns_width(columns), min(names.width, _LEAST_NAME))
    first = min(max(names.width, columns_of(title) - len(_GAP)), room)
    is_long = columns_of(title) > first + len(_GAP)
    lines = [(title, INFO)] if is_long else []
    head = Column("", []).pad_cell("" if is_long else title, first + len(_GAP))
    widths = [column.width for column in columns]
    titles = [column.pad_cell(column.title, size) for column, size in zip(columns, widths)]
    lines.append((_GAP.join([head, *titles]).rstrip(), INFO))
    for at, is_bad in enumerate(failed):
        mark, severity = ("x ", ERROR) if is_bad else ("  ", INFO)
        cells = [column.pad_cell(column.cells[at], size) for column, size in zip(columns, widths)]
        name = names.pad_cell(names.cells[at], first)
        lines.append((_GAP.join([mark + name, *cells]).rstrip(), severity))
    return lines


def _columns_width(columns: Sequence[Column]) -> int:
    """Return the width of the mark, the columns and their gaps."""
    return len(_GAP) + sum(len(_GAP) + column.width for column in columns)


def columns_of(text: str) -> int:
    """Return the number of terminal columns of a text; many Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(name) else 1 + (east_asian_width(name) in "WF") for name in text)


def _cut(text: str, width: int) -> str:
    """Return both ends of a long name, because names of layers mostly differ at the end."""
    head, tail = "", ""
    room = width - len(_CUT)
    for character in text:
        if columns_of(head + character) > room // 3:
            break
        head += character
    for character in reversed(text):
        if columns_of(head + character + tail) > room:
            break
        tail = character + tail
    return f"{head}{_CUT}{tail}"


MOST_ROWS = 20
"""Rows of a table that is shown whole."""
_AROUND = 3
"""Rows that are shown before and after the row at which errors jump."""
_WORST = 5
_WIDE = 100
"""Columns if there is no terminal."""
_DIFFERENCES = frozenset({"simple", ""})
_TOLERANCE = "tolerance"


def table_lines(comparison: Comparison, *, width: int | None, full_location: str) -> list[Line]:
    """Return the lines of a comparison table with their severities.

    Args:
        comparison: the comparison and its rows.
        width: the columns of the terminal; None for as many as it takes.
        full_location: says where all rows are, if not all of them are shown; empty where they are.
    """
    rows = [row for row in comparison.outputs if not row.worst.is_missing]
    row_indices = _rows_to_show(rows) if full_location else [*range(len(rows))]
    chosen = [rows[at] for at in row_indices]
    columns, title = _result_columns(chosen), comparison.title
    if comparison.is_of_layers:
        limits = {limit_words(row) for row in rows}
        if len(limits) == 1:
            title = f"{title}: {limits.pop()}"
            columns = [column for column in columns if column.title != _TOLERANCE]
        ops = [one_line(row.node.op) if row.node else "" for row in chosen]
        columns.insert(0, Column("op", ops, rank=1))
        origins = [str(row.node.origin or "") if row.node else "" for row in chosen]
        columns.append(Column("from", origins, rank=5))
    is_cut = len(row_indices) < len(rows)
    if is_cut:
        columns.insert(0, Column("#", [str(at + 1) for at in row_indices], is_number=True))
    names = Column("", [one_line(row.name) for row in chosen])
    lines = draw_table(title, names, columns, [not row.passed for row in chosen], width)
    if is_cut:
        lines = _with_gaps(lines, row_indices, len(rows))
    for row in chosen:
        if row.worst.reason:
            text = f"      {one_line(row.name)} was not compared: {one_line(row.worst.reason)}"
            lines.append((text, ERROR))
    if len(rows) < len(comparison.outputs):
        missing = [one_line(row.name) for row in comparison.outputs if row.worst.is_missing]
        lines += _missing_lines(missing, width)
    if is_cut:
        lines.append((f"  All {len(rows)} rows: {full_location}", ULTRA_VERBOSE))
    return lines


def _with_gaps(lines: Sequence[Line], shown_indices: Sequence[int], total: int) -> list[Line]:
    """Return the lines of a table, with a line for each gap between rows, and before and after."""
    head, rows = lines[: len(lines) - len(shown_indices)], lines[len(lines) - len(shown_indices) :]
    marked = [*head]
    for before, at, row in zip([-1, *shown_indices], shown_indices, rows):
        if at > before + 1:
            marked.append(("  ...", ULTRA_VERBOSE))
        marked.append(row)
    return [*marked, ("  ...", ULTRA_VERBOSE)] if shown_indices[-1] < total - 1 else marked


def _missing_lines(names: Sequence[str], width: int | None) -> list[Line]:
    """Return lines that name the outputs of only one side, as many as fit."""
    text = f"x {count_text(len(names), 'output')} only in one run: "
    for at, name in enumerate(names):
        after = f"{name}, " if at + 1 < len(names) else name
        if len(text) + len(after) + len("...") > (width or _WIDE):
            text += "..."
            break
        text += after
    return [(text, ERROR)]


def _rows_to_show(rows: Sequence[OutputRow]) -> list[int]:
    """Return the positions of the rows to show: all, or the most important ones;
    these are the first failure, those around the jump of errors, and the worst ones.
    """
    if len(rows) <= MOST_ROWS:
        return list(range(len(rows)))
    first = next((at for at, row in enumerate(rows) if not row.passed), None)
    failing = [at for at, row in enumerate(rows) if not row.passed] or range(len(rows))
    chosen = set(sorted(failing, key=lambda at: row_sort_key(rows[at]), reverse=True)[:_WORST])
    if first is not None:
        jump = largest_jump(rows)
        center = first if jump is None else jump
        chosen |= {first, *range(max(0, center - _AROUND), min(center + _AROUND + 1, len(rows)))}
    return sorted(chosen)


def _result_columns(rows: Sequence[OutputRow]) -> list[Column]:
    """Return the columns with the results."""
    numbers = [
        Column("max abs", [short_number(row.absolute) for row in rows], is_number=True),
        Column("max rel", [short_number(row.relative) for row in rows], is_number=True),
    ]
    metrics = [row.metric for row in rows if row.metric not in _DIFFERENCES]
    if metrics:
        values = ["" if row.value is None else format_number(row.value) for row in rows]
        numbers = [Column(metrics[0], values, is_number=True)]
    limits = [limit_words(row) for row in rows]
    names = [limit if limit != last else "" for limit, last in zip(limits, ["", *limits])]
    return [
        Column("shape", [_shape(row) for row in rows], rank=4),
        *numbers,
        Column(_TOLERANCE, names, rank=3),
        Column("passed", [f"{row.matched}/{row.total}" for row in rows], is_number=True),
        Column(
            "", [_remark(row) if row.passed else mismatch_count_text(row) for row in rows], rank=2
        ),
    ]


def _shape(row: OutputRow) -> str:
    """Return the shape of a row as text; empty if it is unknown."""
    return "" if row.shape is None else str(list(row.shape)).replace(" ", "")


def short_number(number: float | None) -> str:
    """Return a difference as text with two digits."""
    if number is None:
        return "-"
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "inf"
    return "0" if number == 0 else f"{number:.1e}"


def limit_words(row: OutputRow) -> str:
    """Return the limit of an output as text."""
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
            text = brief_pair(row.value, limit.threshold, 5)[1]
        return f"{least} {text}{limit.metric.unit}"
    return ""


def _remark(row: OutputRow) -> str:
    """Return a remark about an output that passed."""
    return ", ".join(filter(None, (_criterion(row), row.uniform[0] or row.uniform[1])))


def _criterion(row: OutputRow) -> str:
    """Return the name of the tolerance by which an output passes, if only one of two does."""
    if not row.passed or row.metric != "simple" or len(row.kept) == 2:
        return ""
    kept_name = "".join(row.kept)
    return f"by {kept_name}" if kept_name else "by abs or rel"


def mismatch_count_text(row: OutputRow) -> str:
    """Return the number of elements that mismatch, or that are not finite, as text."""
    worst = row.worst
    if worst.non_finite is not None and any(map(any, worst.non_finite)):
        (nan0, inf0), (nan1, inf1) = worst.non_finite
        for problem, first, second in (("NaN", nan0, nan1), ("inf", inf0, inf1)):
            if first or second:
                return (
                    f"{problem} {first} vs. {second}"
                    if first and second
                    else f"{problem} {first or second}"
                )
    return "" if worst.mismatched is None else f"{worst.mismatched} of {worst.size}"


_MOST = 20
"""Samples that are shown one by one."""


def sample_lines(samples: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the samples of two runs.

    Args:
        samples: a result of the kind ``samples``.
    """
    for sentence in sample_sentences(samples):
        yield from wrap_text(sentence, 2)
    listed = samples["changed"][:_MOST]
    if not listed:
        return
    wrong = [value["right"] is not None and not value["right"][0] for value in listed]
    sides = [
        Column(one_line(party), [one_line(value["answers"][at]) for value in listed])
        for at, party in enumerate(samples["parties"])
    ]
    labels = Column("label", [one_line(value["label"]) for value in listed])
    names = Column("", [one_line(value["name"]) for value in listed])
    yield ""
    yield from (line for line, _ in draw_table("changed", names, [labels, *sides], wrong, None))
    if (hidden := len(samples["changed"]) - len(listed)) > 0:
        yield f"  ... and {count_text(hidden, 'more sample')}, see --report."


def step_lines(steps: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the steps of two runs: a sentence if all agree, else a table.

    Args:
        steps: a result of the kind ``steps``.
    """
    from polygraphy.domain.states.comparing import step_table, steps_in_words

    for sentence in steps_in_words(steps):
        yield from wrap_text(sentence, 2)
    rows = steps["rows"]
    if steps["first_wrong"] is None or not rows:
        return
    titles, table = step_table(steps)
    columns = [
        Column(one_line(title), [one_line(row[at]) for row in table], is_number=title not in _TEXTS)
        for at, title in enumerate(titles)
    ]
    yield ""
    failed = [not row["passed"] for row in rows]
    names = Column("", columns[0].cells)
    yield from (line for line, _ in draw_table("step", names, columns[1:-1], failed, None))


_TEXTS = ("step", "first different state")
"""Columns of the table of steps that hold no numbers."""
