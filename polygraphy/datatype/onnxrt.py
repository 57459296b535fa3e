"""Data types of ONNX Runtime, by the functions that scripts import."""

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

__all__ = ["DataType", "from_datatype", "from_onnxrt"]


def from_datatype(self: DataTypeEntry) -> Any:
    """Return what ONNX Runtime calls a data type; DataTypeConversionException if it has none."""
    return DataType.to_dtype(self, "onnxruntime")


def from_onnxrt(onnxrt_type: Any) -> DataTypeEntry:
    """Return the data type; DataTypeConversionException if it has no counterpart here."""
    found: DataTypeEntry = DataType.from_dtype(onnxrt_type, "onnxruntime")
    return found
