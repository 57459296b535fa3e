"""Another address of `polygraphy.backend.trt`, from which scripts import."""

from polygraphy.backend.trt import *  # noqa: F403
