"""Columns of text, as wide as a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

from attrs import frozen

from polygraphy.logger.severity import ERROR, INFO

if TYPE_CHECKING:
    from polygraphy.logger.sinks import Line

_LEAST_NAME = 12
_USUAL_NAME = 28
"""Columns of a name for which a narrow terminal does without other cells."""
_GAP = "  "
_CUT = ".."


@frozen
class Column:
    """What stands in a column.

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
        """Return how wide the widest of its cells is."""
        return max(map(columns_of, (self.title, *self.cells)))

    def fitted(self, text: str, width: int) -> str:
        """Return a cell, or the title, as wide as the column."""
        text = text if columns_of(text) <= width else _cut(text, width)
        padding = " " * (width - columns_of(text))
        return padding + text if self.is_number else text + padding


def drawn(
    title: str,
    names: Column,
    others: Sequence[Column],
    failed: Sequence[bool],
    width: int | None,
) -> list[Line]:
    """Return the lines of a table, and how severe each is: a head, and a line for each row.

    Args:
        title: stands above the names.
        names: the first column, which is cut where a terminal is too narrow.
        others: the other ones.
        failed: of each row, whether it is marked.
        width: the columns of the terminal; None for as many as it takes.
    """
    others = [column for column in others if any(column.cells)]
    while width is not None and (rank := max((column.rank for column in others), default=0)):
        if min(names.width, _USUAL_NAME) + _taken(others) <= width:
            break
        others = [column for column in others if column.rank < rank]
    room = max(names.width, len(title))
    if width is not None:
        room = max(width - _taken(others), min(names.width, _LEAST_NAME))
    first = min(max(names.width, columns_of(title) - len(_GAP)), room)
    is_long = columns_of(title) > first + len(_GAP)
    lines = [(title, INFO)] if is_long else []
    head = Column("", []).fitted("" if is_long else title, first + len(_GAP))
    widths = [column.width for column in others]
    titles = [column.fitted(column.title, size) for column, size in zip(others, widths)]
    lines.append((_GAP.join([head, *titles]).rstrip(), INFO))
    for at, is_bad in enumerate(failed):
        mark, severity = ("x ", ERROR) if is_bad else ("  ", INFO)
        cells = [column.fitted(column.cells[at], size) for column, size in zip(others, widths)]
        name = names.fitted(names.cells[at], first)
        lines.append((_GAP.join([mark + name, *cells]).rstrip(), severity))
    return lines


def _taken(columns: Sequence[Column]) -> int:
    """Return how much of a line the mark, the columns and their gaps take."""
    return len(_GAP) + sum(len(_GAP) + column.width for column in columns)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes; many characters of Asia take two."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(each) else 1 + (east_asian_width(each) in "WF") for each in text)


def _cut(text: str, width: int) -> str:
    """Return the two ends of a name that is too long: what tells layers apart is at the end."""
    head, tail = "", ""
    room = width - len(_CUT)
    for each in text:
        if columns_of(head + each) > room // 3:
            break
        head += each
    for each in reversed(text):
        if columns_of(head + each + tail) > room:
            break
        tail = each + tail
    return f"{head}{_CUT}{tail}"
