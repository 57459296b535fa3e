"""Input data that were saved before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from polygraphy.domain.errors import UsageError
from polygraphy.ports.binding import resolve
from polygraphy.ports.store import ResultStore

__all__ = ["StreamingDataLoader"]


class StreamingDataLoader:
    """Yields saved feed dictionaries, one iteration at a time, from files and folders one after
    another.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path], allow_dirs: bool = True) -> None:
        """Name the files and folders.

        Raises:
            UsageError: no path is given, or one is a folder and `allow_dirs` is False.
        """
        self.paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
        if not self.paths:
            raise UsageError("There is no path to load input data from.")
        for path in self.paths:
            if not allow_dirs and Path(path).is_dir():
                raise UsageError(f"{path} is a folder; a file is needed here.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start at the first iteration; FileError at once when the first path is missing or
        damaged.
        """
        store = resolve(ResultStore)
        opened = store.iterate(self.paths[0], dict)
        first = list(islice(opened, 1))  # Read now, so that a damaged file is told now.
        later = (_opened_later(store, path) for path in self.paths[1:])
        return chain(first, opened, *later)

    def __repr__(self) -> str:
        return f"StreamingDataLoader({[str(path) for path in self.paths]!r})"


def _opened_later(store: ResultStore, path: str | Path) -> Iterator[dict[str, Any]]:
    yield from store.iterate(path, dict)
