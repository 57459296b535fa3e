"""Another address of `polygraphy.comparator`, from which scripts import."""

from polygraphy.comparator import *  # noqa: F403
