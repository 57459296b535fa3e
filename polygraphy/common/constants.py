"""Another address of `polygraphy.constants`, from which scripts import."""

from polygraphy.constants import *  # noqa: F403
