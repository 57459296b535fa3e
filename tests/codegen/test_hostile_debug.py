"""Text from the user is data in a program that searches, whatever it looks like."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.cli.commands.command import Command
from polygraphy.cli.commands.debug.context import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    EngineIterationOptions,
    IterationInfoOptions,
    ModelIterationOptions,
    UntilOptions,
)
from polygraphy.cli.commands.debug.reduce import (
    DebugReduceCommand,
    ReducedModelOptions,
    ReducedShapeOptions,
)
from polygraphy.cli.commands.debug.repeat import DebugRepeatCommand
from polygraphy.cli.commands.surgeon.surgeon_options import EditedModelOptions, EditSaveOptions
from polygraphy.cli.commands.trt.engine import (
    DebugBuildCommand,
    DebugPrecisionCommand,
    GoldenOptions,
)
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.log import LogOptions, ReportOptions
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.codegen.source import quote_command
from tests.codegen.tensorrt_groups import tensorrt_groups
from tests.support.examples import scaled
from tests.support.helpers.hostile_words import constants, hostile, nothing_is_checked, skeleton

COMMANDS: tuple[type[Command], ...] = (
    DebugRepeatCommand,
    DebugReduceCommand,
    DebugBuildCommand,
    DebugPrecisionCommand,
)


@patch("polygraphy.cli.commands.debug.context.check_paths", nothing_is_checked)
@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def program_with(texts: list[str], kind: type[Command]) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    first, second, third, fourth = texts
    groups: dict[Any, Any] = {
        ModelOptions: ModelOptions(model_file=first, model_type="onnx"),
        EditedModelOptions: EditedModelOptions(model_file=first, external_data_dir=second),
        EditSaveOptions: EditSaveOptions(output=third, save_external_data=fourth),
        CheckOptions: CheckOptions(check=(first, second, third, fourth), fail_regex=(second,)),
        ArtifactOptions: ArtifactOptions(artifacts=(third, first), art_dir=fourth),
        IterationInfoOptions: IterationInfoOptions(iter_info=second),
        EngineIterationOptions: EngineIterationOptions(iter_artifact=third, iter_info=second),
        ModelIterationOptions: ModelIterationOptions(iter_artifact=third, iter_info=second),
        UntilOptions: UntilOptions(until="bad"),
        DebugReplayOptions: DebugReplayOptions(first, fourth),
        ReducedModelOptions: ReducedModelOptions(min_good=first, save_inputs=second),
        ReducedShapeOptions: ReducedShapeOptions(model_input_shapes={fourth: ((1, 2),)}),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=third),
        **tensorrt_groups(first, second, third, fourth),
    }
    command = kind()
    if kind is DebugPrecisionCommand:  # The command that is implied holds text as well.
        groups[CheckOptions] = CheckOptions()
        groups[GoldenOptions] = GoldenOptions(golden_outputs=second, save_layer_outputs=fourth)
    chosen = {group: groups.get(group) or group() for group in command.groups}
    return command.render(Values(chosen), quote_command(["polygraphy", "debug", *texts]))


@settings(max_examples=scaled(25), deadline=None)
@given(st.lists(hostile, min_size=4, max_size=4, unique=True), st.sampled_from(COMMANDS))
def test_text_appears_as_constants_and_changes_nothing_else(
    texts: list[str], kind: type[Command]
) -> None:
    program = program_with(texts, kind)
    assert skeleton(program) == skeleton(program_with([f"text{i}" for i in range(4)], kind))
    assert set(texts) <= set(constants(program))
