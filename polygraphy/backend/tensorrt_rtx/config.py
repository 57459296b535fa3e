"""Another address of `polygraphy.backend.tensorrt_rtx`, from which scripts import."""

from polygraphy.backend.tensorrt_rtx import *  # noqa: F403
