"""Data types of TensorRT, by the functions that scripts import."""

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "from_datatype", "from_tensorrt"]


def from_datatype(self: DataTypeEntry) -> Any:
    """Return what TensorRT calls a data type; DataTypeConversionException if it has none."""
    return DataType.to_dtype(self, "tensorrt")


def from_tensorrt(tensorrt_type: Any) -> DataTypeEntry:
    """Return the data type; DataTypeConversionException if it has no counterpart here."""
    found: DataTypeEntry = DataType.from_dtype(tensorrt_type, "tensorrt")
    return found
