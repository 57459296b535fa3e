"""Another address of `polygraphy.backend.onnx`, from which scripts import."""

from polygraphy.backend.onnx import *  # noqa: F403
