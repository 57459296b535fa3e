"""Data types of ONNX, by the functions that scripts import."""

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "from_datatype", "from_onnx"]


def from_datatype(self: DataTypeEntry) -> Any:
    """Return what ONNX calls a data type; DataTypeConversionException if it has none."""
    return DataType.to_dtype(self, "onnx")


def from_onnx(onnx_type: Any) -> DataTypeEntry:
    """Return the data type; DataTypeConversionException if it has no counterpart here."""
    found: DataTypeEntry = DataType.from_dtype(onnx_type, "onnx")
    return found
