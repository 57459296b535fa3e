"""ONNX Runtime."""

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx, session_from_onnx
from polygraphy.mod.deferred import deferred_names

__all__ = ["OnnxrtParty", "OnnxrtRunner", "SessionFromOnnx", "session_from_onnx"]

__getattr__ = deferred_names(globals(), submodules=("loader", "runner"))
