"""Text from the user is data in a program that converts, whatever it looks like."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.cli.commands.convert import ConvertCommand, ConvertOptions
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.log import LogOptions, ReportOptions
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.cli.shared.onnx import OnnxCastOptions, OnnxLoadOptions
from polygraphy.codegen.source import quote_command
from tests.codegen.tensorrt_groups import tensorrt_groups
from tests.support.examples import scaled
from tests.support.helpers.hostile_words import constants, hostile, nothing_is_checked, skeleton

ORDINARY = hostile.filter(lambda text: text != "*")
"""Texts that are names of outputs: a star stands for all of them."""

TARGETS = ("onnx", "trt", "onnx-like-trt-network")


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def program_with(texts: list[str], target: str) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    model, output, name, folder, log_file = texts
    groups: dict[Any, Any] = {
        ModelOptions: ModelOptions(model_file=model, model_type="onnx"),
        ConvertOptions: ConvertOptions(output=output, convert_to=target),
        OnnxCastOptions: OnnxCastOptions(
            fp_to_fp16=True,
            cast_keep_ops=(name,),
            cast_keep_nodes=(folder,),
            cast_only_ops=(output,),
            cast_only_nodes=(log_file,),
        ),
        OnnxLoadOptions: OnnxLoadOptions(external_data_dir=folder, onnx_outputs=(name,)),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file),
        **tensorrt_groups(name, folder, output, log_file),
    }
    for group in ConvertCommand.groups:
        groups.setdefault(group, group())
    return ConvertCommand().render(Values(groups), quote_command(["polygraphy", "convert", *texts]))


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(ORDINARY, min_size=5, max_size=5, unique=True), st.sampled_from(TARGETS))
def test_text_appears_as_constants_and_changes_nothing_else(texts: list[str], target: str) -> None:
    program = program_with(texts, target)
    assert skeleton(program) == skeleton(program_with([f"text{i}" for i in range(5)], target))
    assert set(texts) <= set(constants(program))
