"""Keeps how a model is split over several devices."""

from __future__ import annotations

from pathlib import Path

from polygraphy.domain.sharding import ShardHints
from polygraphy.logger import G_LOGGER
from polygraphy.ports.storage import read_shard_hints, write_shard_hints


def load_shard_hints(path: str) -> ShardHints:
    """Return the hints in a JSON file; raise FileError for other content."""
    return read_shard_hints(path)


def save_shard_hints(hints: ShardHints, path: str) -> None:
    """Write hints to a JSON file for users to review and edit.

    Raises:
        FileError: the file cannot be written.
    """
    G_LOGGER.info(f"Saving shard hints to: {Path(path).absolute()}")
    write_shard_hints(path, hints)
