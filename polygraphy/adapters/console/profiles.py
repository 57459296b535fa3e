"""Tables of the times of nodes, for lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polygraphy.adapters.console.tables import Column, draw_table
from polygraphy.domain.profiling.table import (
    Cell,
    ProfileTable,
    TimeRow,
    difference_text,
    digits_text,
    operators_text,
    side_in_words,
    time_text,
)
from polygraphy.domain.tensors.naming import count_text, one_line, shorten_text

_KERNEL = 28
_HOW = 44


def profile_lines(table: ProfileTable, sort: str, rows: int, width: int | None) -> Iterator[str]:
    """Yield the lines of a table of node times.

    Args:
        table: the profile table.
        sort: by what rows are sorted.
        rows: the number of rows to show; 0 for all.
        width: the columns of the terminal; None for as many as it takes.
    """
    if table.model:
        yield f"Model: {one_line(table.model)}, {count_text(table.count, 'node')}"
    if table.shapes:
        shapes = ", ".join(
            f"{one_line(name)} {list(shape)}" for name, shape in table.shapes.items()
        )
        yield f"Shapes: {shapes}"
    for side in table.sides:
        yield side_in_words(side)
        yield from (f"  {one_line(note)}" for note in side.notes)
    yield ""
    ordered = table.sort_rows(sort)
    time_rows = ordered if rows <= 0 else ordered[:rows]
    yield from _table_lines(table, time_rows, width)
    if len(time_rows) < len(ordered):
        hidden_time = time_text(sum(row.time for row in ordered[len(time_rows) :]))
        yield f"  and {count_text(len(ordered) - len(time_rows), 'more row')}, {hidden_time}"
    if any(cell.is_below_cost for row in time_rows for cell in row.cells):
        yield "  ~ less than the overhead of the measurement"
    if table.sentence:
        yield ""
        yield table.sentence


def _table_lines(table: ProfileTable, rows: Sequence[TimeRow], width: int | None) -> Iterator[str]:
    """Yield the lines of the table itself."""
    lines = [line for row in rows for line in _row_and_inner_nodes(row)]
    names = Column("", [f"{'  ' * depth}{one_line(name)}" for name, depth, _ in lines])
    columns = []
    for at, side in enumerate(table.sides):
        title = "us" if len(table.sides) == 1 else f"{shorten_text(one_line(side.runner), 24)} us"
        columns.append(Column(title, [_time(cells[at]) for *_, cells in lines], is_number=True))
    if len(table.sides) > 1:
        texts = [difference_text(cells) for *_, cells in lines]
        columns.append(Column("difference", texts, is_number=True))
    columns.append(
        Column("run as", [shorten_text(operators_text(cells), _HOW) for *_, cells in lines], rank=1)
    )
    kernels = [_kernels(cells) for *_, cells in lines]
    columns.append(Column("kernel", kernels, rank=3))
    providers = [_providers(cells) for *_, cells in lines]
    if len({text for text in providers if text}) > 1:
        columns.append(Column("on", providers, rank=2))
    errors = {id(row): row.error for row in rows}
    if any(value is not None for value in errors.values()):
        texts = []
        for row in rows:
            first = "" if row.error is None else f"{row.error:.2g}"
            texts += [first, *[""] * (len(_row_and_inner_nodes(row)) - 1)]
        columns.append(Column("max error", texts, is_number=True))
    title = "nodes of the model" if table.count else "executed nodes"
    for text, _ in draw_table(title, names, columns, [False] * len(lines), width):
        yield text


def _row_and_inner_nodes(row: TimeRow) -> list[tuple[str, int, list[Cell]]]:
    """Return label, depth and cells of a row, and of the nodes in its bodies."""
    lines: list[tuple[str, int, list[Cell]]] = [(row.label, 0, list(row.cells))]
    names = dict.fromkeys((inner.name, inner.op) for cell in row.cells for inner in cell.inner)
    for name, op in names:
        cells = []
        for cell in row.cells:
            match = [
                inner_time
                for inner_time in cell.inner
                if (inner_time.name, inner_time.op) == (name, op)
            ]
            cells.append(Cell(match[0].microseconds, executed=[op]) if match else Cell())
        lines.append((name, 1, cells))
    return lines


def _time(cell: Cell) -> str:
    """Return a time as text; ``~`` marks one below the cost of measuring."""
    if cell.microseconds is None:
        return "-"
    return f"{'~' if cell.is_below_cost else ''}{digits_text(cell.microseconds)}"


def _kernels(cells: Sequence[Cell]) -> str:
    """Return the names of the kernels, shortened."""
    texts = [", ".join(cell.kernels) for cell in cells]
    texts = [text for text in texts if text]
    return shorten_text(" | ".join(dict.fromkeys(texts)), _KERNEL) if texts else ""


def _providers(cells: Sequence[Cell]) -> str:
    """Return the short names of the execution providers."""
    names = dict.fromkeys(name for cell in cells for name in cell.providers)
    return ", ".join(name.removesuffix("ExecutionProvider") for name in names)
