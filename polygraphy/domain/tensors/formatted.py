"""Arrays whose elements lie in memory in another order than their shape says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from polygraphy.domain.tensors.pickling import pickled_as
from polygraphy.ports.binding import resolve
from polygraphy.ports.storage import PathOrFile, ResultStore


def _as_tuple(shape: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(shape)


@pickled_as("polygraphy.common.struct")
@frozen(eq=False)
class FormattedArray:
    """An array, and the shape that it means where it is stored in another, say vectorized, one.

    Attributes:
        array: the elements as they lie in memory, padding included.
        shape: the shape that is meant.
    """

    array: Any
    shape: tuple[Any, ...] = field(converter=_as_tuple)

    @property
    def dtype(self) -> Any:
        """The data type of the elements."""
        return self.array.dtype

    def save(self, dest: PathOrFile) -> None:
        """Write this array to a file, whole or not at all, or to an open file."""
        resolve(ResultStore).save(self, dest)

    @staticmethod
    def load(src: PathOrFile) -> FormattedArray:
        """Read an array; FileError when the file is missing, damaged or holds something else."""
        return resolve(ResultStore).load(src, FormattedArray)

    def to_json(self) -> str:
        """Return this array as JSON text."""
        return resolve(ResultStore).dumps(self)

    @staticmethod
    def from_json(src: str) -> FormattedArray:
        """Read an array from JSON text; FileError when it is damaged or holds something else."""
        return resolve(ResultStore).loads(src, FormattedArray)
