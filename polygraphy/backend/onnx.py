"""ONNX models, and the reference evaluator that the `onnx` package carries."""

from polygraphy.adapters.onnx.model import (
    BytesFromOnnx,
    OnnxFromBytes,
    OnnxFromPath,
    bytes_from_onnx,
    onnx_from_bytes,
    onnx_from_path,
)
from polygraphy.adapters.onnx.outputs import ModifyOutputs, modify_outputs
from polygraphy.adapters.onnx.reference import OnnxReferenceRunner
from polygraphy.adapters.onnx.saving import SaveOnnx, save_onnx
from polygraphy.adapters.onnx.shapes import InferShapes, infer_shapes

__all__ = [
    "BytesFromOnnx",
    "InferShapes",
    "ModifyOutputs",
    "OnnxFromBytes",
    "OnnxFromPath",
    "OnnxReferenceRunner",
    "SaveOnnx",
    "bytes_from_onnx",
    "infer_shapes",
    "modify_outputs",
    "onnx_from_bytes",
    "onnx_from_path",
    "save_onnx",
]
