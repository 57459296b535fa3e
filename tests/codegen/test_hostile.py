"""Text from the user is data in a program, whatever it looks like."""

from __future__ import annotations

import ast
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polygraphy.cli.backends.onnxrt import OnnxrtModelOptions, OnnxrtOptions
from polygraphy.cli.backends.openvino import OpenvinoCacheOptions, OpenvinoOptions
from polygraphy.cli.backends.pluginref import PluginRefOptions
from polygraphy.cli.backends.tf import TfRunnerOptions, TfSaveOptions
from polygraphy.cli.backends.torch import TorchOptions
from polygraphy.cli.backends.trt.inspection import INSPECTION
from polygraphy.cli.backends.trt.network_options import TrtNetworkOptions
from polygraphy.cli.commands.check.accuracy import CHECK_ACCURACY
from polygraphy.cli.commands.check.model import (
    BackendOptions,
    CheckCompatibilityCommand,
    CheckLintCommand,
    LintedModelOptions,
    LintOptions,
)
from polygraphy.cli.commands.command import Command
from polygraphy.cli.commands.data import DATA_CONCAT, DATA_MERGE
from polygraphy.cli.commands.inspect.data import (
    INSPECT_DATA,
    DetailOptions,
    InspectedOptions,
    ReferenceOptions,
)
from polygraphy.cli.commands.inspect.diff import InspectDiffCommand
from polygraphy.cli.commands.inspect.model import InspectModelCommand
from polygraphy.cli.commands.inspect.model_options import (
    INSPECT_OUTPUTS,
    INSPECT_SPARSITY,
    ExternalDataOptions,
    InspectedModelOptions,
    ModelDetailOptions,
    OneModelOptions,
    PageOptions,
    TensorOptions,
)
from polygraphy.cli.commands.plugin.patterns import (
    MatchOutputOptions,
    PluginChoiceOptions,
    PluginFolderOptions,
    PluginListCommand,
    PluginMatchCommand,
    PluginReplaceCommand,
    ReplaceOptions,
)
from polygraphy.cli.commands.run.run import RunCommand, RunnerOptions
from polygraphy.cli.commands.surgeon.surgeon import (
    SurgeonExtractCommand,
    SurgeonInsertCommand,
    SurgeonPruneCommand,
    SurgeonSanitizeCommand,
    SurgeonWeightStripCommand,
)
from polygraphy.cli.commands.surgeon.surgeon_options import (
    EditedModelOptions,
    EditSaveOptions,
    ExtractOptions,
    InsertOptions,
    PruneOptions,
    SanitizeOptions,
    SanitizeOutputOptions,
    SanitizeShapeOptions,
    StripOptions,
    TensorSpec,
)
from polygraphy.cli.commands.template.onnx import TemplateOnnxGsCommand, TemplateOptions
from polygraphy.cli.commands.template.shard import (
    HintOutputOptions,
    HintSourceOptions,
    MultiDeviceShardCommand,
    TemplateShardHintsCommand,
)
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.compare import (
    CompareOptions,
    FunctionOptions,
    JudgeOptions,
    LayerwiseOptions,
    PlotOptions,
    SimpleOptions,
    TopKOptions,
)
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.log import LogOptions, ReportOptions, ScriptOptions
from polygraphy.cli.shared.model import ModelOptions, TfLoadOptions
from polygraphy.cli.shared.onnx import (
    OnnxCastOptions,
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.shared.runners import OrderOptions, RunOptions
from polygraphy.cli.shared.saved import JoinOptions, RejudgeOptions
from polygraphy.codegen.render import format_source
from polygraphy.codegen.source import quote_command
from tests.codegen.tensorrt_groups import tensorrt_groups
from tests.support.examples import scaled
from tests.support.helpers.hostile_words import constants, hostile, nothing_is_checked, skeleton


def is_no_model(text: str) -> bool:
    """Return whether a file of this name is no ONNX model: models are compared by another program."""
    return not text.lower().endswith(".onnx")


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def program_with(texts: list[str]) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    model, load_inputs, save_inputs, save_outputs, load_outputs, name, provider, log_file = texts
    groups: dict[Any, Any] = {
        RunnerOptions: RunnerOptions(
            runners=("onnxrt", "onnx", "trt", f"trt_engine:{save_outputs}")
        ),
        ModelOptions: ModelOptions(
            model_file=model, model_type="onnx", input_shapes={name: ((1, 2),)}
        ),
        OutputOptions: OutputOptions(exclude_outputs=(name,)),
        OnnxLoadOptions: OnnxLoadOptions(
            external_data_dir=load_inputs,
            onnx_outputs=(name, "y"),
            onnx_exclude_outputs=(provider,),
            onnx_outputs_by_type=(log_file,),
        ),
        OnnxCastOptions: OnnxCastOptions(),
        OnnxShapeOptions: OnnxShapeOptions(),
        **tensorrt_groups(name, load_inputs, provider, save_outputs),
        OpenvinoCacheOptions: OpenvinoCacheOptions(),
        OpenvinoOptions: OpenvinoOptions(),
        PluginRefOptions: PluginRefOptions(),
        TorchOptions: TorchOptions(),
        OnnxSaveOptions: OnnxSaveOptions(save_onnx=save_inputs, save_external_data=save_outputs),
        OnnxrtOptions: OnnxrtOptions(
            providers=(provider, (provider, {provider: provider})),
            provider_libraries={provider: provider},
        ),
        OnnxrtModelOptions: OnnxrtModelOptions(disabled_optimizers=(name,)),
        DataOptions: DataOptions(val_range={name: (0, 1)}),
        OrderOptions: OrderOptions(),
        RunOptions: RunOptions(save_inputs=save_inputs, save_outputs=save_outputs),
        CompareOptions: CompareOptions(load_outputs=(load_outputs,)),
        JudgeOptions: JudgeOptions(),
        FunctionOptions: FunctionOptions(),
        TopKOptions: TopKOptions(),
        PlotOptions: PlotOptions(save_heatmaps=name, save_error_metrics_plot=save_outputs),
        LayerwiseOptions: LayerwiseOptions(save_worst=(1, name), save_error_by_depth=log_file),
        SimpleOptions: SimpleOptions(rtol={name: 1e-3}, check_error_stat={name: ("max", "mean")}),
        ScriptOptions: ScriptOptions(),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file, verbosity={name: "VERBOSE"}),
    }
    line = quote_command(["polygraphy", "run", *texts])
    generated = RunCommand().render(Values(groups), line)
    groups[DataOptions] = DataOptions(load_inputs=(load_inputs,))
    groups[ModelOptions] = ModelOptions(model_file=model, model_type="onnx")
    loaded = RunCommand().render(Values(groups), line)
    groups[DataOptions] = DataOptions(data_loader_script=(load_inputs, "load_data"))
    generated += loaded + RunCommand().render(Values(groups), line)
    return generated + program_that_compares(groups, line, model, load_inputs, save_inputs)


