"""A backend whose crashes do no harm."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from polygraphy.domain.errors import UsageError
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.running import Isolation

T = TypeVar("T")


class CarefulParty:
    """A party that does each thing in a process of its own; implements the port `SuspectedParty`.

    What it refuses, it refuses when it computes.
    """

    def __init__(self, party: SuspectedParty) -> None:
        self.name = party.name
        self.passes = party.passes
        self.rewrites = party.rewrites
        self.levels = party.levels
        self.settings = party.settings
        self._party = party

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Compute:
        """Return what loads and runs a model; see the port."""
        return lambda feed: alone(
            lambda: self._party.load(model, plain=plain, without=without)(feed), self.name
        )

    def executed(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any | None:
        """Return the graph that is really run; see the port."""
        return alone(lambda: self._party.executed(model, without=without, level=level), self.name)

    def remedy(self, path: str, *, plain: bool, without: Collection[str]) -> str:
        return self._party.remedy(path, plain=plain, without=without)


def alone(function: Callable[[], T], who: str) -> T:
    """Call a function where a crash does no harm, if the operating system has such a place.

    Raises:
        BackendError: it crashed.
    """
    try:
        isolation = resolve(Isolation)
        return isolation.call(function, what=who)
    except UsageError:
        return function()
