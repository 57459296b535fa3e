"""ONNX's numbers of data types: the members of `onnx.TensorProto.DataType`."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

# The numbers are part of the file format (onnx.proto), so `onnx` itself is not needed to know them.
_NUMBERS = {
    DataType.FLOAT32: 1,
    DataType.UINT8: 2,
    DataType.INT8: 3,
    DataType.UINT16: 4,
    DataType.INT16: 5,
    DataType.INT32: 6,
    DataType.INT64: 7,
    DataType.STRING: 8,
    DataType.BOOL: 9,
    DataType.FLOAT16: 10,
    DataType.FLOAT64: 11,
    DataType.UINT32: 12,
    DataType.UINT64: 13,
    DataType.COMPLEX64: 14,
    DataType.COMPLEX128: 15,
    DataType.BFLOAT16: 16,
    DataType.FLOAT8E4M3FN: 17,
    DataType.FLOAT8E4M3FNUZ: 18,
    DataType.FLOAT8E5M2: 19,
    DataType.FLOAT8E5M2FNUZ: 20,
    DataType.UINT4: 21,
    DataType.INT4: 22,
    DataType.FLOAT4: 23,
    DataType.FLOAT8E8M0: 24,
    DataType.UINT2: 25,
    DataType.INT2: 26,
}
_ENTRIES = {number: entry for entry, number in _NUMBERS.items()}


class OnnxDataTypes:
    """Translates between our data types and ONNX's numbers."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the number of a data type."""
        return _NUMBERS.get(entry)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for what is no number that is known here."""
        try:
            return _ENTRIES.get(int(dtype))
        except (TypeError, ValueError):
            return None
