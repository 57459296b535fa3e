"""Commands that are printed for models with hostile names, read by a shell: sweeps, checks of
`debug`, lines for quantizers, and models with states. `tests/domain/diagnosis/test_remedies.py` has
those of a diagnosis.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
from ast import literal_eval
from pathlib import Path

import numpy as np
import onnx
import pytest

from polygraphy.adapters.fake import FunctionCommands
from polygraphy.application.debug.checks import CheckCommand
from polygraphy.application.debug.iterations import Iterations
from polygraphy.application.sweep.planning import PlannedSweep
from polygraphy.binding import bind
from polygraphy.cli.commands.listing import load_command
from polygraphy.cli.parser import parse
from polygraphy.cli.shared.model import CheckedModelOptions, ModelOptions
from polygraphy.cli.shared.steps import StepOptions
from polygraphy.codegen.source import docstring, quote_command
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.quantization.lines import exclusion
from polygraphy.domain.report.commands import diagnosis_command
from polygraphy.domain.search import Outcome
from polygraphy.domain.states.loading import StepLoader
from polygraphy.domain.sweep.plan import plan_of
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import escape_command, read_command
from polygraphy.ports.running import Commands
from polygraphy.program import _command_of
from tests.support.shell import HOSTILE, words_in_shell


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_command_of_each_job_of_a_sweep(name: str, tmp_path: Path) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(tensor, 1, [2]) for tensor in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    onnx.save(model, tmp_path / name)
    onnx.save(model, tmp_path / "-r.onnx")
    reference = {"runner": "onnx", "models": {"*": "-r.onnx"}}
    plan = {"models": [glob.escape(name)], "reference": reference, "runners": {"ort": ["--onnxrt"]}}
    planned = PlannedSweep(
        plan_of(plan, ["onnx", "onnxrt"]), str(tmp_path / "-out  it's"), str(tmp_path)
    )
    [cell] = planned.cells
    shared = planned.reference_job(cell)
    assert shared is not None
    for job in (planned.job(cell), planned.profile_job(cell, 2), planned.diagnosis(cell), shared):
        words = words_in_shell(planned.command_line(job), tmp_path)
        values = parse(load_command(words[0]), words[1:])
        expected = "-r.onnx" if job is shared else name
        path = (
            values[ModelOptions].model_file
            if words[0] == "run"
            else values[CheckedModelOptions].path
        )
        assert os.path.normpath(path) == expected
        assert parse(load_command(words[0]), job.command[4:])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_check_of_a_search(name: str, tmp_path: Path) -> None:
    words = ["polygraphy", "run", f"./{name}", "--onnx", f"--load-outputs={name}"]
    with bind(Commands, FunctionCommands(lambda command: 0)):
        check = CheckCommand(words)
    assert words_in_shell(escape_command(str(check)), tmp_path) == words[1:]
    assert shlex.split(str(check)) == words


@pytest.mark.parametrize("mark", ["-r.json", "a  b.json", "it's.json", "a\nb.json"])
def test_a_shell_reads_how_to_continue_a_search(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer() -> Outcome:
        if len(answers) == 1:
            raise KeyboardInterrupt
        return answers.pop()

    monkeypatch.chdir(tmp_path)
    answers = [Outcome.GOOD, Outcome.GOOD]
    iterations = Iterations(answer, save_replay=mark)
    iterations.run()
    with pytest.raises(KeyboardInterrupt):
        iterations.run()
    printed = capsys.readouterr().out.partition("To continue from here: ")[2].splitlines()[0]
    flag, path = words_in_shell(f"polygraphy {printed}", tmp_path)
    assert flag == "--load-debug-replay" and os.path.normpath(path) == mark
    assert (tmp_path / path).exists()


@pytest.mark.parametrize("name", [name for name in HOSTILE if "," not in name])
def test_a_shell_reads_the_options_for_a_quantizer(name: str, tmp_path: Path) -> None:
    olive = exclusion("olive", [name, "b"]).rpartition(" in the configuration")[0]
    assert json.loads(f"{{{olive}}}") == {"nodes_to_exclude": [name, "b"]}
    line = exclusion("genai", [name, "b"])
    if not name.isprintable():  # It would be several lines of a terminal: a call in Python.
        assert literal_eval(line.rpartition("=")[2].rstrip(")")) == [name, "b"]
        return
    now, _, before = line.rstrip(")").partition(" (of builders before 0.18: ")
    assert words_in_shell(f"builder {now}", tmp_path, "builder") == [
        "--extra_options", f"nodes_to_exclude={name},b",
    ]  # fmt: skip
    assert words_in_shell(f"builder {before}", tmp_path, "builder") == [
        f"int4_nodes_to_exclude={name},b"
    ]


@pytest.mark.parametrize("name", [*HOSTILE, "a,b", "a:1x2", "'x'"])
def test_a_shell_reads_the_shape_that_a_note_proposes(name: str, tmp_path: Path) -> None:
    loader = DataLoader()
    loader.input_metadata = TensorMetadata().add(name, np.float32, ("n", 3))
    assert next(iter(loader))[name].shape == (1, 3)
    [note] = loader.notes
    printed = note.brief.partition("Set it with ")[2]
    assert printed.isprintable()
    words = words_in_shell(f"polygraphy {printed}", tmp_path)
    values = parse(load_command("run"), ["m.onnx", "--onnxrt", *words])
    assert values[ModelOptions].input_shapes == {name: ((1, 3),)}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_options_of_steps(name: str, tmp_path: Path) -> None:
    loader = StepLoader(
        "m.onnx", steps=3, states=[f"{name}:past"], tokens=name, first_model=f"./{name}"
    )
    line = run_command(name, [("onnxrt", "onnxrt", {}), ("onnx", "onnx", {})], loader.options())
    words = words_in_shell(line, tmp_path)
    values = parse(load_command("run"), words[1:])
    steps = values[StepOptions]
    assert os.path.normpath(str(values[ModelOptions].model_file)) == name
    assert (steps.steps, steps.state, steps.first_model) == (3, (f"{name}:past",), f"./{name}")
    assert steps.tokens == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_run_names_its_model_in_the_next_command(name: str) -> None:
    words = ["polygraphy", "run", f"./{name}", "--onnxrt", "--onnx"]
    command = _command_of(literal_eval(docstring("Run a model.", quote_command(words))))
    assert read_command(command) == words
    assert shlex.split(diagnosis_command(command)) == ["polygraphy", "diagnose", *words[2:]]
