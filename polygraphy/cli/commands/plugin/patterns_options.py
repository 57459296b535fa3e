"""Which plugins are put into a model, and where that is kept."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class PluginFolderOptions(Options):
    """Plugins: where they are."""

    plugin_dir: str | None = option(
        "--plugin-dir",
        reads="Folder of plugins",
        kind=Text("DIR"),
        help="A folder with a folder per plugin, each with a script pattern.py. It must be given.",
    )


@option_group
class PluginChoiceOptions(Options):
    """Choice: which plugins are tried."""

    include: tuple[str, ...] = option(
        "--include",
        kind=Texts("PLUGIN"),
        help="Only these plugins, by the names of their folders.",
        feeds="match_plugins.include",
    )
    exclude: tuple[str, ...] = option(
        "--exclude",
        kind=Texts("PLUGIN"),
        help="All plugins but these.",
        feeds="match_plugins.exclude",
    )


@option_group
class MatchOutputOptions(Options):
    """Output: where it is kept what was found."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="The YAML file to write.",
        otherwise="config.yaml beside the model",
    )


@option_group
class ReplaceOptions(Options):
    """Replacement: what is replaced, and where the model is saved."""

    config: str | None = option(
        "--config",
        reads="File of plugins",
        help="The YAML file that plugin match wrote.",
        otherwise="config.yaml beside the model",
    )
    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Where to save the model.",
        otherwise="replaced.onnx beside the model",
    )
