"""Gives every runner the same data, in the form that its model asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.errors import UsageError
from polygraphy.domain.feed import fit_feed
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.ports.console import Console
from polygraphy.ports.runner import Runner

__all__ = ["FeedFitter", "Feeds"]

Feed = Mapping[str, Any]


class FeedFitter:
    """Fits feed dictionaries to one runner; data of the same description as the last are known to
    fit.
    """

    def __init__(self, runner: Runner, console: Console) -> None:
        self._runner = runner
        self._console = console
        self._accepted: tuple[Any, ...] | None = None
        self._told: set[str] = set()

    def __call__(self, feed: Feed) -> Feed:
        """Return data that fit; InputError when they cannot be made to fit."""
        described = tuple(
            [
                (name, getattr(a, "dtype", None), getattr(a, "shape", None))
                for name, a in feed.items()
            ]
        )
        if described == self._accepted:
            return feed
        fitted, notes = fit_feed(feed, self._runner.get_input_metadata(use_numpy_dtypes=False))
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                self._console.note(f"{self._runner.name} | {note}")
        if not notes and list(fitted) == list(feed):
            self._accepted = described
        return fitted


class Feeds:
    """The feed dictionaries of a run, one at a time.

    What the data loader assumed (its `notes`) is passed on to the console, each note once.
    """

    def __init__(self, data_loader: Any, console: Console) -> None:
        """Start iterating; a loader over files says here what is missing."""
        self._loader = data_loader
        self._console = console
        self._feeds: Iterator[Feed] = iter(data_loader)
        self._told: set[str] = set()
        self._current: Feed | None = None

    def describe_model_inputs(self, runners: Sequence[Runner]) -> None:
        """Tell a loader that wants to know what the model asks for, and take the first data.

        The first runner speaks for all.

        Raises:
            UsageError: there are no data.
        """
        if runners and hasattr(self._loader, "input_metadata"):
            metadata = runners[0].get_input_metadata(use_numpy_dtypes=False)
            self._loader.input_metadata = TensorMetadata(metadata)
        if not self.advance():
            raise UsageError("There are no input data: the data loader is empty.")

    @property
    def current(self) -> Feed:
        """The data of the iteration at hand."""
        assert self._current is not None
        return self._current

    def advance(self) -> bool:
        """Go to the next data; return whether there are any.

        Raises:
            UsageError: the data loader yields something else than dictionaries.
        """
        self._current = None
        feed = next(self._feeds, None)
        for note in getattr(self._loader, "notes", ()):
            if note not in self._told:
                self._told.add(note)
                self._console.note(note)
        if feed is not None and not isinstance(feed, Mapping):
            raise UsageError(
                "A data loader yields one dictionary from input names to arrays per iteration, not"
                f" {type(feed).__name__}.",
                hint="Yield {'input_name': array, ...}.",
            )
        self._current = feed
        return feed is not None

    def all_copied(self) -> list[Feed]:
        """Return all data from here on; a loader may reuse its arrays, so they are copied."""
        copied: list[Feed] = []
        while self._current is not None:
            copied.append({name: _copied(array) for name, array in self._current.items()})
            self.advance()
        return copied


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array
