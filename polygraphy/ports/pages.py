"""Who makes pages of models that a browser shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.model import Model
    from polygraphy.domain.model.drawing import GraphDrawing
    from polygraphy.domain.model.statistics import ModelStatistics

__all__ = ["ModelPages"]


class ModelPages(Protocol):
    """Makes pages, and shows them on this machine."""

    def page(
        self, model: Model, drawings: Sequence[GraphDrawing], statistics: ModelStatistics
    ) -> str:
        """Return a page as HTML that needs nothing but itself.

        Args:
            model: what is shown.
            drawings: its graphs, the main one first.
            statistics: of its size.
        """

    def serve(self, page: str, port: int, announce: Callable[[str], Any]) -> None:
        """Show a page to browsers on this machine, and to nobody else, until the user interrupts.

        Args:
            page: the page.
            port: a TCP port; 0 for any that is free.
            announce: called with the address as soon as it can be opened.

        Raises:
            UsageError: the port is taken.
        """
