"""Keeps which parts of a model plugins could take the place of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polygraphy.domain.model.plugins import PluginMatch
from polygraphy.logger import G_LOGGER
from polygraphy.ports.binding import resolve
from polygraphy.ports.storage import MatchFiles


def load_matches(path: str) -> list[PluginMatch]:
    """Return what a YAML file holds; FileError when it holds something else."""
    return resolve(MatchFiles).read(path)


def save_matches(matches: Sequence[PluginMatch], path: str) -> None:
    """Write matches to a YAML file, to be looked at and edited.

    Raises:
        FileError: the file cannot be written.
    """
    G_LOGGER.info(f"Saving what was found to: {Path(path).absolute()}")
    resolve(MatchFiles).write(path, matches)
