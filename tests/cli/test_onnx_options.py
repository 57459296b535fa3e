"""Options about ONNX models: their values, and what programs they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.commands.run.run import RunCommand
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds.base import ByteSize
from polygraphy.cli.declare.option import argv_of
from polygraphy.cli.parser import parse
from polygraphy.cli.shared.onnx import OnnxLoadOptions, OnnxSaveOptions
from tests.codegen.commands import rendered


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1024", 1024), ("16e6", 16_000_000), ("1K", 1024), ("1.5k", 1536), ("2M", 2 << 20),
     ("1G", 1 << 30), (" 7 ", 7), ("1.9", 1), ("1e20", 10**20)],
)  # fmt: skip
def test_byte_sizes(text: str, value: int) -> None:
    assert ByteSize().parse([text]) == value


@pytest.mark.parametrize("text", ["", "K", "-1", "1T", "1/2", "nan", "inf", "1KB", "x"])
def test_what_is_no_byte_size(text: str) -> None:
    with pytest.raises(BadValue, match="not a size in bytes"):
        ByteSize().parse([text])


@given(st.integers(min_value=0))
def test_byte_sizes_survive_the_way_to_words_and_back(value: int) -> None:
    assert ByteSize().parse(ByteSize().unparse(value)) == value


@pytest.mark.parametrize("words", [["*"], ["mark all"], ["mark", "all"]])
def test_all_spellings_of_every_tensor(words: list[str]) -> None:
    values = parse(RunCommand(), ["m.onnx", "--onnxrt", "--onnx-outputs", *words])
    assert values[OnnxLoadOptions].onnx_outputs == ("*",)
    assert argv_of(values[OnnxLoadOptions]) == ["--onnx-outputs", "*"]


@pytest.mark.parametrize("words", [["mark"], ["all", "mark"], ["mark", "all", "y"], ["*", "y"]])
def test_names_stay_names(words: list[str]) -> None:
    values = parse(RunCommand(), ["m.onnx", "--onnxrt", "--onnx-outputs", *words])
    assert values[OnnxLoadOptions].onnx_outputs == tuple(words)


@pytest.mark.parametrize(
    ("words", "value"),
    [([], None), (["--save-external-data"], ""), (["--external-data-path", "w"], "w")],
)
def test_a_file_for_weights_may_go_without_a_name(words: list[str], value: str | None) -> None:
    values = parse(RunCommand(), ["m.onnx", "--onnxrt", "--save-onnx", "n.onnx", *words])
    assert values[OnnxSaveOptions].save_external_data == value
    again = parse(RunCommand(), ["m.onnx", "--onnxrt", *argv_of(values[OnnxSaveOptions])])
    assert again[OnnxSaveOptions] == values[OnnxSaveOptions]


@pytest.mark.parametrize("spelling", ["ENABLE_ALL", "ort_enable_all", "Enable_All"])
def test_levels_of_optimization(spelling: str) -> None:
    program = rendered(f"run m.onnx --onnxrt --graph-optimization-level {spelling}")
    assert "SessionFromOnnx(MODEL, graph_optimization_level='ENABLE_ALL')" in program


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ("--external-data-dir w", "OnnxFromPath(MODEL, external_data_dir='w')"),
        ("--ext w", "OnnxFromPath(MODEL, external_data_dir='w')"),
        ("--ignore-external-data", "OnnxFromPath(MODEL, ignore_external_data=True)"),
        ("--shape-inference", "InferShapes(OnnxFromPath(MODEL))"),
        (
            "--do-shape-inference --no-onnxruntime-shape-inference",
            "InferShapes(OnnxFromPath(MODEL), allow_onnxruntime=False)",
        ),
        ("--onnx-outputs a b", "ModifyOutputs(OnnxFromPath(MODEL), outputs=['a', 'b'])"),
        ("--onnx-outputs-by-type Conv", "ModifyOutputs(OnnxFromPath(MODEL), mark_types=['Conv'])"),
        ("--mark-all", "ModifyOutputs(OnnxFromPath(MODEL), outputs=MARK_ALL)"),
        (
            "--onnx-exclude-outputs a b --exclude-outputs c a",
            "ModifyOutputs(OnnxFromPath(MODEL), exclude_outputs=['c', 'a', 'b'])",
        ),
        ("--save-onnx n.onnx", "SaveOnnx(OnnxFromPath(MODEL), path='n.onnx')"),
        (
            "--save-onnx n.onnx --save-external-data --external-data-size-threshold 2K"
            " --no-save-all-tensors-to-one-file",
            "SaveOnnx(OnnxFromPath(MODEL), path='n.onnx', external_data_path='',"
            " size_threshold=2048, all_tensors_to_one_file=False)",
        ),
    ],
)
def test_each_option_is_in_the_program(options: str, source: str) -> None:
    program = rendered(f"run m.onnx --onnxrt {options}")
    assert f"    load_model = {source}\n" in program
    assert "SessionFromOnnx(load_model)" in program
    plain = rendered("run m.onnx --onnxrt")
    assert "OnnxrtRunner(SessionFromOnnx(MODEL))" in plain
    assert "load_model" not in plain


def test_several_runners_share_one_model() -> None:
    program = rendered("run m.onnx --onnxrt --onnx --onnx-outputs y")
    assert "    model = modify_outputs(onnx_from_path(MODEL), outputs=['y'])\n" in program
    assert "OnnxrtRunner(SessionFromOnnx(model))" in program
    assert "OnnxReferenceRunner(model)" in program


def test_marking_all_compares_what_both_sides_have() -> None:
    assert "allow_missing_outputs=True" in rendered("run m.onnx --onnxrt --onnx --mark-all")
    assert "missing" not in rendered("run m.onnx --onnxrt --onnx --onnx-outputs '*'")


def test_without_a_runner_no_model_is_loaded() -> None:
    for option in ("--mark-all", "--save-onnx x.onnx", "--onnx-outputs y", "--shape-inference"):
        with pytest.raises(CommandLineError, match="no selected runner loads the ONNX model"):
            rendered(f"run --load-outputs a.json b.json {option}")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--mark-all --onnx-outputs y", "--onnx-outputs: has no effect"),
        ("--no-onnxruntime-shape-inference", "has no effect without --shape-inference"),
        ("--save-external-data w", "--save-external-data: has no effect"),
        ("--external-data-size-threshold 1", "has no effect, because no model is saved"),
        ("--save-onnx n.onnx --external-data-size-threshold 1", "has no effect without"),
    ],
)
def test_options_without_effect_are_named(
    options: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rendered(f"run m.onnx --onnxrt {options}")
    assert text in capsys.readouterr().err
    rendered("run m.onnx --onnxrt --mark-all --onnx-outputs '*' --save-onnx n --save-external-data")
    assert capsys.readouterr().err == ""
