"""Another address of `polygraphy.backend.onnx`, from which scripts import; the base of loaders of
their own is only here.
"""

from polygraphy.adapters.onnx.storage.weights import BaseLoadOnnxCopy  # noqa: F401
from polygraphy.backend.onnx import *  # noqa: F403

LARGE_MODEL_THRESHOLD = 512 << 20
"""The size in bytes from which NVIDIA's Polygraphy treats a model as large."""
PROTOBUF_THRESHOLD = 2e9
"""The size in bytes beyond which a model cannot be one protobuf message."""
