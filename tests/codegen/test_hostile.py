"""Text from the user is data in a program, whatever it looks like."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from polygraphy.cli.check_accuracy import CheckAccuracyCommand
from polygraphy.cli.command import Command, Values
from polygraphy.cli.data import DataConcatCommand, DataMergeCommand
from polygraphy.cli.inspect_data import InspectDataCommand
from polygraphy.cli.inspect_diff import InspectDiffCommand
from polygraphy.cli.options.compare import CompareOptions, SimpleOptions
from polygraphy.cli.options.data import DataOptions
from polygraphy.cli.options.functions import FunctionOptions
from polygraphy.cli.options.inspection import DetailOptions, InspectedOptions, ReferenceOptions
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.model import ModelOptions
from polygraphy.cli.options.onnx import (
    OnnxLoadOptions,
    OnnxSaveOptions,
    OnnxShapeOptions,
    OutputOptions,
)
from polygraphy.cli.options.runners import (
    OnnxrtOptions,
    OrderOptions,
    RunnerOptions,
    RunOptions,
)
from polygraphy.cli.options.saved import JoinOptions, RejudgeOptions, StopOptions
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.cli.run import RunCommand
from polygraphy.codegen.render import formatted

PIECES = [
    "a",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\n",
    "\r",
    "\t",
    "\x00",
    "#",
    "{{ script }}",
    "{% raw %}",
    "{#",
    "}}",
    '"); import os #',
    "os.system('x')",
    "$(x)",
    "`x`",
    "\u2028",
    "é",
    "\U0001f600",
    "\udc80",
    "__import__",
    "%s",
    "{0}",
    "<&>",
]
hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join) | st.text(
    min_size=1
)


def nothing_is_checked(*args: Any) -> None:
    """Stand for the check of paths: here any two texts may name the same file."""


@patch("polygraphy.cli.run.check_paths", nothing_is_checked)
def program_with(texts: list[str]) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    model, load_inputs, save_inputs, save_outputs, load_outputs, name, provider, log_file = texts
    groups: dict[Any, Any] = {
        RunnerOptions: RunnerOptions(runners=("onnxrt", "onnx")),
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
        OnnxShapeOptions: OnnxShapeOptions(),
        OnnxSaveOptions: OnnxSaveOptions(save_onnx=save_inputs, save_external_data=save_outputs),
        OnnxrtOptions: OnnxrtOptions(providers=(provider,)),
        DataOptions: DataOptions(val_range={name: (0, 1)}),
        OrderOptions: OrderOptions(),
        RunOptions: RunOptions(save_inputs=save_inputs, save_outputs=save_outputs),
        CompareOptions: CompareOptions(load_outputs=(load_outputs,)),
        FunctionOptions: FunctionOptions(),
        SimpleOptions: SimpleOptions(rtol={name: 1e-3}, check_error_stat={name: ("max", "mean")}),
        ScriptOptions: ScriptOptions(),
        LogOptions: LogOptions(log_file=log_file, verbosity={name: "VERBOSE"}),
    }
    words = ["polygraphy", "run", *texts]
    generated = RunCommand().render(Values(groups), words)
    groups[DataOptions] = DataOptions(load_inputs=(load_inputs,))
    groups[ModelOptions] = ModelOptions(model_file=model, model_type="onnx")
    loaded = RunCommand().render(Values(groups), words)
    groups[DataOptions] = DataOptions(data_loader_script=(load_inputs, "load_data"))
    generated += loaded + RunCommand().render(Values(groups), words)
    return generated + program_that_compares(groups, words, model, load_inputs, save_inputs)


def program_that_compares(
    groups: dict[Any, Any], words: list[str], name: str, script: str, saved: str
) -> str:
    """Render programs in which every option of comparison functions has one of these texts."""
    groups[RunOptions] = RunOptions()
    groups[SimpleOptions] = SimpleOptions()
    groups[CompareOptions] = CompareOptions(
        compare=("indices", "l2"),
        save_accuracy_results=saved,
        postprocess={name: 3, saved: (2, 1)},
    )
    groups[FunctionOptions] = FunctionOptions(indices={name: 1}, l2={name: 1e-3, "": 1e-2})
    generated = RunCommand().render(Values(groups), words)
    groups[FunctionOptions] = FunctionOptions()
    groups[CompareOptions] = CompareOptions(
        compare_func_script=(script, "compare"), postprocess_func_script=(saved, "process")
    )
    return generated + RunCommand().render(Values(groups), words)


def skeleton(source: str) -> str:
    """Return the syntax tree of a program without its constants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = None
    return ast.dump(tree)


def constants(source: str) -> Iterable[Any]:
    return [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]


def programs_about_saved_data(texts: list[str]) -> list[str]:
    """Render the programs that read saved data, with these texts wherever they take any."""
    first, second, output, name, log_file, *_ = texts
    shared: dict[Any, Any] = {
        ScriptOptions: ScriptOptions(),
        LogOptions: LogOptions(log_file=log_file),
    }
    tolerances = {name: 1e-3}
    commands: list[tuple[Command, dict[Any, Any]]] = [
        (
            InspectDataCommand(),
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
                StopOptions: StopOptions(),
            },
        ),
        (
            CheckAccuracyCommand(),
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
            (joins(), {JoinOptions: JoinOptions(paths=(first, second, name), output=output)})
            for joins in (DataConcatCommand, DataMergeCommand)
        ),
    ]
    return [
        command.render(Values({**groups, **shared}), ["polygraphy", *command.name.split(), *texts])
        for command, groups in commands
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(hostile, min_size=5, max_size=5, unique=True))
@example(["-", '"""', "\\", "{{ x }}", "\n"])
def test_programs_about_saved_data_keep_text_as_constants(texts: list[str]) -> None:
    plain = programs_about_saved_data([f"text{index}" for index in range(5)])
    for program, expected in zip(programs_about_saved_data(texts), plain):
        assert skeleton(program) == skeleton(expected)
        assert set(texts) <= set(constants(program))


PLAIN = [f"text{index}" for index in range(8)]


@settings(max_examples=100, deadline=None)
@given(st.lists(hostile, min_size=8, max_size=8, unique=True))
@example(['a"); import os #.onnx', *PLAIN[1:]])
@example(["\n    import os\n", *PLAIN[1:]])
def test_any_text_appears_as_a_constant_and_changes_nothing_else(texts: list[str]) -> None:
    program = program_with(texts)
    assert skeleton(program) == skeleton(program_with(PLAIN))
    found = constants(program)
    for text in texts:
        assert text in found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(hostile.filter(lambda text: "\udc80" not in text), min_size=8, max_size=8, unique=True)
)
def test_formatting_keeps_hostile_programs_too(texts: list[str]) -> None:
    program = program_with(texts)
    try:
        program.encode()
    except UnicodeEncodeError:
        return
    assert ast.dump(ast.parse(formatted(program))) == ast.dump(ast.parse(program))