def program_that_compares(
    groups: dict[Any, Any], line: str, name: str, script: str, saved: str
) -> str:
    """Render programs in which every option of comparison functions has one of these texts."""
    groups[RunOptions] = RunOptions()
    groups[SimpleOptions] = SimpleOptions()
    groups[PlotOptions] = PlotOptions()
    groups[JudgeOptions] = JudgeOptions(compare=("indices", "l2", "top_k"))
    groups[CompareOptions] = CompareOptions(
        save_accuracy_results=saved,
        postprocess={name: 3, saved: (2, 1)},
    )
    groups[FunctionOptions] = FunctionOptions(indices={name: 1}, l2={name: 1e-3, "": 1e-2})
    groups[TopKOptions] = TopKOptions(k={name: 2}, margin={saved: 0.5})
    generated = RunCommand().render(Values(groups), line)
    groups[FunctionOptions] = FunctionOptions()
    groups[JudgeOptions] = JudgeOptions(compare_func_script=(script, "compare"))
    groups[CompareOptions] = CompareOptions(postprocess_func_script=(saved, "process"))
    return generated + RunCommand().render(Values(groups), line)


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def programs_about_saved_data(texts: list[str]) -> list[str]:
    """Render the programs that read saved data, with these texts wherever they take any."""
    first, second, output, name, log_file, *_ = texts
    shared: dict[Any, Any] = {
        ScriptOptions: ScriptOptions(),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file),
    }
    tolerances = {name: 1e-3}
    commands: list[tuple[Command, dict[Any, Any]]] = [
        (
            INSPECT_DATA,
            {
                InspectedOptions: InspectedOptions(paths=(first, second, output, name)),
                DetailOptions: DetailOptions(),
            },
        ),
        (
            InspectDiffCommand(),
            {
                ReferenceOptions: ReferenceOptions(reference=first, candidate=second),
                SimpleOptions: SimpleOptions(rtol=tolerances, atol={output: 1e-3}),
                JudgeOptions: JudgeOptions(),
                FunctionOptions: FunctionOptions(),
                TopKOptions: TopKOptions(),
                PlotOptions: PlotOptions(save_heatmaps=name),
            },
        ),
        (
            InspectDiffCommand(),
            {
                ReferenceOptions: ReferenceOptions(reference=first, candidate=second),
                SimpleOptions: SimpleOptions(),
                JudgeOptions: JudgeOptions(compare=("l2", "top_k")),
                FunctionOptions: FunctionOptions(l2={name: 1e-3}),
                TopKOptions: TopKOptions(k={output: 2}),
                PlotOptions: PlotOptions(),
            },
        ),
        (
            InspectDiffCommand(),
            {
                ReferenceOptions: ReferenceOptions(reference=first, candidate=second),
                SimpleOptions: SimpleOptions(),
                JudgeOptions: JudgeOptions(compare_func_script=(output, name)),
                FunctionOptions: FunctionOptions(),
                TopKOptions: TopKOptions(),
                PlotOptions: PlotOptions(),
            },
        ),
        (
            CHECK_ACCURACY,
            {
                RejudgeOptions: RejudgeOptions(
                    path=first,
                    rtol=tolerances,
                    atol={second: 1e-3},
                    check_error_stat={output: "max"},
                ),
                FunctionOptions: FunctionOptions(l2={first: 1.0}),
            },
        ),
        *(
            (joins, {JoinOptions: JoinOptions(paths=(first, second, name), output=output)})
            for joins in (DATA_CONCAT, DATA_MERGE)
        ),
    ]
    return [
        command.render(
            Values({**groups, **shared}),
            quote_command(["polygraphy", *command.name.split(), *texts]),
        )
        for command, groups in commands
    ]


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(hostile.filter(is_no_model), min_size=5, max_size=5, unique=True))
@example(["-", '"""', "\\", "{{ x }}", "\n"])
def test_programs_about_saved_data_keep_text_as_constants(texts: list[str]) -> None:
    plain = programs_about_saved_data([f"text{index}" for index in range(5)])
    for program, expected in zip(programs_about_saved_data(texts), plain):
        assert skeleton(program) == skeleton(expected)
        assert set(texts) <= set(constants(program))


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def tensorflow_program(texts: list[str]) -> str:
    """Render a program about TensorFlow, PyTorch and plugin references with these texts wherever it
    takes any.
    """
    model, output, saved, tensorboard, timeline = texts
    groups: dict[Any, Any] = {
        RunnerOptions: RunnerOptions(
            runners=("tf", "openvino", "pluginref", f"torch:{model}", f"torch:{output}.py:load")
        ),
        LayerwiseOptions: LayerwiseOptions(),
        OpenvinoCacheOptions: OpenvinoCacheOptions(openvino_cache=timeline),
        OpenvinoOptions: OpenvinoOptions(
            openvino_device=tensorboard, openvino_properties={saved: output}
        ),
        PluginRefOptions: PluginRefOptions(plugin_references=timeline),
        TorchOptions: TorchOptions(torch_device=tensorboard),
        ModelOptions: ModelOptions(model_file=model, model_type="ckpt"),
        **tensorrt_groups(*texts[:4]),
        TfLoadOptions: TfLoadOptions(ckpt=output, tf_outputs=(saved, "y")),
        TfSaveOptions: TfSaveOptions(save_pb=saved, save_tensorboard=tensorboard),
        TfRunnerOptions: TfRunnerOptions(save_timeline=timeline),
    }
    for group in RunCommand().groups:
        groups.setdefault(group, group())
    return RunCommand().render(Values(groups), quote_command(["polygraphy", "run", *texts]))


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(hostile, min_size=5, max_size=5, unique=True))
def test_programs_about_tensorflow_keep_text_as_constants(texts: list[str]) -> None:
    program = tensorflow_program(texts)
    assert skeleton(program) == skeleton(tensorflow_program([f"text{i}" for i in range(5)]))
    assert set(texts) <= set(constants(program))


