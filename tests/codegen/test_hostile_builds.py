"""Text from the user is data in the programs about tactics, support and templates, too."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from polygraphy.cli.backends.trt.config_options import TrtScriptOptions
from polygraphy.cli.backends.trt.engine_options import TrtLoadOptions
from polygraphy.cli.backends.trt.network_options import TrtNetworkOptions, TrtPluginOptions
from polygraphy.cli.backends.trt.precision_options import TrtCalibrationOptions, TrtPrecisionOptions
from polygraphy.cli.backends.trt.tactics_options import TrtTacticOptions, TrtTimingOptions
from polygraphy.cli.commands.command import Command
from polygraphy.cli.commands.inspect.capability import CapabilityOptions, InspectCapabilityCommand
from polygraphy.cli.commands.inspect.model import InspectModelCommand
from polygraphy.cli.commands.inspect.model_options import (
    ExternalDataOptions,
    InspectedModelOptions,
    OneModelOptions,
)
from polygraphy.cli.commands.inspect.tactics import (
    INSPECT_TACTICS,
    ComparedReplaysOptions,
    InspectDiffTacticsCommand,
    ReplayOptions,
)
from polygraphy.cli.commands.plugin.patterns import PluginChoiceOptions, PluginFolderOptions
from polygraphy.cli.commands.surgeon.surgeon_options import EditSaveOptions
from polygraphy.cli.commands.template.onnx import TemplateOptions
from polygraphy.cli.commands.trt.autotune import (
    PluginAutotuneCommand,
    TuningConfigOptions,
    TuningPluginOptions,
)
from polygraphy.cli.commands.trt.template import TemplateTrtConfigCommand, TemplateTrtNetworkCommand
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.log import LogOptions, ReportOptions, ScriptOptions
from polygraphy.cli.shared.model import CheckedModelOptions, ModelOptions
from polygraphy.cli.shared.onnx import OnnxLoadOptions
from polygraphy.codegen.source import quote_command
from tests.support.examples import scaled
from tests.support.helpers.hostile_words import constants, hostile, nothing_is_checked, skeleton


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def programs(texts: list[str]) -> list[tuple[str, set[str]]]:
    """Render programs with these texts, and say which of them each has to hold."""
    first, second, third, log_file = texts
    log = {
        ScriptOptions: ScriptOptions(),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file),
    }
    model = ModelOptions(model_file=first, model_type="onnx")
    commands: list[tuple[Command, dict[Any, Any], set[str]]] = [
        (INSPECT_TACTICS, {ReplayOptions: ReplayOptions(first)}, {first}),
        (
            InspectDiffTacticsCommand(),
            {ComparedReplaysOptions: ComparedReplaysOptions(replays=(first, second))},
            {first, second},
        ),
        (
            InspectDiffTacticsCommand(),
            {ComparedReplaysOptions: ComparedReplaysOptions(dir=third, bad=second)},
            {second, third},
        ),
        (
            InspectCapabilityCommand(),
            {
                OneModelOptions: OneModelOptions(first),
                CapabilityOptions: CapabilityOptions(
                    with_partitioning=True, output=second, save_external_data=third
                ),
                ExternalDataOptions: ExternalDataOptions(external_data_dir=log_file),
            },
            {first, second, third},
        ),
        (
            TemplateTrtNetworkCommand(),
            {
                ModelOptions: model,
                TemplateOptions: TemplateOptions(output="-"),
                OnnxLoadOptions: OnnxLoadOptions(onnx_outputs=(second, third)),
                TrtPluginOptions: TrtPluginOptions(plugins=(third,)),
                TrtNetworkOptions: TrtNetworkOptions(trt_exclude_outputs=(second,)),
            },
            {first, second, third},
        ),
        (
            TemplateTrtConfigCommand(),
            {
                ModelOptions: model,
                TemplateOptions: TemplateOptions(output="-"),
                DataOptions: DataOptions(load_inputs=(second,)),
                TrtPrecisionOptions: TrtPrecisionOptions(int8=True),
                TrtCalibrationOptions: TrtCalibrationOptions(calibration_cache=second),
                TrtTacticOptions: TrtTacticOptions(load_tactics=third, exclude_tactics=log_file),
            },
            {first, second, third},
        ),
        (
            InspectModelCommand(),
            {
                InspectedModelOptions: InspectedModelOptions(paths=(first,), model_type="engine"),
                TrtPluginOptions: TrtPluginOptions(plugins=(second,)),
                TrtLoadOptions: TrtLoadOptions(load_runtime=third),
            },
            {first, second, third},
        ),
        (
            InspectModelCommand(),
            {
                InspectedModelOptions: InspectedModelOptions(
                    paths=(first,), model_type="onnx", display_as="trt"
                ),
                TrtNetworkOptions: TrtNetworkOptions(
                    mark_debug=(second,), trt_network_postprocess_script=((third, second),)
                ),
            },
            {first, second, third},
        ),
        (
            PluginAutotuneCommand(),
            {
                CheckedModelOptions: CheckedModelOptions(
                    path=first, input_shapes={second: ((1, 2),)}
                ),
                PluginFolderOptions: PluginFolderOptions(plugin_dir=second),
                PluginChoiceOptions: PluginChoiceOptions(include=(third,)),
                TuningPluginOptions: TuningPluginOptions(
                    plugin_libraries=(third,), python_plugins=(second,)
                ),
                TuningConfigOptions: TuningConfigOptions(save_config_yaml=f"{third}.yaml"),
                TrtTimingOptions: TrtTimingOptions(timing_cache=third),
                TrtPrecisionOptions: TrtPrecisionOptions(
                    int8=True, layer_precisions={second: "float16"}
                ),
                TrtCalibrationOptions: TrtCalibrationOptions(calibration_cache=log_file),
                TrtScriptOptions: TrtScriptOptions(
                    trt_config_postprocess_script=(third, "postprocess_config")
                ),
                EditSaveOptions: EditSaveOptions(output=f"{first}.onnx"),
            },
            {first, second, third},
        ),
    ]
    made = []
    for command, groups, held in commands:
        values = {group: group() for group in command.groups}
        whole = Values({**values, **log, **groups})
        made.append(
            (command.render(whole, quote_command(["polygraphy", command.name, *texts])), held)
        )
    return made


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(hostile, min_size=4, max_size=4, unique=True))
@example(["-", '"""', "\\", "{{ x }}"])
@example(["*", "mark all", "a.py:b", "\n"])
def test_text_appears_as_constants_and_changes_nothing_else(texts: list[str]) -> None:
    plain = programs([f"text{index}" for index in range(4)])
    for (program, held), (expected, _) in zip(programs(texts), plain):
        assert skeleton(program) == skeleton(expected)
        assert {*held, texts[3]} <= set(constants(program))
