"""Another address of `polygraphy.util`, from which scripts import."""

from polygraphy.util import *  # noqa: F403
