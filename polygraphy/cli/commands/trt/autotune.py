"""The command `plugin autotune`."""

from __future__ import annotations

from pathlib import PurePath

from polygraphy.cli.backends.trt.config_options import (
    TrtConfigOptions,
    TrtDeviceOptions,
    TrtPlanOptions,
    TrtScriptOptions,
)
from polygraphy.cli.backends.trt.context import build_of
from polygraphy.cli.backends.trt.network_options import TrtParserOptions, TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtCalibrationOptions, TrtPrecisionOptions
from polygraphy.cli.backends.trt.profiles import TrtProfileOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions, TrtTimingOptions
from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.plugin.patterns import (
    PluginChoiceOptions,
    PluginFolderOptions,
    matching_program,
    plugin_folder,
)
from polygraphy.cli.commands.surgeon.surgeon_options import EditSaveOptions
from polygraphy.cli.declare.errors import CommandLineError, inform, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Choice, Integer, Number, Text
from polygraphy.cli.declare.option import (
    Options,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.compare import absolute_tolerance, relative_tolerance
from polygraphy.cli.shared.data import DataOptions, data_loader_argument, data_of, data_step
from polygraphy.cli.shared.model import CheckedModelOptions, ModelOptions
from polygraphy.cli.shared.onnx import OnnxModel
from polygraphy.cli.shared.paths import check_files
from polygraphy.codegen.source import Call, Source, quote_word

_CONFIG = "config.yaml"


@option_group
class TuningPluginOptions(Options):
    """Plugin Code: the plugins in TensorRT."""

    plugin_libraries: tuple[str, ...] = option(
        "--plugin-libraries", reads="Library", help="Shared libraries with the plugins."
    )
    python_plugins: tuple[str, ...] = option(
        "--python-plugins",
        reads="Script",
        help="Python files that register plugins with TensorRT when they run.",
    )


@option_group
class TuningConfigOptions(Options):
    """Matches: the parts that plugins can compute."""

    save_config_yaml: str | None = option(
        "--save-config-yaml",
        writes=True,
        kind=Text("PATH", nargs="?", without_word=_CONFIG),
        help="Save the matches to a YAML file.",
        otherwise="config.yaml",
    )
    load_config_yaml: str | None = option(
        "--load-config-yaml",
        reads="File of plugins",
        help="Load the matches from a YAML file that plugin match wrote.",
    )
    skip_autotuning: bool = option(
        "--skip-autotuning",
        help="Find and save the matches only, to config.yaml or the path of --save-config-yaml.",
    )


@option_group
class TuningOptions(Options):
    """Search: the combinations to try."""

    autotune_mode: str | None = option(
        "--autotune-mode",
        kind=Choice("greedy", "exhaustive"),
        help="Search: greedy adds one match at a time and keeps each one that helps; exhaustive"
        " tries every combination.",
        feeds="autotune_plugins.mode",
    )
    max_combinations: int | None = option(
        "--max-combinations",
        kind=Integer(minimum=1),
        help="Maximum number of combinations for --autotune-mode exhaustive.",
        feeds="autotune_plugins.max_combinations",
    )
    threshold: float | None = option(
        "--threshold",
        kind=Number(minimum=0),
        help="Reduction in latency, as a fraction, at which --autotune-mode exhaustive stops.",
        feeds="autotune_plugins.threshold",
    )
    rtol: float | None = relative_tolerance(
        Number(minimum=0), of="the model without plugins", otherwise="1e-3"
    )
    atol: float | None = absolute_tolerance(Number(minimum=0), otherwise="1e-3")
    no_timing_cache: bool = option(
        "--no-timing-cache",
        excludes=("--timing-cache", "--load-timing-cache", "--save-timing-cache"),
        help="Measure times in every build. By default, builds share times only with"
        " --timing-cache.",
    )


_CONFIG = "config.yaml"

_BUILD_GROUPS: tuple[type[Options], ...] = (
    TrtProfileOptions,
    TrtPrecisionOptions,
    TrtCalibrationOptions,
    TrtTimingOptions,
    TrtConfigOptions,
    TrtPlanOptions,
    TrtDeviceOptions,
    TrtScriptOptions,
    TrtParserOptions,
)
"""Options for the build of engines, without tactics of single layers: each choice of plugins has
different layers."""


class PluginAutotuneCommand(Command):
    """Find the plugins that make an ONNX model faster in TensorRT without changing its outputs,
    and save the model with these plugins.
    """

    name = "plugin autotune"
    groups = (
        CheckedModelOptions,
        PluginFolderOptions,
        PluginChoiceOptions,
        TuningPluginOptions,
        TuningConfigOptions,
        TuningOptions,
        *_BUILD_GROUPS,
        DataOptions,
        EditSaveOptions,
    )

    def program(self, values: Values) -> Program:
        """Return the program that finds the fastest plugins."""
        config, path = values[TuningConfigOptions], values[CheckedModelOptions].path
        folder = plugin_folder(values)
        output = values[EditSaveOptions].output or f"{PurePath(path).stem}_tuned.onnx"
        self._check(values, output)
        if config.skip_autotuning:
            onnx = OnnxModel().with_mapped_weights
            return matching_program(values, path, onnx, config.save_config_yaml or _CONFIG)
        trt = build_of(_add_build_groups(values), is_script=False)
        shapes = values[CheckedModelOptions].input_shapes
        data = data_of(values[DataOptions], shapes, only_first=not trt.calibrates)
        load = Call("OnnxFromPath", [Source("MODEL")])
        replaced = Call("ReplacePlugins", [load, Source("PLUGINS"), Source("chosen")])
        return Program(
            "plugin_autotune.py.j2",
            f"Find plugins that make {quote_word(path)} faster.",
            model=path,
            plugin_dir=folder,
            match=call_of("match_plugins", values),
            load_config=config.load_config_yaml,
            save_config=config.save_config_yaml,
            scripts=values[TuningPluginOptions].python_plugins,
            trt=trt,
            before=[
                *(data_step(data, calibrates=True) if trt.calibrates else ()),
                *([] if trt.is_brief else trt.steps(replaced, is_path=False)),
            ],
            replaced=replaced,
            load=load,
            data=data_loader_argument(data),
            tune=call_of("autotune_plugins", values),
            compare_func=_compare_func(values[TuningOptions]),
            save=call_of("save_onnx", values, path=output),
        )

    def _check(self, values: Values, output: str) -> None:
        """Raise CommandLineError for contradicting options; warn of those without effect."""
        config = values[TuningConfigOptions]
        if values[EditSaveOptions].output is None and not config.skip_autotuning:
            inform(f"Saving to {output}, because --output is not set.")
        if config.skip_autotuning and config.load_config_yaml is not None:
            raise CommandLineError(
                "--skip-autotuning only finds matches, and --load-config-yaml loads them."
                " Remove one of the two."
            )
        _warn_about_unused(values)
        if not config.skip_autotuning:
            check_files(values, written=[("--output", output)])


def _add_build_groups(values: Values) -> Values:
    """Return the options with additional build groups, at their values or defaults."""
    model, plugins = values[CheckedModelOptions], values[TuningPluginOptions].plugin_libraries
    timing = vars(values[TrtTimingOptions])
    return values.replace_groups(
        TrtTacticOptions(**timing),
        TrtPluginOptions(plugins=plugins),
        ModelOptions(model_file=model.path, input_shapes=model.input_shapes),
    )


def _compare_func(options: TuningOptions) -> Call | None:
    """Return the comparison function with both tolerances; None if neither is set."""
    if options.rtol is None and options.atol is None:
        return None
    tolerances = {
        "rtol": 1e-3 if options.rtol is None else options.rtol,
        "atol": 1e-3 if options.atol is None else options.atol,
    }
    return Call("SimpleCompareFunc", kwargs=tolerances)


def _warn_about_unused(values: Values) -> None:
    """Log warnings about options without effect."""
    unused: dict[str, list[str]] = {}
    if values[TuningConfigOptions].skip_autotuning:
        groups = [TuningOptions, TuningPluginOptions, *_BUILD_GROUPS, EditSaveOptions, DataOptions]
        unused["nothing is run"] = non_default_flags(
            values, groups, besides=["--no-timing-cache", "--fp32"]
        )
    elif values[TuningOptions].autotune_mode != "exhaustive":
        given_names = non_default_flags(values, [TuningOptions])
        only = [flag for flag in given_names if flag in ("--max-combinations", "--threshold")]
        unused["only --autotune-mode exhaustive uses it"] = only
    if values[TuningConfigOptions].load_config_yaml is not None:
        given_names = non_default_flags(values, [PluginChoiceOptions])
        unused["--load-config-yaml provides the matches"] = given_names
    for reason, flags in unused.items():
        warn_of_idle_flags(flags, f", because {reason}")
