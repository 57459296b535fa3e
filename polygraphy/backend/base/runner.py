"""Another address of `polygraphy.backend.base`, from which scripts import."""

from polygraphy.backend.base import *  # noqa: F403
