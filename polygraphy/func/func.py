"""Another address of `polygraphy.func`, from which scripts import."""

from polygraphy.func import *  # noqa: F403
