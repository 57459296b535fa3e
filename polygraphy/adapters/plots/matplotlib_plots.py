"""Draws pictures with matplotlib; implements the port `Plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polygraphy.adapters.plots.depth_plots import depth_plot
from polygraphy.adapters.plots.error_plots import error_plots
from polygraphy.adapters.plots.figures import (
    check_format,
    hand_over,
    new_figure,
    require_matplotlib,
    save_figure,
)
from polygraphy.adapters.plots.heat_maps import heat_maps
from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.tensors.aliases import Array


class MatplotlibPlots:
    """Draws heat maps as SVG files, error plots as PNG files, and plots of depth as either."""

    def prepare(self, path: str | None = None) -> None:
        """Make sure that matplotlib is there, and that it writes such files as `path`.

        Raises:
            MissingDependencyError: it is not.
            FileError: it does not.
        """
        require_matplotlib()
        if path is not None:
            check_format(new_figure(1, 1), Path(path))

    def heat_maps(
        self, name: str, value: Array, reference: Array, *, folder: str | None, show: bool
    ) -> None:
        hand_over(heat_maps(name, value, reference), folder=folder, show=show)

    def error_plots(
        self,
        name: str,
        value: Array,
        reference: Array,
        limits: tuple[float, float],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw the differences over the reference; FileError when a picture cannot be saved."""
        hand_over(error_plots(name, value, reference, limits), folder=folder, show=show)

    def error_by_depth(self, lines: Mapping[str, Sequence[OutputRow]], path: str) -> None:
        save_figure(depth_plot(lines), Path(path))
