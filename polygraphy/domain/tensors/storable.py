"""What is saved to files and read back through a `ResultStore`."""

from __future__ import annotations

from typing import TypeVar

from polygraphy.ports.binding import resolve
from polygraphy.ports.storage import PathOrFile, ResultStore

S = TypeVar("S", bound="Storable")


class Storable:
    """Saves and loads what derives from it."""

    __slots__ = ()

    def save(self, dest: PathOrFile) -> None:
        """Write this to one file, whole or not at all, or to an open file."""
        resolve(ResultStore).save(self, dest)

    @classmethod
    def load(cls: type[S], src: PathOrFile) -> S:
        """Read one; FileError when the file is missing, damaged or holds something else."""
        return resolve(ResultStore).load(src, cls._stored_class())

    def to_json(self) -> str:
        """Return this as JSON text."""
        return resolve(ResultStore).dumps(self)

    @classmethod
    def from_json(cls: type[S], src: str) -> S:
        """Read one from JSON text; FileError when it is damaged or holds something else."""
        return resolve(ResultStore).loads(src, cls._stored_class())

    @classmethod
    def _stored_class(cls: type[S]) -> type[S]:
        """Return the class that files name, which a class derived from it does not change."""
        return next(each for each in cls.__mro__ if Storable in each.__bases__)