def programs_about_models(texts: list[str]) -> list[str]:
    """Render the programs that look into models, with these texts wherever they take any."""
    first, second, third, fourth, log_file = texts
    shared: dict[Any, Any] = {
        ScriptOptions: ScriptOptions(),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file),
        ExternalDataOptions: ExternalDataOptions(external_data_dir=second),
        LintedModelOptions: LintedModelOptions(paths=(first,), input_shapes={third: ((1, 2),)}),
        DataOptions: DataOptions(),
        OnnxrtOptions: OnnxrtOptions(providers=(fourth,)),
        OneModelOptions: OneModelOptions(path=first),
    }
    commands: list[tuple[Command, dict[Any, Any]]] = [
        (
            InspectModelCommand(),
            {
                InspectedModelOptions: InspectedModelOptions(paths=(first, f"{third}.py")),
                **{group: group() for group in INSPECTION.groups},
                TrtNetworkOptions: TrtNetworkOptions(trt_network_func_name=third),
                ModelDetailOptions: ModelDetailOptions(mode="full", combine_tensor_info=fourth),
                OnnxShapeOptions: OnnxShapeOptions(),
                PageOptions: PageOptions(),
                TfLoadOptions: TfLoadOptions(ckpt=second, tf_outputs=(third, "y")),
            },
        ),
        (
            InspectModelCommand(),
            {
                InspectedModelOptions: InspectedModelOptions(paths=(first,)),
                ModelDetailOptions: ModelDetailOptions(),
                OnnxShapeOptions: OnnxShapeOptions(),
                PageOptions: PageOptions(save_visual=f"{first}.onnx"),
                TfLoadOptions: TfLoadOptions(ckpt=second),
                **{group: group() for group in INSPECTION.groups},
            },
        ),
        (INSPECT_OUTPUTS, {TensorOptions: TensorOptions(names=(second, third, fourth))}),
        (INSPECT_SPARSITY, {}),
        (
            InspectDiffCommand(),
            {
                ReferenceOptions: ReferenceOptions(f"{first}.onnx", f"{second}.onnx"),
                SimpleOptions: SimpleOptions(),
                JudgeOptions: JudgeOptions(),
                FunctionOptions: FunctionOptions(),
                TopKOptions: TopKOptions(),
                PlotOptions: PlotOptions(),
            },
        ),
        *(
            (
                command,
                {
                    PluginFolderOptions: PluginFolderOptions(second),
                    PluginChoiceOptions: PluginChoiceOptions(include=(third, fourth)),
                    MatchOutputOptions: MatchOutputOptions(third),
                    ReplaceOptions: ReplaceOptions(config=third, output=fourth),
                    TemplateOptions: TemplateOptions(output=f"{third}.py"),
                    **{
                        each: each()
                        for each in (OnnxLoadOptions, OnnxCastOptions, OnnxShapeOptions)
                    },
                },
            )
            for command in (
                PluginListCommand(),
                PluginMatchCommand(),
                PluginReplaceCommand(),
                TemplateOnnxGsCommand(),
            )
        ),
        (CheckLintCommand(), {LintOptions: LintOptions(output=f"{first}.json")}),
        (
            CheckCompatibilityCommand(),
            {
                BackendOptions: BackendOptions(backends=("onnxrt", "tf")),
                ModelOptions: ModelOptions(first, "ckpt", {third: ((1, 2),)}),
                TfLoadOptions: TfLoadOptions(ckpt=second, tf_outputs=(third, "y")),
            },
        ),
    ]
    return [
        command.render(
            Values({**shared, **groups}),
            quote_command(["polygraphy", *command.name.split(), *texts]),
        )
        for command, groups in commands
    ]


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(hostile, min_size=5, max_size=5, unique=True))
@example(["-", '"""', "\\", "{{ x }}", "\n"])
def test_programs_about_models_keep_text_as_constants(texts: list[str]) -> None:
    with (
        patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked),
        patch("polygraphy.cli.commands.plugin.patterns.check_paths", nothing_is_checked),
    ):
        plain = programs_about_models([f"text{index}" for index in range(5)])
        made = programs_about_models(texts)
    for program, expected in zip(made, plain):
        assert skeleton(program) == skeleton(expected)
        assert {texts[-1], texts[0]} <= {
            str(one).removesuffix(".onnx") for one in constants(program)
        }
    assert set(texts) <= set(constants("\n".join(made)))


