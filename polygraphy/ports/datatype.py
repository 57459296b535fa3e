"""How one library names the data types of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.datatype import DataTypeEntry

__all__ = ["DataTypeConverter"]


class DataTypeConverter(Protocol):
    """Translates between our data types and a library's; bound once per library, with its name as
    the key.
    """

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return what the library calls `entry`; None when it has no such type."""

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our name for the library's `dtype`; None when there is none."""
