"""A backend whose crashes do no harm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.ports.diagnosing import Compute, SuspectedParty
from polygraphy.ports.running import call_isolated

T = TypeVar("T")

_AT_ONCE = 16
"""Guesses for one process, which costs milliseconds; those beside a crash are made again."""
_LONGEST = 60.0
"""Seconds after which a process of guesses hangs."""


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
        self.options = party.options
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

    def remedy(self, *, plain: bool, without: Collection[str]) -> Mapping[str, Any]:
        return self._party.remedy(plain=plain, without=without)


def alone(
    function: Callable[[], T], who: str, timeout: float | None = None, is_silent: bool = False
) -> T:
    """Call a function where a crash does no harm, if the operating system has such a place.

    Raises:
        BackendError: it crashed, or took longer than so many seconds.
    """
    try:
        return call_isolated(function, what=who, timeout=timeout, is_silent=is_silent)
    except UsageError:
        return function()


def those(guesses: Iterator[T], is_right: Callable[[T], bool], who: str) -> Iterator[T]:
    """Yield the guesses that are right; one at which the backend crashes is not."""
    while made := list(islice(guesses, _AT_ONCE)):
        yield from _those(made, is_right, who)


def _those(guesses: Sequence[T], is_right: Callable[[T], bool], who: str) -> Iterator[T]:
    rest = list(guesses)
    while rest:
        try:
            found = alone(partial(_first, rest, is_right), who, timeout=_LONGEST, is_silent=True)
        except BackendError:
            if len(rest) > 1:
                half = len(rest) // 2
                yield from _those(rest[:half], is_right, who)
                yield from _those(rest[half:], is_right, who)
            return
        if found is None:
            return
        yield rest[found]
        rest = rest[found + 1 :]


def _first(guesses: Sequence[T], is_right: Callable[[T], bool]) -> int | None:
    return next((index for index, guess in enumerate(guesses) if is_right(guess)), None)
