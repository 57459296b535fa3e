"""NumPy, by reference implementations of plugins."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.declare.backend import BuiltIn
from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, option
from polygraphy.domain.catalog.formats import formats_of


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


BACKENDS = (
    BuiltIn(
        name="pluginref",
        title="the plugin references",
        help="Run the model in NumPy, by reference implementations of plugins.",
        groups=(PluginRefOptions,),
        model_types=formats_of("onnx", "tensorflow"),
        idle="--pluginref is not given",
    ),
)
