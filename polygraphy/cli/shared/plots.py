"""Which pictures of differences."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.declare.kinds import Flag, Text
from polygraphy.cli.declare.option import Options, option


@frozen
class PlotOptions(Options):
    """Pictures: how outputs differ, as the comparison function `simple` sees it. They take
    matplotlib.
    """

    save_heatmaps: str | None = option(
        "--save-heatmaps",
        kind=Text("FOLDER"),
        help="Save heat maps of both outputs and of their differences as SVG files.",
    )
    show_heatmaps: bool = option("--show-heatmaps", kind=Flag(), help="Show the heat maps.")
    save_error_metrics_plot: str | None = option(
        "--save-error-metrics-plot",
        kind=Text("FOLDER"),
        help="Save plots of the differences over the size of the outputs as PNG files.",
    )
    show_error_metrics_plot: bool = option(
        "--show-error-metrics-plot", kind=Flag(), help="Show the plots of the differences."
    )
