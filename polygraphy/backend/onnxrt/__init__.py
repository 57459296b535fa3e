"""ONNX Runtime."""

from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx, session_from_onnx

__all__ = ["OnnxrtRunner", "SessionFromOnnx", "session_from_onnx"]
