"""Text from the user is data in a program, whatever it looks like."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from polygraphy.cli.command import Values
from polygraphy.cli.options.compare import CompareOptions, SimpleOptions
from polygraphy.cli.options.data import DataOptions
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.model import ModelOptions
from polygraphy.cli.options.runners import OnnxrtOptions, RunnerOptions, RunOptions
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


def program_with(texts: list[str]) -> str:
    """Render a program in which every option that takes text has one of these texts."""
    model, load_inputs, save_inputs, save_outputs, load_outputs, name, provider, log_file = texts
    groups: dict[Any, Any] = {
        RunnerOptions: RunnerOptions(runners=("onnxrt", "onnx")),
        ModelOptions: ModelOptions(
            model_file=model, model_type="onnx", input_shapes={name: (1, 2)}
        ),
        OnnxrtOptions: OnnxrtOptions(providers=(provider,)),
        DataOptions: DataOptions(val_range={name: (0, 1)}),
        RunOptions: RunOptions(save_inputs=save_inputs, save_outputs=save_outputs),
        CompareOptions: CompareOptions(load_outputs=(load_outputs,)),
        SimpleOptions: SimpleOptions(rtol={name: 1e-3}, check_error_stat={name: ("max", "mean")}),
        ScriptOptions: ScriptOptions(),
        LogOptions: LogOptions(log_file=log_file, verbosity={name: "VERBOSE"}),
    }
    words = ["polygraphy", "run", *texts]
    generated = RunCommand().render(Values(groups), words)
    groups[DataOptions] = DataOptions(load_inputs=(load_inputs,))
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
