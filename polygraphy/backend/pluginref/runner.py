"""Another address of `polygraphy.backend.pluginref`, from which scripts import."""

from polygraphy.backend.pluginref import *  # noqa: F403
