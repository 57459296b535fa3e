"""Pictures of differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from polygraphy.domain.layer_errors import LayerError

__all__ = ["Plots"]


class Plots(Protocol):
    """Draws how two outputs differ. Pictures are saved to a folder, shown on a screen, or both."""

    def prepare(self, path: str | None = None) -> None:
        """Make sure that pictures can be drawn, before anything is computed for them.

        Args:
            path: a file that one is to be saved to.

        Raises:
            MissingDependencyError: a package that this takes is not installed.
            FileError: the extension of the path names no format of pictures.
        """

    def heat_maps(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw both outputs, and their absolute and relative difference, as images.

        Args:
            name: what the pictures are called; any text.
            value: numbers; the last two dimensions are an image, the others count images.
            reference: numbers, of the same shape.
            folder: where the pictures are saved; None for nowhere.
            show: whether they are shown.

        Raises:
            FileError: a picture cannot be saved.
        """

    def error_plots(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw the absolute and the relative difference over the reference; see `heat_maps`."""

    def error_by_depth(self, lines: Mapping[str, Sequence[LayerError]], path: str) -> None:
        """Draw the largest differences of outputs, in the order in which a model computes them.

        Args:
            lines: what each pair of runs is called, and what was found about its outputs.
            path: the file that is written; its extension says in which format.

        Raises:
            FileError: the plot cannot be saved.
        """
