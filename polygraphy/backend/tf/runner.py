"""Another address of `polygraphy.backend.tf`, from which scripts import."""

from polygraphy.backend.tf import *  # noqa: F403
