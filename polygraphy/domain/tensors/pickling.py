"""What is saved: through a `ResultStore`, or as a pickle, with the names of classes that NVIDIA's
Polygraphy wrote into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from polygraphy.binding import resolve
from polygraphy.domain.ports import PathOrFile, ResultStore

Class = TypeVar("Class", bound=type)
Value = TypeVar("Value")


def pickle_as(module: str) -> Callable[[Class], Class]:
    """Return a decorator for a class that pickles refer to by a published module,
    so that the class can move. The names are those in NVIDIA's pickles."""

    def rename(cls: Class) -> Class:
        """Return the class with the published module as its own."""
        cls.__module__ = module
        return cls

    return rename


def pickled_items(state: dict[str, Any]) -> Any:
    """Return the items of a list or dictionary in NVIDIA's pickles,
    which is an attribute in its state; None for a pickle of this package.
    """
    for word in ("key_type", "value_type", "elem_type"):
        state.pop(word, None)
    return state.pop("dct", state.pop("lst", None))


class PublishedDict(dict[str, Value]):
    """A dictionary created from at most one other, like NVIDIA's classes, whose pickles it reads.

    Keyword arguments are not entries: `dct` is the name of the argument there.
    """

    def __init__(
        self, dct: Mapping[str, Value] | Iterable[tuple[str, Value]] | None = None
    ) -> None:
        """Create a dictionary from another one, or from pairs."""
        super().__init__(() if dct is None else dct)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore pickled attributes, including those that NVIDIA's Polygraphy saves."""
        entries = pickled_items(state)
        if entries is not None:
            self.__init__(entries)  # type: ignore[misc]
        vars(self).update(state)


S = TypeVar("S", bound="Storable")


class Storable:
    """Base class with methods to save and load an object."""

    __slots__ = ()

    def save(self, dest: PathOrFile) -> None:
        """Write this object to one file, completely or not at all, or to an open file."""
        resolve(ResultStore).save(self, dest)

    @classmethod
    def load(cls: type[S], src: PathOrFile) -> S:
        """Return the object in a file.
        Raise FileError if the file is missing, damaged or of another kind."""
        return resolve(ResultStore).load(src, cls._class_in_files())

    def to_json(self) -> str:
        """Return this object as JSON text."""
        return resolve(ResultStore).dumps(self)

    @classmethod
    def from_json(cls: type[S], src: str) -> S:
        """Return the object in JSON text; raise FileError if it is damaged or of another kind."""
        return resolve(ResultStore).loads(src, cls._class_in_files())

    @classmethod
    def _class_in_files(cls: type[S]) -> type[S]:
        """Return the class that files name; it is the same for derived classes."""
        return next(base for base in cls.__mro__ if Storable in base.__bases__)
