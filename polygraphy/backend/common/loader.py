"""Another address of `polygraphy.backend.common`, from which scripts import."""

from polygraphy.backend.common import *  # noqa: F403
