"""Which pictures of differences are wanted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from attrs import Factory, define

from polygraphy.binding import resolve
from polygraphy.domain.arithmetic.passes.widen import Kind, kind_of
from polygraphy.domain.asked import Plots

Array = np.ndarray[Any, Any]


@define
class Pictures:
    """Asks the port `Plots` for what is wanted, for one output after another.

    Attributes:
        heat_maps: folder for heat maps; None for none.
        show_heat_maps: whether heat maps are shown.
        error_plots: folder for error plots; None for none.
        show_error_plots: whether error plots are shown.
    """

    heat_maps: str | None = None
    show_heat_maps: bool = False
    error_plots: str | None = None
    show_error_plots: bool = False
    _drawn: Counter[str] = Factory(Counter)

    def __attrs_post_init__(self) -> None:
        """Make sure that pictures can be drawn; MissingDependencyError when not."""
        if self.are_wanted:
            resolve(Plots).prepare()

    @property
    def are_wanted(self) -> bool:
        """Whether anything is drawn at all."""
        heat_maps = self.heat_maps is not None or self.show_heat_maps
        return heat_maps or self.error_plots is not None or self.show_error_plots

    def draw(self, name: str, value: Array, reference: Array, limits: tuple[float, float]) -> None:
        """Draw two outputs of one shape, held to an absolute and a relative tolerance; an output
        that was drawn before, in an earlier iteration, is numbered. Text and empty outputs have no
        picture.
        """
        if not self.are_wanted or not value.size:
            return
        if Kind.OTHER in (kind_of(value.dtype), kind_of(reference.dtype)):
            return
        title = name if not self._drawn[name] else f"{name}_{self._drawn[name]}"
        self._drawn[name] += 1
        if self.heat_maps is not None or self.show_heat_maps:
            resolve(Plots).heat_maps(
                title, value, reference, folder=self.heat_maps, show=self.show_heat_maps
            )
        if self.error_plots is not None or self.show_error_plots:
            resolve(Plots).error_plots(
                title,
                value,
                reference,
                limits,
                folder=self.error_plots,
                show=self.show_error_plots,
            )
