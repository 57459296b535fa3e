"""Another address of `polygraphy.mod`, from which scripts import."""

from polygraphy.mod import *  # noqa: F403
