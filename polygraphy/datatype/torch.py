"""Data types of PyTorch, by the functions that scripts import."""

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "from_datatype", "from_torch"]


def from_datatype(self: DataTypeEntry) -> Any:
    """Return what PyTorch calls a data type; DataTypeConversionException if it has none."""
    return DataType.to_dtype(self, "torch")


def from_torch(torch_type: Any) -> DataTypeEntry:
    """Return the data type; DataTypeConversionException if it has no counterpart here."""
    found: DataTypeEntry = DataType.from_dtype(torch_type, "torch")
    return found
