"""Runners with a name and options of their own: ``--runner NAME='FLAGS'``."""

from __future__ import annotations

import shlex

import pytest

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.cli.commands.listing import load_command
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values, flags_in
from polygraphy.cli.parser import parse
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.report.commands import diagnosis_command
from tests.codegen.commands import rendered


def parsed(line: str) -> Values:
    words = shlex.split(line)
    return parse(load_command("run").extend(flags_in(words)), ["model.onnx", *words])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--runner a=--onnxrt --runner a=--onnx", "two runners have the name a"),
        ("--runner onnxrt=--onnxrt --onnxrt", "two runners have the name onnxrt"),
        ("--runner =--onnxrt", "'=--onnxrt' has no name"),
        ("--runner a", "'a' has no name"),
        ("--runner ''", "it requires a NAME=FLAGS"),
        ("--runner a=", "'a=' has no flags"),
        ("--runner 'a b=--onnxrt'", "the name 'a b' is not valid"),
        ("--runner $'a\\nb=--onnxrt'", "is not valid"),
        (f"--runner {'x' * 300}=--onnxrt", "is not valid"),
        ("--runner onnx=--onnxrt", "the name onnx is reserved"),
        ("--runner model=--onnxrt", "the name model is reserved"),
        ('--runner "a=--onnxrt \'x"', "flags with invalid quoting"),
        ("--runner 'a=--onnxrt --bogus'", "--runner a: --bogus does not exist"),
        ("--runner 'a=--onnxrt x.onnx'", "--runner a: unrecognized arguments: x.onnx"),
        ("--runner 'a=--onnxrt -h'", "--runner a: -h belongs outside the quotes"),
        ("--runner 'a=--onnxrt --rtol 3'", "--rtol belongs to the whole command"),
        ("--runner 'a=--onnxrt --openvino-device CPU'", "is an option of --openvino"),
        ("--runner 'a=--onnxrt --onnx'", "--runner a: it has 2 backends, --onnxrt and --onnx"),
        ("--runner 'a=--intra-op-threads 1'", "--runner a: it has no backend"),
        ("--runner 'a=--runner b=--onnx'", "--runner a: a runner does not contain another"),
        ("--runner 'a=--onnxrt --intra-op-threads x'", "'x' is not a whole number"),
        (
            "--runner 'a=--trt --save-engine x' --runner 'b=--trt --save-engine x'",
            "--save-engine of a and --save-engine of b have the same path, x",
        ),
    ],
)
def test_bad_input_is_one_line(line: str, message: str) -> None:
    with pytest.raises(CommandLineError) as error:
        parsed(line)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_backslash_in_a_runner_is_part_of_a_path_on_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = r"run m.onnx --runner 'a=--onnxrt --provider-library x=C:\new\x.dll --providers x'"
    monkeypatch.setattr("sys.platform", "win32")
    assert r"x': 'C:\\new\\x.dll'" in rendered(line)
    monkeypatch.setattr("sys.platform", "linux")
    assert "x': 'C:newx.dll'" in rendered(line)


def test_options_outside_apply_to_all_and_own_options_win() -> None:
    program = rendered(
        "run m.onnx --intra-op-threads 2 --runner a=--onnxrt --runner b='--onnxrt"
        " --intra-op-threads 1'"
    )
    assert 'OnnxrtRunner(SessionFromOnnx(MODEL, threads=2), name="a")' in program.replace("'", '"')
    assert 'OnnxrtRunner(SessionFromOnnx(MODEL, threads=1), name="b")' in program.replace("'", '"')


def test_statements_of_runners_do_not_mix_though_their_names_are_alike() -> None:
    program = rendered(
        "run m.onnx --runner a-b='--trt --trt-outputs x --tf32 --fp16 --bf16 --direct-io'"
        " --runner a.b='--trt --trt-outputs x'"
    )
    assert program.count("load_network_a_b =") == program.count("load_network_a_b_1 =") == 1
    assert "config=create_config)" not in program  # The unmarked engine has its configuration, too.
    assert program.count("config=create_config_a_b") == 2


def test_a_diagnosis_names_the_runner_and_its_command_can_be_typed() -> None:
    party = OnnxrtParty(graph_optimization_level="DISABLE_ALL", name="plain")
    others = [("opt", "onnxrt", {"threads": 2, "providers": ("cpu",)}), ("onnx", "onnx", {})]
    line = run_command("m.onnx", [(party.name, party.backend, party.options), *others], {})
    assert line == (
        "polygraphy run m.onnx --runner 'plain=--onnxrt --graph-optimization-level DISABLE_ALL'"
        " --runner 'opt=--onnxrt --intra-op-threads 2 --providers cpu' --runner onnx=--onnx"
    )
    assert diagnosis_command(line) == line.replace("polygraphy run", "polygraphy diagnose")
    assert party.in_float32().name == "plain"
