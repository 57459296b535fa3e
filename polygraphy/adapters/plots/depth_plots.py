"""Plots of depth: how differences grow from output to output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from polygraphy.adapters.plots.figures import new_figure
from polygraphy.domain.accuracy.layer_errors import LayerError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_NAMES = 40
_LEAST, _LARGEST = 1e-150, 1e150
_KINDS = {"absolute": "Largest absolute difference", "relative": "Largest relative difference"}


def depth_plot(lines: Mapping[str, Sequence[LayerError]]) -> Figure:
    """Return a figure of the largest absolute and relative difference of each output; outputs that
    failed are marked. What is not finite, or not known, leaves a gap.
    """
    figure = new_figure(10, 7)
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (kind, title) in zip(axes, _KINDS.items()):
        for name, errors in lines.items():
            _draw(axis, name, kind, errors)
        axis.set_ylabel(title)
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend(fontsize=8)
    axes[1].set_xlabel("Outputs, in the order in which the model computes them")
    longest = max(lines.values(), key=len, default=())
    if len(longest) <= _MOST_NAMES:
        axes[1].set_xticks(range(len(longest)))
        axes[1].set_xticklabels(
            [error.name for error in longest], rotation=90, fontsize=7, parse_math=False
        )
    figure.set_layout_engine("tight")
    return figure


def _draw(axis: Axes, name: str, kind: str, errors: Sequence[LayerError]) -> None:
    found = [getattr(error, kind) for error in errors]
    values = np.array([np.nan if value is None else value for value in found], np.float64)
    values = np.where(np.isfinite(values), np.clip(values, 0, _LARGEST), np.nan)
    positive = values[values > _LEAST]
    if positive.size:
        axis.set_yscale("symlog", linthresh=float(positive.min()))
    depth = np.arange(values.size)
    (line,) = axis.plot(depth, values, marker=".", linewidth=1, label=name)
    failed = np.array([not error.passed for error in errors], np.bool_)
    axis.scatter(
        depth[failed],
        np.nan_to_num(values[failed]),
        marker="x",
        color="red",
        zorder=line.get_zorder() + 1,
        label=f"{name}: failed" if failed.any() else None,
    )
