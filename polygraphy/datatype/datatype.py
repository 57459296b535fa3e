"""Another address of `polygraphy.datatype`, from which scripts import."""

from polygraphy.datatype import *  # noqa: F403
