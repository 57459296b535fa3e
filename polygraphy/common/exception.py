"""Another address of `polygraphy.exception`, from which scripts import."""

from polygraphy.exception import *  # noqa: F403
