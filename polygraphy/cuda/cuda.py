"""Another address of `polygraphy.cuda`, from which scripts import."""

from polygraphy.cuda import *  # noqa: F403
