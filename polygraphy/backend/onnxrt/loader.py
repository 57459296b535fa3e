"""Another address of `polygraphy.backend.onnxrt`, from which scripts import."""

from polygraphy.backend.onnxrt import *  # noqa: F403
