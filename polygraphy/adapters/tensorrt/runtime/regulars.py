"""Who comes back often enough to be given a place of their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable

_VISITS = 2
"""From which visit on a visitor is a regular: who comes back once may do so again."""
_PERIOD = 64
"""After how many visits what was long ago counts half."""


class Regulars:
    """Gives a bounded number of places to visitors: an LFU cache with admission.

    A visitor gets a place on its second visit. When all are taken, the least frequent is evicted
    for one that comes more than twice as often: moving in costs something, so that many visitors
    must not evict each other all the time.
    """

    def __init__(self, places: int, on_leave: Callable[[Hashable], None]) -> None:
        """Have `places` places; `on_leave` is called with who loses one."""
        self._places = places
        self._on_leave = on_leave
        self._visits: dict[Hashable, int] = {}
        self._seated: set[Hashable] = set()
        self._until_halved = _PERIOD

    def came(self, visitor: Hashable) -> bool:
        """Take note of a visit; return whether the visitor has a place now."""
        self._age()
        visits = self._visits[visitor] = self._visits.get(visitor, 0) + 1
        if visitor in self._seated:
            return True
        if visits < _VISITS:
            return False
        if len(self._seated) >= self._places and not self._make_room(visits):
            return False
        self._seated.add(visitor)
        return True

    def _make_room(self, visits: int) -> bool:
        rarest = min(self._seated, key=lambda one: self._visits.get(one, 0))
        if visits <= 2 * self._visits.get(rarest, 0) + 1:
            return False
        self._seated.discard(rarest)
        self._on_leave(rarest)
        return True

    def _age(self) -> None:
        self._until_halved -= 1
        if not self._until_halved:
            self._until_halved = _PERIOD
            halved = {visitor: visits // 2 for visitor, visits in self._visits.items()}
            self._visits = {visitor: visits for visitor, visits in halved.items() if visits}
