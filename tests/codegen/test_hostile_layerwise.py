"""Text from the user is data in a program that compares layer by layer, whatever it looks like."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.cli.backends.onnxrt import OnnxrtOptions
from polygraphy.cli.commands.run.run import RunCommand, RunnerOptions
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.compare import LayerwiseOptions
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.cli.shared.onnx import OnnxLoadOptions, OutputOptions
from polygraphy.cli.shared.runners import RunOptions
from polygraphy.codegen.source import quote_command
from tests.support.examples import scaled
from tests.support.helpers.hostile_words import constants, hostile, nothing_is_checked, skeleton


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def program_with(texts: list[str]) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    model, name, worst, plot, provider, folder = texts
    groups: dict[Any, Any] = {
        RunnerOptions: RunnerOptions(runners=("onnxrt", "onnx", "onnxrt")),
        ModelOptions: ModelOptions(model_file=model, model_type="onnx"),
        OutputOptions: OutputOptions(mark_all=True, exclude_outputs=(name,)),
        OnnxLoadOptions: OnnxLoadOptions(external_data_dir=folder, onnx_exclude_outputs=(worst,)),
        OnnxrtOptions: OnnxrtOptions(providers=(provider,)),
        DataOptions: DataOptions(val_range={name: (0, 1)}),
        RunOptions: RunOptions(save_inputs=folder, save_input_blob=plot),
        LayerwiseOptions: LayerwiseOptions(
            memory_budget=1024, save_worst=(3, worst), save_error_by_depth=plot
        ),
    }
    for group in RunCommand().groups:
        groups.setdefault(group, group())
    return RunCommand().render(Values(groups), quote_command(["polygraphy", "run", *texts]))


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(hostile, min_size=6, max_size=6, unique=True))
def test_text_appears_as_constants_and_changes_nothing_else(texts: list[str]) -> None:
    program = program_with(texts)
    assert "run_layerwise" in program
    assert skeleton(program) == skeleton(program_with([f"text{i}" for i in range(6)]))
    assert set(texts) <= set(constants(program))
