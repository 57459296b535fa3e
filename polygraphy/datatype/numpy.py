"""Data types of NumPy, by the functions that scripts import."""

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "from_datatype", "from_numpy"]


def from_datatype(self: DataTypeEntry) -> Any:
    """Return what NumPy calls a data type; DataTypeConversionException if it has none."""
    return DataType.to_dtype(self, "numpy")


def from_numpy(numpy_type: Any) -> DataTypeEntry:
    """Return the data type; DataTypeConversionException if it has no counterpart here."""
    found: DataTypeEntry = DataType.from_dtype(numpy_type, "numpy")
    return found
