"""OpenVINO."""

from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx, compiled_model_from_onnx
from polygraphy.adapters.openvino.runner import OpenvinoRunner

__all__ = ["CompiledModelFromOnnx", "OpenvinoRunner", "compiled_model_from_onnx"]
