"""Small questions to ONNX models, and outputs that are marked, at the address that scripts use."""

from polygraphy.legacy import onnx
from polygraphy.legacy.onnx import *  # noqa: F403

__all__ = []
__all__ += onnx.__all__
