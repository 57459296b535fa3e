"""Pictures that are not drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import Factory, define, frozen

from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.errors import MissingDependencyError


@frozen
class DrawnPlot:
    """A picture: its kind, what it is called, and where it went."""

    kind: str
    name: str
    folder: str | None
    show: bool


@define
class RecordingPlots:
    """Keeps which pictures were asked for, in order."""

    is_available: bool = True
    drawn: list[DrawnPlot] = Factory(list)

    def prepare(self, path: str | None = None) -> None:
        """Make sure that pictures can be drawn; MissingDependencyError when not."""
        if not self.is_available:
            raise MissingDependencyError("Nothing draws pictures here.", module="none")

    def heat_maps(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Keep that heat maps were asked for."""
        self._draw("heat maps", name, value, reference, folder, show)

    def error_plots(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        limits: tuple[float, float],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Keep that error plots were asked for."""
        self._draw("error plots", name, value, reference, folder, show)

    def error_by_depth(self, lines: Mapping[str, Sequence[OutputRow]], path: str) -> None:
        """Keep that a plot of depth was asked for."""
        self.prepare(path)
        self.drawn.append(DrawnPlot("error by depth", ", ".join(lines), path, show=False))

    def _draw(
        self, kind: str, name: str, value: Any, reference: Any, folder: str | None, show: bool
    ) -> None:
        self.prepare()
        assert value.shape == reference.shape, (value.shape, reference.shape)
        assert folder is not None or show, f"{kind} of {name} go nowhere"
        self.drawn.append(DrawnPlot(kind, name, folder, show))
