"""TensorRT's names of data types."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.tensorrt.library.module import trt
from polygraphy.domain.errors import DataTypeConversionException
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

_NAMES = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float16": "HALF",
    "float32": "FLOAT",
    "float4": "FP4",
    "float8e4m3fn": "FP8",
    "float8e8m0": "E8M0",
    "int32": "INT32",
    "int4": "INT4",
    "int64": "INT64",
    "int8": "INT8",
    "uint8": "UINT8",
}
_ENTRIES = {name: DataType[ours] for ours, name in _NAMES.items()}
# Other spellings: the module has attributes with most of these names.
_SPELLINGS = {
    "bf16": "bfloat16",
    "float": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "fp4": "float4",
    "fp8": "float8e4m3fn",
    "half": "float16",
}


class TensorrtDataTypes:
    """Implements the port `DataTypeConverter` for the TensorRT module in use."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the member of `tensorrt.DataType`; None if this version has no such type."""
        name = _NAMES.get(entry.name)
        return None if name is None else getattr(trt.DataType, name, None)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return this package's data type for a member of `tensorrt.DataType`, or None.
        The result is None for other values.
        """
        return _ENTRIES.get(str(getattr(dtype, "name", "")))


def as_trt_dtype(dtype: Any) -> Any:
    """Return the member of `tensorrt.DataType` for our data type, TensorRT's, or a name.

    Raises:
        DataTypeConversionException: TensorRT has no such type.
    """
    if isinstance(dtype, str):
        name = dtype.lower()
        name = _SPELLINGS.get(name, name)
        if name not in _NAMES:
            known_name = ", ".join(sorted({*_NAMES, *_SPELLINGS}))
            raise DataTypeConversionException(
                f"TensorRT has no data type {dtype!r}.", hint=f"Available: {known_name}."
            )
        dtype = DataType[name]
    if isinstance(dtype, DataTypeEntry):
        return DataType.to_dtype(dtype, "tensorrt")
    if getattr(dtype, "name", None) in _ENTRIES:
        return dtype
    return DataType.to_dtype(DataType.from_dtype(dtype), "tensorrt")
