"""ONNX Runtime."""

from typing import TYPE_CHECKING

from polygraphy.adapters.onnxruntime.runner import OnnxrtRunner
from polygraphy.adapters.onnxruntime.session import SessionFromOnnx, session_from_onnx
from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.adapters.onnxruntime.party import OnnxrtParty

__all__ = ["OnnxrtParty", "OnnxrtRunner", "SessionFromOnnx", "session_from_onnx"]

__getattr__ = defer_names(
    globals(),
    {"OnnxrtParty": "polygraphy.adapters.onnxruntime.party"},
    submodules=("loader", "runner"),
)
