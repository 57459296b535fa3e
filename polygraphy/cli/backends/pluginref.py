"""Which plugin references there are."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, option


@frozen
class PluginRefOptions(Options):
    """Plugin References: operators in NumPy, which --pluginref uses."""

    plugin_references: str | None = option(
        "--plugin-references",
        reads="Script",
        kind=Text("SCRIPT"),
        help=(
            "Script that defines further references, with"
            " polygraphy.backend.pluginref.register(OPERATOR)."
        ),
    )
