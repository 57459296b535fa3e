"""Another address of `polygraphy.common`, from which scripts import."""

from polygraphy.common import *  # noqa: F403
