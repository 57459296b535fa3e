"""Dictionaries and lists that hold values of one type only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from polygraphy.domain.errors import UsageError

__all__ = ["TypedDict", "TypedList"]


def TypedDict(key_type_func: Callable[[], Any], value_type_func: Callable[[], Any]) -> type:
    """Return a class of dictionaries; a key or a value of another type raises a UsageError.

    Args:
        key_type_func: returns the type of keys; called for each one that is set.
        value_type_func: returns the type of values.
    """

    class Interface(dict[Any, Any]):
        """A dictionary of one type of keys and one of values."""

        def __init__(self, dct: Mapping[Any, Any] | None = None) -> None:
            """Create a dictionary of checked entries."""
            super().__init__()
            self.update(dct or {})

        def __setitem__(self, key: Any, value: Any) -> None:
            """Set an entry; raise UsageError for a key or value of another type."""
            _check_type(self, "key", key, key_type_func())
            _check_type(self, "value", value, value_type_func())
            super().__setitem__(key, value)

        def update(self, entries: Any = (), **more: Any) -> None:  # type: ignore[override]
            """Add the entries of another dictionary, or of an iterable of pairs."""
            for key, value in dict(entries, **more).items():
                self[key] = value

    return Interface


def TypedList(elem_type_func: Callable[[], Any]) -> type:
    """Return a class of lists; an element of another type raises a UsageError.

    Args:
        elem_type_func: returns the type of elements; called for each one that is set.
    """

    class Interface(list[Any]):
        """A list of one type of elements."""

        def __init__(self, lst: Iterable[Any] | None = None) -> None:
            """Create a list of checked elements."""
            super().__init__()
            self.extend(lst or ())

        def append(self, elem: Any) -> None:
            """Add an element."""
            _check_type(self, "element", elem, elem_type_func())
            super().append(elem)

        def extend(self, elems: Iterable[Any]) -> None:
            """Add elements."""
            for elem in elems:
                self.append(elem)

        def __setitem__(self, index: Any, elem: Any) -> None:
            """Set an element; raise UsageError for one of another type."""
            for value in elem if isinstance(index, slice) else [elem]:
                _check_type(self, "element", value, elem_type_func())
            super().__setitem__(index, elem)

        def __iadd__(self, elems: Iterable[Any]) -> Any:  # type: ignore[misc]
            """Append elements, and return the list; raise UsageError for one of another type."""
            self.extend(elems)
            return self

    return Interface


def _check_type(owner: Any, what: str, value: Any, kind: Any) -> None:
    """Raise a UsageError if a key, value or element has the wrong type."""
    if not isinstance(value, kind):
        raise UsageError(
            f"A {what} of {type(owner).__name__} is a {getattr(kind, '__name__', kind)}, not a"
            f" {type(value).__name__}: {value!r}."
        )
