"""Dictionaries of arrays in a file; each array is read on first access."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.adapters.files.json.json_codec import translate_content_errors
from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.results.results import IterationResult


@frozen(eq=False)
class UnreadArray:
    """A placeholder for an array in a file; `content` reads it, and raises ContentError if it is
    damaged."""

    content: Callable[[], np.ndarray[Any, Any]]
    path: Path

    def read(self) -> np.ndarray[Any, Any]:
        """Return the array; raise FileError if it is damaged or the file is missing."""
        with (
            translate_content_errors(f"load {self.path}", self.path),
            translate_os_errors(self.path, "read"),
        ):
            return self.content()


class StoredArrays(dict[str, Any]):
    """A dictionary whose arrays are read and checked on first access; a damaged one raises
    FileError.

    Because iterating is a method of its own here, Python takes the values for ``dict(these)`` and
    ``**these`` through `__getitem__` as well.
    """

    def __getitem__(self, name: str) -> Any:
        """Return an array."""
        value = super().__getitem__(name)
        if isinstance(value, UnreadArray):
            value = value.read()
            self[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return an array, or the default if there is none of that name."""
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return the arrays in order; each is read on access."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return names and arrays in order; each array is read on access."""
        return ItemsView(self)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an array, and return it."""
        if name in self:
            _ = self[name]
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last array, and return its name and the array."""
        name = next(reversed(self), None)
        return super().popitem() if name is None else (name, self.pop(name))

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return an array; the default is added if there is none of that name."""
        if name not in self:
            self[name] = default
        return self[name]

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary of the arrays."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        """Return a plain dictionary of these arrays and others."""
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        """Return a plain dictionary of others and these arrays."""
        return other | dict(self)

    def __eq__(self, other: object) -> bool:
        """Return whether another dictionary has equal arrays."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(
            np.array_equal(array, other[name]) for name, array in self.items()
        )

    def __ne__(self, other: object) -> bool:
        """Return whether another dictionary differs."""
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        """Return the names as text, without reading arrays."""
        return repr(dict(self))


class StoredIteration(StoredArrays, IterationResult):
    """The outputs of one inference in a file."""

    __eq__ = IterationResult.__eq__
    __hash__ = None
    __repr__ = IterationResult.__repr__


def is_unread(arrays: Mapping[str, Any]) -> bool:
    """Return whether a decoded dictionary contains arrays that are still in a file."""
    return any(isinstance(value, UnreadArray) for value in arrays.values())


def make_lists_lazy(decoded: Any) -> Any:
    """Return a decoded value in which lists of dictionaries with unread arrays are lists of
    `StoredArrays`."""
    if type(decoded) is not list:
        return decoded
    return [
        StoredArrays(value) if type(value) is dict and is_unread(value) else value
        for value in decoded
    ]
