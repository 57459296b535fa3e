"""Draws how errors grow through a model."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.domain.accuracy.accuracy import AccuracyResult
from polygraphy.domain.accuracy.output_rows import AccuracyTable
from polygraphy.domain.asked import Plots
from polygraphy.domain.results.runner_names import short_names
from polygraphy.ports.binding import resolve


class DepthPlot:
    """A plot of the largest differences of the outputs, in the order in which the model computes
    them.
    """

    def __init__(self, path: str) -> None:
        """Name the file.

        Raises:
            MissingDependencyError: nothing that draws plots is installed.
            FileError: the extension names no format of pictures.
        """
        self._path = path
        resolve(Plots).prepare(path)

    def draw(self, verdicts: Sequence[AccuracyResult]) -> None:
        """Save the plot of what the first of some comparison functions found that measures
        differences; FileError when that is not possible.
        """
        for verdict in verdicts:
            tables = AccuracyTable.of(verdict)
            lines = {label: table.rows() for label, table in zip(_labels(verdict), tables)}
            if any(row.absolute is not None for rows in lines.values() for row in rows):
                resolve(Plots).error_by_depth(lines, self._path)
                return


def _labels(verdict: AccuracyResult) -> list[str]:
    """Name each pair of runs; those of equal names are numbered."""
    labels: list[str] = []
    names = list(dict.fromkeys(name for runners in verdict for name in runners))
    short = dict(zip(names, short_names(names)))
    for runners in verdict:
        name = label = " vs. ".join(short[each] for each in runners)
        while label in labels:
            label = f"{name} ({sum(each.startswith(name) for each in labels) + 1})"
        labels.append(label)
    return labels
