"""The commands `plugin match`, `plugin list` and `plugin replace`."""

from __future__ import annotations

from pathlib import PurePath

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.model_options import OneModelOptions
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxModel,
    OnnxShapeOptions,
    onnx_of,
)
from polygraphy.cli.shared.paths import check_files, check_paths
from polygraphy.codegen.source import Call, quote_word


@option_group
class PluginFolderOptions(Options):
    """Plugins: the folder with the plugins."""

    plugin_dir: str | None = option(
        "--plugin-dir",
        reads="Folder of plugins",
        kind=Text("DIR"),
        help="Folder with one subfolder per plugin, each with a script pattern.py. Required.",
    )


@option_group
class PluginChoiceOptions(Options):
    """Choice: the plugins to try."""

    include: tuple[str, ...] = option(
        "--include",
        kind=Texts("PLUGIN"),
        excludes="--exclude",
        help="Plugins to search for, by the names of their folders; all others are ignored.",
        feeds="match_plugins.include",
    )
    exclude: tuple[str, ...] = option(
        "--exclude",
        kind=Texts("PLUGIN"),
        help="Plugins to ignore, by the names of their folders.",
        feeds="match_plugins.exclude",
    )


@option_group
class MatchOutputOptions(Options):
    """Output: where to save the matches."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Path of the YAML file to write.",
        otherwise="config.yaml next to the model",
    )


@option_group
class ReplaceOptions(Options):
    """Replacement: the nodes to replace, and where to save the model."""

    config: str | None = option(
        "--config",
        reads="File of plugins",
        help="YAML file that plugin match wrote.",
        otherwise="config.yaml next to the model",
    )
    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Path of the edited model.",
        otherwise="replaced.onnx next to the model",
    )


_LOADING = (OnnxLoadOptions, OnnxCastOptions, OnnxShapeOptions)
_ENDING = ()
_CONFIG = "config.yaml"


class PluginListCommand(Command):
    """List the plugins in a folder that can replace parts of an ONNX model, with the number of
    matches of each.
    """

    name = "plugin list"
    groups = (OneModelOptions, PluginFolderOptions, PluginChoiceOptions, *_LOADING, *_ENDING)

    def program(self, values: Values) -> Program:
        """Return the program that lists plugin matches."""
        return matching_program(
            values, values[OneModelOptions].path, _model_with_mapped_weights(values), None
        )


class PluginMatchCommand(Command):
    """Find the parts of an ONNX model that the plugins in a folder can replace, and write them to
    a YAML file for plugin replace.
    """

    name = "plugin match"
    groups = (
        OneModelOptions,
        PluginFolderOptions,
        PluginChoiceOptions,
        MatchOutputOptions,
        *_LOADING,
        *_ENDING,
    )

    def program(self, values: Values) -> Program:
        """Return the program that saves plugin matches."""
        path = values[OneModelOptions].path
        output = values[MatchOutputOptions].output or _path_beside(path, _CONFIG)
        check_files(values, written=[("--output", output)])
        return matching_program(values, path, _model_with_mapped_weights(values), output)


class PluginReplaceCommand(Command):
    """Replace parts of an ONNX model with plugins, as listed in a YAML file from plugin match."""

    name = "plugin replace"
    groups = (OneModelOptions, PluginFolderOptions, ReplaceOptions, *_LOADING, *_ENDING)

    def program(self, values: Values) -> Program:
        """Return the program that replaces parts of the model with plugins."""
        path, options = values[OneModelOptions].path, values[ReplaceOptions]
        config = options.config or _path_beside(path, _CONFIG)
        output = options.output or _path_beside(path, "replaced.onnx")
        check_paths([("--config", config)], [("--output", output)])
        check_files(values, written=[("--output", output)])
        return Program(
            "plugin_replace.py.j2",
            f"Replace parts of {quote_word(path)} with plugins.",
            model=path,
            onnx=_model_with_mapped_weights(values),
            plugin_dir=plugin_folder(values),
            config=config,
            save=Call("save_onnx", kwargs={"path": output}),
        )


def matching_program(values: Values, model: str, onnx: OnnxModel, output: str | None) -> Program:
    """Return the program that finds plugin matches, and saves them to an output."""
    return Program(
        "plugin_match.py.j2",
        f"Find the parts of {quote_word(model)} that match plugins.",
        model=model,
        onnx=onnx,
        match=call_of("match_plugins", values, plugin_folder(values)),
        output=output,
    )


def _model_with_mapped_weights(values: Values) -> OnnxModel:
    """Return the ONNX model of the command line with its weights mapped."""
    return onnx_of(values).with_mapped_weights


def plugin_folder(values: Values) -> str:
    """Return the folder of the plugins.

    Raises:
        CommandLineError: it is not given.
    """
    folder = values[PluginFolderOptions].plugin_dir
    if folder is None:
        raise CommandLineError(
            "missing --plugin-dir: set the folder with one subfolder per plugin."
        )
    return folder


def _path_beside(model: str, name: str) -> str:
    """Return the path of a file in the folder of the model."""
    return str(PurePath(model).parent / name)
