"""Data types of other libraries, by the functions of `polygraphy.datatype.numpy` and its like."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry


def _converter_names(title: str, library: str, name: str | None = None) -> SimpleNamespace:
    """Return the names of a published module that converts data types from and to a library."""
    name = name or library

    def from_datatype(self: DataTypeEntry) -> Any:
        """Return the type of a library for a data type."""
        return DataType.to_dtype(self, library)

    def from_library(native: Any) -> DataTypeEntry:
        """Return the data type for a type of a library."""
        dtype: DataTypeEntry = DataType.from_dtype(native, library)
        return dtype

    from_datatype.__doc__ = (
        f"Return the data type of {title} for one of Polygraphy; raise DataTypeConversionException"
        " if there is none."
    )
    from_library.__doc__ = (
        "Return the data type of Polygraphy for one of the library; raise"
        " DataTypeConversionException if there is none."
    )
    from_library.__name__ = f"from_{name}"
    return SimpleNamespace(
        __all__=["DataType", "from_datatype", f"from_{name}"],
        DataType=DataType,
        from_datatype=from_datatype,
        **{f"from_{name}": from_library},
    )


numpy = _converter_names("NumPy", "numpy")
onnx = _converter_names("ONNX", "onnx")
onnxrt = _converter_names("ONNX Runtime", "onnxruntime", "onnxrt")
tensorrt = _converter_names("TensorRT", "tensorrt")
torch = _converter_names("PyTorch", "torch")
