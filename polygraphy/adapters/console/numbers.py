"""Numbers and statistics as log lines show them: five significant digits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from polygraphy.domain.arithmetic import Histogram, Summary

_BAR_WIDTH = 40


def format_number(value: Any) -> str:
    """Return a number with five significant digits; other values unchanged."""
    if type(value) is float:  # Checked first, because nearly all numbers are floats.
        return f"{value:.5g}"
    if isinstance(value, (bool, str)) or value is None:
        return str(value)
    if isinstance(value, complex):
        return f"{value:.5g}"
    try:
        return f"{value:.5g}"
    except (TypeError, ValueError):
        return str(value)


def tolerance(value: float) -> str:
    """Return a tolerance as text, with all its digits."""
    return f"{value:.15g}"


def statistics(summary: Summary) -> str:
    """Return the statistics of an array in one line."""
    # All of these are numbers, which need no `format_number`.
    return (
        f"mean={summary.mean:.5g}, std-dev={summary.std:.5g}, var={summary.var:.5g},"
        f" median={summary.median:.5g}, min={summary.min:.5g} at {summary.argmin},"
        f" max={summary.max:.5g} at {summary.argmax}, avg-magnitude={summary.avg_magnitude:.5g}"
    )


def percentiles(summary: Summary) -> str:
    """Return the quantiles of an array in one line."""
    return ", ".join([f"p{q * 100:g}={value:.5g}" for q, value in summary.quantiles.items()])


def histogram_bars(histogram: Histogram) -> str:
    """Return a histogram as text: one line per bin with its range, its count and a bar."""
    counts: Sequence[int] = [int(count) for count in histogram.counts]
    edges = [format_number(float(edge)) for edge in histogram.edges]
    low_width, high_width = max(map(len, edges[:-1])), max(map(len, edges[1:]))
    ranges = [
        f"({low:{low_width}}, {high:{high_width}})" for low, high in itertools.pairwise(edges)
    ]
    range_width = max(map(len, ["Bin Range", *ranges]))
    count_width = max(map(len, ["Num Elems", *map(str, counts)]))
    largest = max([*counts, 1])
    rows = [f"{'Bin Range':{range_width}} |  {'Num Elems':{count_width}} | Visualization"]
    rows += [
        f"{where:{range_width}} |  {count:{count_width}} | {'#' * (_BAR_WIDTH * count // largest)}"
        for where, count in zip(ranges, counts)
    ]
    return "\n".join(["---- Histogram ----", *rows])
