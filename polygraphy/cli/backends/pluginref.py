"""NumPy, by reference implementations of plugins."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import BuiltInBackend, RunnerModel
from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import Call
from polygraphy.domain.catalog.formats import formats_of


@option_group
class PluginRefOptions(Options):
    """Plugin References: NumPy operators for --pluginref."""

    plugin_references: str | None = option(
        "--plugin-references",
        reads="Script",
        feeds="PluginRefRunner.references",
        kind=Text("SCRIPT"),
        help="Script that registers additional references with"
        " polygraphy.backend.pluginref.register(OPERATOR).",
    )


def _runner_call(values: Values, model: RunnerModel) -> Call:
    """Return the call that creates the runner of plugin references."""
    graph = Call("OnnxFromPath", [model.source]) if model.is_path else model.source
    return call_of("PluginRefRunner", values, graph)


BACKENDS = (
    BuiltInBackend(
        name="pluginref",
        title="the plugin references",
        help="Run the model in NumPy, with reference implementations of plugins.",
        groups=lambda: (PluginRefOptions,),
        model_types=formats_of("onnx", "tensorflow"),
        idle="--pluginref is not set",
        call=_runner_call,
    ),
)