@patch("polygraphy.cli.shared.paths.check_paths", nothing_is_checked)
def programs_that_edit(texts: list[str]) -> list[str]:
    """Render the programs that edit models, with these texts wherever they take any."""
    model, name, other, path, log_file = texts
    shared: dict[Any, Any] = {
        EditedModelOptions: EditedModelOptions(model_file=model, external_data_dir=path),
        EditSaveOptions: EditSaveOptions(output=other, save_external_data=path),
        ReportOptions: ReportOptions(),
        LogOptions: LogOptions(log_file=log_file),
    }
    tensors = (TensorSpec(name, (other, 1, None), "float16"), TensorSpec(path))
    commands: list[tuple[Command, dict[Any, Any]]] = [
        (
            SurgeonExtractCommand(),
            {
                ExtractOptions: ExtractOptions(inputs=tensors, outputs=tensors),
                DataOptions: DataOptions(load_inputs=(path,)),
            },
        ),
        (
            SurgeonSanitizeCommand(),
            {
                SanitizeOptions: SanitizeOptions(upper_bounds={name: 5}),
                SanitizeOutputOptions: SanitizeOutputOptions((name, "y"), (other,), (path,)),
                SanitizeShapeOptions: SanitizeShapeOptions(override_input_shapes={name: (other,)}),
            },
        ),
        (
            SurgeonInsertCommand(),
            {
                InsertOptions: InsertOptions(
                    inputs=(name,), outputs=(other,), op=path, name=name, attrs={name: [other]}
                )
            },
        ),
        (SurgeonPruneCommand(), {PruneOptions: PruneOptions((name, other))}),
        (TemplateShardHintsCommand(), {HintOutputOptions: HintOutputOptions(other)}),
        (MultiDeviceShardCommand(), {HintSourceOptions: HintSourceOptions(hint=name)}),
        (SurgeonWeightStripCommand(), {StripOptions: StripOptions(path)}),
    ]
    made = []
    for command, groups in commands:
        every = {group: group() for group in command.groups} | shared | groups
        made.append(
            command.render(
                Values(every), quote_command(["polygraphy", *command.name.split(), *texts])
            )
        )
    return made


