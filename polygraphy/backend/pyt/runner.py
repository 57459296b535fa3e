"""Another address of `polygraphy.backend.pyt`, from which scripts import."""

from polygraphy.backend.pyt import *  # noqa: F403
