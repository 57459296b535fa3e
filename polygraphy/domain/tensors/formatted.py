"""Arrays whose elements lie in memory in a different order than their shape says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from polygraphy.domain.tensors.pickling import Storable, pickle_as


def _as_tuple(shape: Iterable[Any]) -> tuple[Any, ...]:
    """Return a shape as a tuple."""
    return tuple(shape)


@pickle_as("polygraphy.common.struct")
@frozen(eq=False)
class FormattedArray(Storable):
    """An array with its logical shape, if it is stored in a different one, such as a vectorized
    one.

    Attributes:
        array: the elements as they lie in memory, padding included.
        shape: the shape that is meant.
    """

    array: Any
    shape: tuple[Any, ...] = field(converter=_as_tuple)

    @property
    def dtype(self) -> Any:
        """Return the data type of the elements."""
        return self.array.dtype
