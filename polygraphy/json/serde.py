"""Another address of `polygraphy.json`, from which scripts import."""

from polygraphy.json import *  # noqa: F403
