"""Which shapes come back often enough to be given a context of their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable

_USES = 2
"""From which use on a key is admitted: what comes back once may do so again."""
_PERIOD = 64
"""After how many uses what was long ago counts half."""


class ShapeCache:
    """Admits a bounded number of keys: an LFU cache with admission.

    A key is admitted on its second use. When the cache is full, the least frequent key is evicted
    for one that comes more than twice as often: admission costs something, so that many keys must
    not evict each other all the time.
    """

    def __init__(self, capacity: int, on_evicted: Callable[[Hashable], None]) -> None:
        """Hold up to `capacity` keys; `on_evicted` is called with each that is evicted."""
        self._capacity = capacity
        self._on_evicted = on_evicted
        self._uses: dict[Hashable, int] = {}
        self._held: set[Hashable] = set()
        self._until_halved = _PERIOD

    def admits(self, key: Hashable) -> bool:
        """Count a use; return whether the key is held now."""
        self._age()
        uses = self._uses[key] = self._uses.get(key, 0) + 1
        if key in self._held:
            return True
        if uses < _USES:
            return False
        if len(self._held) >= self._capacity and not self._make_room(uses):
            return False
        self._held.add(key)
        return True

    def _make_room(self, uses: int) -> bool:
        rarest = min(self._held, key=lambda one: self._uses.get(one, 0))
        if uses <= 2 * self._uses.get(rarest, 0) + 1:
            return False
        self._held.discard(rarest)
        self._on_evicted(rarest)
        return True

    def _age(self) -> None:
        self._until_halved -= 1
        if not self._until_halved:
            self._until_halved = _PERIOD
            halved = {key: uses // 2 for key, uses in self._uses.items()}
            self._uses = {key: uses for key, uses in halved.items() if uses}
