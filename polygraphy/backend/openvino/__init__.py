"""OpenVINO."""

from typing import TYPE_CHECKING

from polygraphy.adapters.openvino.compiled import CompiledModelFromOnnx, compiled_model_from_onnx
from polygraphy.adapters.openvino.runner import OpenvinoRunner
from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.adapters.openvino.party import OpenvinoParty

__all__ = ["CompiledModelFromOnnx", "OpenvinoParty", "OpenvinoRunner", "compiled_model_from_onnx"]

__getattr__ = defer_names(
    globals(), {"OpenvinoParty": "polygraphy.adapters.openvino.party"}, submodules=()
)