@settings(max_examples=scaled(50), deadline=None)
@given(st.lists(hostile, min_size=5, max_size=5, unique=True))
@example(["-", '"""', "\\", "{{ x }}", "\n"])
def test_programs_that_edit_keep_text_as_constants(texts: list[str]) -> None:
    plain = programs_that_edit([f"text{index}" for index in range(5)])
    made = programs_that_edit(texts)
    for program, expected in zip(made, plain):
        assert skeleton(program) == skeleton(expected)
        assert {texts[0], texts[2], texts[3], texts[4]} <= set(constants(program))
    assert set(texts) <= set(constants(made[0]))


PLAIN = [f"text{index}" for index in range(8)]


@pytest.mark.slow
@settings(max_examples=scaled(100), deadline=None)
@given(st.lists(hostile, min_size=8, max_size=8, unique=True))
@example(['a"); import os #.onnx', *PLAIN[1:]])
@example(["\n    import os\n", *PLAIN[1:]])
def test_any_text_appears_as_a_constant_and_changes_nothing_else(texts: list[str]) -> None:
    program = program_with(texts)
    assert skeleton(program) == skeleton(program_with(PLAIN))
    found = constants(program)
    for text in texts:
        assert text in found


@settings(max_examples=scaled(20), deadline=None)
@given(
    st.lists(hostile.filter(lambda text: "\udc80" not in text), min_size=8, max_size=8, unique=True)
)
@pytest.mark.slow
def test_formatting_keeps_hostile_programs_too(texts: list[str]) -> None:
    program = program_with(texts)
    try:
        program.encode()
    except UnicodeEncodeError:
        return
    assert ast.dump(ast.parse(format_source(program))) == ast.dump(ast.parse(program))
