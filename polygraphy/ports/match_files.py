"""Where it is kept which parts of a model plugins could take the place of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.plugins import PluginMatch

__all__ = ["MatchFiles"]


class MatchFiles(Protocol):
    """Reads and writes files that people edit."""

    def read(self, path: str) -> list[PluginMatch]:
        """Return what a file holds; FileError when it holds something else."""

    def write(self, path: str, matches: Sequence[PluginMatch]) -> None:
        """Write a file; FileError when it cannot be written."""
