"""Helpers for ONNX models, under the module name that scripts import."""

from polygraphy.legacy import onnx
from polygraphy.legacy.onnx import *  # noqa: F403

__all__ = []
__all__ += onnx.__all__
