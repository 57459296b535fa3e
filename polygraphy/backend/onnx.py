"""ONNX models, and the reference evaluator that the `onnx` package carries."""

from polygraphy.adapters.onnx.model import (
    BytesFromOnnx,
    OnnxFromBytes,
    OnnxFromPath,
    bytes_from_onnx,
    onnx_from_bytes,
    onnx_from_path,
)
from polygraphy.adapters.onnx.reference import OnnxReferenceRunner

__all__ = [
    "BytesFromOnnx",
    "OnnxFromBytes",
    "OnnxFromPath",
    "OnnxReferenceRunner",
    "bytes_from_onnx",
    "onnx_from_bytes",
    "onnx_from_path",
]
