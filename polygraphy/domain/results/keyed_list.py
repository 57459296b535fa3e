"""Lists that answer to keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from polygraphy.domain.errors import UnknownKeyError
from polygraphy.domain.tensors.pickling import their_items

_SHOWN = 3
"""Values of an entry that are shown."""

K = TypeVar("K")
V = TypeVar("V")


class KeyedList(list[tuple[K, list[V]]], Generic[K, V]):
    """A list of ``(key, values)`` that can be indexed by position or by key, and iterated like a
    dictionary through `items`.

    Keys may repeat; looking one up finds its first entry. Subclasses say what kind of thing a key
    is: neither an integer nor a slice.
    """

    key_description = "Key"

    def __init__(self, lst: Iterable[tuple[K, Iterable[V]]] | None = None) -> None:
        super().__init__((key, self.listed(key, values)) for key, values in lst or ())

    def listed(self, key: K, values: Iterable[V]) -> list[V]:
        """Return the values of an entry as they are kept: a list of its own."""
        return list(values)

    def append(self, elem: tuple[K, list[V]]) -> None:
        """Add an entry."""
        super().append(elem)

    def extend(self, elems: Iterable[tuple[K, list[V]]]) -> None:
        """Add entries."""
        for elem in elems:
            self.append(elem)

    @overload
    def __getitem__(self, key: SupportsIndex) -> tuple[K, list[V]]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, key: slice) -> list[tuple[K, list[V]]]: ...
    @overload
    def __getitem__(self, key: K) -> list[V]: ...
    def __getitem__(self, key: Any) -> Any:
        """Return the entry at a position, or the values of the first entry with a key."""
        if _is_position(key):
            return super().__getitem__(key)
        return super().__getitem__(self.index_of(key))[1]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace the entry at a position, or the values of the first entry with a key; a new key
        is appended.
        """
        if _is_position(key):
            super().__setitem__(key, value)
        elif key in self:
            super().__setitem__(self.index_of(key), (key, self.listed(key, value)))
        else:
            self.append((key, self.listed(key, value)))

    def __contains__(self, key: object) -> bool:
        return any(key in (own, (own, values)) for own, values in self.items())

    def index_of(self, key: K) -> int:
        """Return the position of the first entry with a key; UnknownKeyError when there is
        none.
        """
        for position, (own, _) in enumerate(self.items()):
            if own == key:
                return position
        raise UnknownKeyError(self.key_description, str(key), map(str, self.keys()))

    def keys(self) -> list[K]:
        """Return the keys, in order."""
        return [key for key, _ in self.items()]

    def values(self) -> list[list[V]]:
        """Return the values of each entry, in order."""
        return [values for _, values in self.items()]

    def items(self) -> Iterator[tuple[K, list[V]]]:
        """Yield ``(key, values)``."""
        return super().__iter__()

    def update(self, other: KeyedList[K, V] | Mapping[K, Iterable[V]]) -> None:
        """Take over the entries of `other`; an entry whose key is here already is replaced."""
        for key, values in other.items():
            self[key] = values

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle says besides the entries; NVIDIA's says those, too."""
        entries = their_items(state)
        if entries is not None:
            self[:] = entries.items() if isinstance(entries, Mapping) else entries
        vars(self).update(state)

    def __repr__(self) -> str:
        entries = ", ".join(f"({key!r}, {_listed(values)})" for key, values in self.items())
        return f"{type(self).__name__}([{entries}])"


def _listed(values: Sequence[Any]) -> str:
    """Return a list as text, of a long one its beginning."""
    shown = ", ".join(map(repr, values[:_SHOWN]))
    more = len(values) - _SHOWN
    return f"[{shown}{f', and {more} more' if more > 0 else ''}]"


def _is_position(key: Any) -> bool:
    """Return whether something is an integer of any library, or a slice."""
    return isinstance(key, (int, slice)) or hasattr(type(key), "__index__")
