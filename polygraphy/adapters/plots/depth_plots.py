"""Plots of depth: how differences grow from output to output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.plots.figures import new_figure, shortened
from polygraphy.domain.accuracy.output_rows import OutputRow, largest_jump
from polygraphy.domain.limits.tolerance import Tolerance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_NAMES = 40
_LONGEST = 32
_LEAST, _LARGEST = 1e-150, 1e150
_KINDS = (
    ("absolute", "atol", "Largest absolute difference"),
    ("relative", "rtol", "Largest relative difference"),
)
_EXACT = ("int", "uint", "bool")


def depth_plot(lines: Mapping[str, Sequence[OutputRow]]) -> Figure:
    """Return a figure of the largest absolute and relative difference of each output, and what they
    are held to; outputs that failed are marked, and what is not finite at the top.

    Integers and booleans have no part in it: they are equal, or differ by whole numbers.
    """
    drawn = {name: [row for row in rows if not _is_exact(row)] for name, rows in lines.items()}
    names = list(dict.fromkeys(row.name for rows in drawn.values() for row in rows))
    figure = new_figure(11, 8)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (kind, limit, title) in zip(axes, _KINDS):
        for index, (name, rows) in enumerate(drawn.items()):
            _draw(axis, f"C{index}", name, names, rows, kind)
        _draw_limits(axis, names, drawn, limit)
        _scale(axis)
        axis.set_ylabel(title)
        axis.grid(visible=True, alpha=0.3)
    _name_outputs(axes[1], names, drawn)
    left_out = sum(map(len, lines.values())) - sum(map(len, drawn.values()))
    text = "Outputs, in the order in which the model computes them"
    axes[1].set_xlabel(f"{text} ({left_out} of integers left out)" if left_out else text)
    findings = "\n".join(_finding(name, rows) for name, rows in drawn.items())
    figure.suptitle(findings, fontsize=11, parse_math=False)
    legend = dict(zip(*reversed(axes[0].get_legend_handles_labels())))
    legend |= dict(zip(*reversed(axes[1].get_legend_handles_labels())))
    if legend:
        figure.legend(
            legend.values(), legend.keys(), loc="outside lower center", ncols=2, fontsize=8
        )
    return figure


def _is_exact(row: OutputRow) -> bool:
    dtypes = [tensor.dtype for tensor in row.tensors if tensor is not None]
    return bool(dtypes) and all(dtype.startswith(_EXACT) for dtype in dtypes)


def _finding(name: str, rows: Sequence[OutputRow]) -> str:
    """Return what the line of a pair of runs shows, in a sentence."""
    failed = [row for row in rows if not row.passed]
    known = [row for row in rows if row.worst.excess is not None]
    if not failed:
        worst = max(known, key=_excess, default=None)
        most = f", {_excess(worst):.2g} of it in {shortened(worst.name)!r}" if worst else ""
        return f"{name}: {len(rows)} outputs within tolerance{most}"
    jump = largest_jump(rows)
    row = failed[0] if jump is None else rows[jump]
    what = "first is" if jump is None else "first jump at"
    found = "" if row.absolute is None else f" (max abs {row.absolute:.2g})"
    count = f"{len(failed)} of {len(rows)} outputs differ"
    return f"{name}: {count}, {what} {shortened(row.name)!r}{found}"


def _excess(row: OutputRow) -> float:
    return row.worst.excess or 0.0


def _draw(
    axis: Axes, color: str, name: str, names: list[str], rows: Sequence[OutputRow], kind: str
) -> None:
    """Draw the line of a pair of runs; what is not finite, or not known, leaves a gap."""
    depth = _depth(names, rows)
    found = [getattr(row, kind) for row in rows]
    values = np.array([np.nan if value is None else value for value in found], np.float64)
    values = np.where(np.isfinite(values), np.clip(values, 0, _LARGEST), np.nan)
    axis.plot(depth, values, marker=".", linewidth=1, color=color, label=name)
    above = axis.get_xaxis_transform()
    for position, value, row in zip(depth, values, rows):
        is_infinite = getattr(row, kind) is not None and not isfinite(getattr(row, kind))
        if row.passed and not is_infinite:
            continue
        where: dict[str, Any] = {} if np.isfinite(value) else {"transform": above}
        height = value if np.isfinite(value) else 1.0
        label = "NaN or infinite" if is_infinite else f"{name}: failed"
        marker = "^" if is_infinite else "x"
        axis.scatter(
            [position], [height], marker=marker, color="#c0392b", zorder=3, clip_on=False,
            label=label if np.isfinite(value) or is_infinite else None, **where,
        )  # fmt: skip


def _depth(names: list[str], rows: Sequence[OutputRow]) -> list[int]:
    places = {name: place for place, name in enumerate(names)}
    return [places[row.name] for row in rows]


def _draw_limits(
    axis: Axes, names: list[str], drawn: Mapping[str, Sequence[OutputRow]], kind: str
) -> None:
    """Draw what outputs are held to, where it is more than nothing."""
    limits = np.full(len(names), np.nan)
    for rows in drawn.values():
        for place, row in zip(_depth(names, rows), rows):
            if isinstance(row.limit, Tolerance):
                limit = getattr(row.limit, kind)
                limits[place] = limit if _LEAST < limit < _LARGEST else np.nan
    if np.isfinite(limits).any():
        axis.step(
            range(len(names)), limits, where="mid", color="0.35", linestyle="--", linewidth=1,
            marker="_" if len(names) == 1 else None, label="tolerance",
        )  # fmt: skip


def _scale(axis: Axes) -> None:
    """Make the axis logarithmic from the least number drawn in it; nothing is at its bottom."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), np.float64) for line in axis.get_lines()])
    positive = drawn[drawn > _LEAST]
    if positive.size:
        axis.set_yscale("symlog", linthresh=float(positive.min()))


def _name_outputs(axis: Axes, names: list[str], drawn: Mapping[str, Sequence[OutputRow]]) -> None:
    """Name outputs below the axis: all of few; of many an even choice, and where errors jump."""
    chosen = set(np.linspace(0, len(names) - 1, min(len(names), _MOST_NAMES), dtype=int).tolist())
    for rows in drawn.values():
        jump = largest_jump(rows)
        if jump is not None:
            place = names.index(rows[jump].name)
            near = max(len(names) // _MOST_NAMES, 1) if len(names) > _MOST_NAMES else 0
            chosen -= set(range(place - near, place + near + 1))
            chosen.add(place)
    places = sorted(chosen)
    axis.set_xticks(places)
    axis.set_xticklabels(
        [shortened(names[place], _LONGEST) for place in places],
        rotation=90,
        fontsize=7,
        parse_math=False,
    )
