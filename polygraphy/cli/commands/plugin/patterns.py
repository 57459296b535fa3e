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
from polygraphy.codegen.source import Call, quoted


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
        excludes="--exclude",
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


_LOADING = (OnnxLoadOptions, OnnxCastOptions, OnnxShapeOptions)
_ENDING = ()
_CONFIG = "config.yaml"


class PluginListCommand(Command):
    """Say which plugins of a folder could take the place of parts of an ONNX model, and how often
    each.
    """

    name = "plugin list"
    groups = (OneModelOptions, PluginFolderOptions, PluginChoiceOptions, *_LOADING, *_ENDING)

    def program(self, values: Values) -> Program:
        return matching(values, values[OneModelOptions].path, _onnx(values), None)


class PluginMatchCommand(Command):
    """Find the parts of an ONNX model that the plugins of a folder could take the place of, and
    write them to a YAML file, from which plugin replace puts the plugins in.
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
        path = values[OneModelOptions].path
        output = values[MatchOutputOptions].output or _beside(path, _CONFIG)
        check_files(values, written=[("--output", output)])
        return matching(values, path, _onnx(values), output)


class PluginReplaceCommand(Command):
    """Put plugins in place of parts of an ONNX model, as a YAML file says that plugin match has
    written.
    """

    name = "plugin replace"
    groups = (OneModelOptions, PluginFolderOptions, ReplaceOptions, *_LOADING, *_ENDING)

    def program(self, values: Values) -> Program:
        path, options = values[OneModelOptions].path, values[ReplaceOptions]
        config = options.config or _beside(path, _CONFIG)
        output = options.output or _beside(path, "replaced.onnx")
        check_paths([("--config", config)], [("--output", output)])
        check_files(values, written=[("--output", output)])
        return Program(
            "plugin_replace.py.j2",
            f"Put plugins into {quoted(path)}.",
            model=path,
            onnx=_onnx(values),
            plugin_dir=plugin_folder(values),
            config=config,
            save=Call("save_onnx", kwargs={"path": output}),
        )


def matching(values: Values, model: str, onnx: OnnxModel, output: str | None) -> Program:
    """Return the program that finds what plugins match, and saves it where an output is named."""
    return Program(
        "plugin_match.py.j2",
        f"Find the parts of {quoted(model)} that plugins could compute.",
        model=model,
        onnx=onnx,
        match=call_of("match_plugins", values, plugin_folder(values)),
        output=output,
    )


def _onnx(values: Values) -> OnnxModel:
    return onnx_of(values).with_mapped_weights


def plugin_folder(values: Values) -> str:
    """Return the folder of the plugins.

    Raises:
        CommandLineError: it is not given.
    """
    folder = values[PluginFolderOptions].plugin_dir
    if folder is None:
        raise CommandLineError("--plugin-dir is missing: the folder with a folder per plugin.")
    return folder


def _beside(model: str, name: str) -> str:
    return str(PurePath(model).parent / name)
