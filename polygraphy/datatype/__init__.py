"""Data types of tensors, with the same names in all backends."""

from polygraphy.domain.tensors.datatype import (
    DataType,
    DataTypeEntry,
    register_dtype_exporter,
    register_dtype_importer,
)
from polygraphy.mod.deferred import defer_names

__all__ = ["DataType", "DataTypeEntry", "register_dtype_exporter", "register_dtype_importer"]

__getattr__ = defer_names(
    globals(), submodules=("datatype", "numpy", "onnx", "onnxrt", "tensorrt", "torch")
)
