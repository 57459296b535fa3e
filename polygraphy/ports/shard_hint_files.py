"""Where it is kept how a model is split over devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.sharding import ShardHints

__all__ = ["ShardHintFiles"]


class ShardHintFiles(Protocol):
    """Reads and writes files that people edit."""

    def read(self, path: str) -> ShardHints:
        """Return what a file holds; FileError when it holds something else."""

    def write(self, path: str, hints: ShardHints) -> None:
        """Write a file; FileError when it cannot be written."""
