"""Tables of the times of nodes in a page, beside their errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from polygraphy.domain.profiling.table import (
    ProfileTable,
    TimeRow,
    difference_text,
    digits_text,
    operators_text,
    side_in_words,
    table_in,
)

_WIDTH = 200
"""Width of a bar; the browser scales it."""


def times_table(profile: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the texts and bars of a table.

    Args:
        profile: the document of a `ProfileTable`, with the order of its rows.
    """
    table = table_in(profile)
    has_errors = any(row.error is not None for row in table.rows)
    numbers = {id(row): number for number, row in enumerate(table.rows, 1)}
    names = [side.runner for side in table.sides]
    is_pair = len(names) > 1
    providers = _provider_names(table.rows)
    bars = _Bars(table, has_errors=has_errors)
    return {
        "shapes": table.shapes,
        "sides": [(side_in_words(side), side.notes) for side in table.sides],
        "sentence": table.sentence,
        "nodes": "nodes of the model" if table.count else "executed nodes",
        "keys": bars.keys,
        "titles": [
            *([f"{name} us" for name in names] if is_pair else ["us"]),
            *(["difference"] if is_pair else []),
            *(["max error"] if has_errors else []),
        ],
        "is_below_cost": any(cell.is_below_cost for row in table.rows for cell in row.cells),
        "rows": [
            {
                "number": numbers[id(row)],
                "label": row.label,
                "bar": bars.draw(row),
                "how": operators_text(row.cells),
                "where": ", ".join(_places(row, has_providers=len(providers) > 1)),
                "inner": [*_inner_lines(row)],
                "figures": [*_number_cells(row, is_pair=is_pair, has_errors=has_errors)],
            }
            for row in table.sort_rows(profile["sort"])
        ],
    }


def _provider_names(rows: Iterable[TimeRow]) -> list[str]:
    """Return the short names of the execution providers in rows."""
    names = (name for row in rows for cell in row.cells for name in cell.providers)
    return [name.removesuffix("ExecutionProvider") for name in dict.fromkeys(names)]


def _places(row: TimeRow, *, has_providers: bool) -> Iterator[str]:
    """Yield the kernels of a row, and its execution providers if the table has several."""
    yield from dict.fromkeys(kernel for cell in row.cells for kernel in cell.kernels)
    if has_providers:
        yield from _provider_names([row])


def _inner_lines(row: TimeRow) -> Iterator[str]:
    """Yield a line for each node in the bodies of a row."""
    for name, op in dict.fromkeys(
        (inner_time.name, inner_time.op) for cell in row.cells for inner_time in cell.inner
    ):
        times = [
            next(
                (
                    inner_time.microseconds
                    for inner_time in cell.inner
                    if (inner_time.name, inner_time.op) == (name, op)
                ),
                None,
            )
            for cell in row.cells
        ]
        texts = ["-" if time is None else digits_text(time) for time in times]
        yield f"{name} {op}: {' | '.join(texts)} us"


def _number_cells(
    row: TimeRow, *, is_pair: bool, has_errors: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield the text of each number, its explanation, and whether it is insignificant."""
    for cell in row.cells:
        text = "-" if cell.microseconds is None else digits_text(cell.microseconds)
        yield f"{text} ~" if cell.is_below_cost else text, "", cell.is_below_cost
    if is_pair:
        yield difference_text(row.cells), "", not row.is_significant
    if has_errors:
        yield "" if row.error is None else f"{row.error:.2g}", row.tensor, False


class _Bars:
    """Draws the bar of a row: two profiles, or time and error of a single profile, on two sides of
    a center.

    Attributes:
        keys: the class of each side of a bar, and what it shows.
    """

    def __init__(self, table: ProfileTable, *, has_errors: bool) -> None:
        """Set the table, whose largest value sets the scale."""
        names = [side.runner for side in table.sides]
        self._is_pair = len(names) > 1
        self._longest = max((row.time for row in table.rows), default=0.0)
        errors = [row.error for row in table.rows if row.error is not None]
        self._worst = max(filter(math.isfinite, errors), default=0.0)
        self.keys: Sequence[tuple[str, str]] = [("first", f"time of {names[0]}")]
        if self._is_pair:
            self.keys = [*self.keys, ("last", f"time of {names[-1]}")]
        elif has_errors:
            self.keys = [*self.keys, ("error", "max error")]

    def draw(self, row: TimeRow) -> Markup:
        """Return the bar of a row; both sides start in the middle."""
        shares = [_share(row.cells[0].time, self._longest)]
        if self._is_pair:
            shares.append(_share(row.cells[-1].time, self._longest))
        elif len(self.keys) > 1:
            shares.append(_share(row.error or 0.0, self._worst))
        half = _WIDTH / len(shares)
        start = 0.0 if len(shares) == 1 else half
        parts = [Markup('<rect class="middle" x="{:.1f}" width="0.6" height="8"/>').format(start)]
        for at, (share, (kind, _)) in enumerate(zip(shares, self.keys)):
            remaining_start = start - half * share if len(shares) == 2 and at == 0 else start
            parts.append(
                Markup('<rect class="{}" x="{:.1f}" width="{:.1f}" height="8"/>').format(
                    kind, remaining_start, half * share
                )
            )
        return Markup(
            '<svg class="bar" viewBox="0 0 {} 8" preserveAspectRatio="none"'
            ' aria-hidden="true">{}</svg>'
        ).format(_WIDTH, Markup("").join(parts))


def _share(value: float, largest: float) -> float:
    """Return a value as a share of the largest finite one; 1 for values that are not finite."""
    if not math.isfinite(value):
        return 1.0
    return value / largest if largest > 0 and value > 0 else 0.0
