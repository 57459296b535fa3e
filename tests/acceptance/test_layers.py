"""Comparing layer by layer, and loading and saving what is run, as users do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.backend.onnx import modify_outputs, onnx_from_path, save_onnx
from polygraphy.comparator import RunResults
from tests.support import classifier_files, models
from tests.support.helpers.layer_runs import LAYERS, compared_outputs

Run = Callable[..., Any]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("backends", ["--onnxrt --onnx", "--onnxrt --onnxrt"])
@pytest.mark.parametrize(
    "option", ["--mark-all", "--onnx-outputs mark\\ all", "--onnx-outputs mark all"]
)
def test_every_layer_is_compared_in_the_order_of_the_model(
    classifier_dir: Path, polygraphy: Run, backends: str, option: str
) -> None:
    done = polygraphy(
        f"polygraphy run -v model.onnx {backends} {option} --save-outputs layer_outputs.json"
    )
    assert done.code == 0
    assert compared_outputs(done) == LAYERS
    saved = RunResults.load("layer_outputs.json")
    assert [list(outputs) for _, [outputs] in saved.items()] == [LAYERS, LAYERS]
    assert done.out.count("Loading model") <= 2, "both backends share the marked model"


def test_the_first_layer_that_fails_is_named(classifier_dir: Path, polygraphy: Run) -> None:
    model = classifier_files.classifier()
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    bias = onnx.numpy_helper.to_array(weights["conv2.bias"]) + np.float32(0.01)
    polygraphy("polygraphy run -v model.onnx --onnxrt --mark-all --save-outputs good.json")
    weights["conv2.bias"].CopyFrom(onnx.numpy_helper.from_array(bias, "conv2.bias"))
    models.save(model, classifier_dir / "bad.onnx")
    done = polygraphy("polygraphy run -v bad.onnx --onnxrt --mark-all --load-outputs good.json")
    assert done.code == 1
    assert "9 of 13 outputs differ; first to fail: 'intermediate'" in done.out
    start = next(at for at, line in enumerate(done.lines) if "tolerance         passed" in line)
    rows = [line.split() for line in done.lines[start + 1 :][: len(LAYERS)]]
    table = {row[row[0] == "x"]: row[row[0] == "x" :] for row in rows}
    assert list(table) == LAYERS
    assert [name for name in LAYERS if "1/1" in table[name]] == [
        "conv1_output", "relu1_output", "pool1_output", "scale",
    ]  # fmt: skip
    assert table["intermediate"][1] == "[1,16,14,14]"
    assert float(table["intermediate"][2]) == pytest.approx(0.01, rel=1e-3)


def test_a_handful_of_outputs_needs_no_table(classifier_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run -v model.onnx --onnxrt --onnx")
    assert "max abs  max rel" not in done.out
    assert (
        "max abs  max rel"
        in polygraphy("polygraphy run -v model.onnx --onnxrt --onnx --mark-all").out
    )


def test_marking_all_compares_what_both_sides_have_and_counts_the_rest(
    classifier_dir: Path, polygraphy: Run
) -> None:
    polygraphy("polygraphy run -v model.onnx --onnxrt --save-outputs plain.json")
    done = polygraphy("polygraphy run -v model.onnx --onnxrt --mark-all --load-outputs plain.json")
    assert done.code == 0
    assert compared_outputs(done) == ["output", "final_output"]
    assert f"Not compared: {len(LAYERS) - 2} outputs that only one side has" in done.out
    strict = polygraphy(
        "polygraphy run -v model.onnx --onnxrt --onnx-outputs '*' --load-outputs plain.json"
    )
    assert strict.code == 1


def test_only_particular_layers(classifier_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run -v model.onnx --onnxrt --onnx --onnx-outputs output2 output1")
    assert (done.code, compared_outputs(done)) == (0, ["output1", "output2"])
    done = polygraphy(
        "polygraphy run -v model.onnx --onnxrt --onnx --onnx-outputs conv1_output relu1_output"
        " --onnx-exclude-outputs final_output"
    )
    assert (done.code, compared_outputs(done)) == (0, ["conv1_output", "relu1_output"])
    done = polygraphy(
        "polygraphy run -v model.onnx --onnxrt --onnx --onnx-outputs-by-type gemm relu"
        " --exclude-outputs relu?_output"
    )
    assert (done.code, compared_outputs(done)) == (0, ["output1", "output2"])


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--onnx-outputs output3", "Tensor 'output3' does not exist. Available: 'input', 'conv1_"),
        ("--onnx-outputs 'z*'", "Tensor 'z*' does not exist"),
        ("--onnx-outputs-by-type Convolution", "Operator type 'Convolution' does not exist"),
        ("--exclude-outputs nothing", "Tensor 'nothing' does not exist"),
        ("--onnx-outputs gain", "Tensor 'gain' is a weight of the model"),
        ("--exclude-outputs '*'", "No output of the model remains"),
        ("--graph-optimization-level most", "'most' is not one of DISABLE_ALL"),
        ("--save-onnx x --external-data-size-threshold many", "'many' is not a size in bytes"),
    ],
)
def test_mistakes_about_outputs(
    classifier_dir: Path, polygraphy: Run, option: str, text: str
) -> None:
    done = polygraphy(f"polygraphy run model.onnx --onnxrt {option}")
    assert done.code == 2
    assert text in done.out + done.err


def test_intermediate_tensors_are_validated(identity_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run --onnxrt identity_fp16.onnx --validate --onnx-outputs '*' -v")
    assert done.code == 0
    for name in ("x_fp16", "y_fp16", "y"):
        assert f"PASSED | Output: {name} is valid" in done.out


def test_nan_inside_a_model_is_found(tmp_path: Path, polygraphy: Run) -> None:
    model = models.make(
        "hidden",
        [
            onnx.helper.make_node("Log", ["x"], ["log"]),
            onnx.helper.make_node("Greater", ["log", "zero"], ["flag"]),
            onnx.helper.make_node("Where", ["flag", "log", "zero"], ["y"]),
        ],
        [models.value("x", [4])],
        [models.value("y", [4])],
        weights={"zero": np.zeros(1, np.float32)},
    )
    models.save(model, tmp_path / "hidden.onnx")
    command = "polygraphy run hidden.onnx --onnxrt --validate --val-range [-2,-1]"
    assert polygraphy(command, cwd=tmp_path).code == 0
    done = polygraphy(f"{command} --onnx-outputs '*'", cwd=tmp_path)
    assert done.code == 1
    assert (
        "FAILED  1 of 3 outputs contains NaN or infinity; the first is 'log' of onnxrt." in done.out
    )


def test_the_model_that_is_run_is_saved(classifier_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        "polygraphy run -v model.onnx --onnxrt --onnx-outputs output1 --shape-inference"
        " --save-onnx saved.onnx --save-external-data weights.bin"
        " --external-data-size-threshold 100"
    )
    assert done.code == 0
    saved = onnx_from_path("saved.onnx")
    assert [value.name for value in saved.graph.output] == ["output1"]
    assert "conv1_output" in {value.name for value in saved.graph.value_info}
    assert saved.graph.initializer == classifier_files.classifier().graph.initializer
    assert Path("weights.bin").stat().st_size > 1000
    again = polygraphy("polygraphy run saved.onnx --onnxrt --onnx")
    assert (again.code, compared_outputs(again)) == (0, ["output1"])


def test_weights_that_are_elsewhere(classifier_dir: Path, polygraphy: Run) -> None:
    save_onnx(classifier_files.classifier(), "there/model.onnx", "weights.bin", size_threshold=100)
    Path("there/model.onnx").rename("bare.onnx")
    command = "polygraphy run bare.onnx --onnxrt --onnx"
    done = polygraphy(f"{command} --onnx-outputs output")
    assert done.code == 3
    assert "stores weights in missing files: weights.bin." in done.out + done.err
    assert polygraphy(f"{command} --load-external-data there").code == 0


def test_the_structure_alone_can_be_saved(classifier_dir: Path, polygraphy: Run) -> None:
    save_onnx(classifier_files.classifier(), "bare.onnx", "weights.bin", size_threshold=0)
    Path("weights.bin").unlink()
    done = polygraphy(
        "polygraphy run bare.onnx --onnx --ignore-external-data --save-onnx structure.onnx"
    )
    assert done.code == 3, "it cannot be run"
    structure = onnx_from_path("structure.onnx", ignore_external_data=True)
    assert structure.graph.node[0].name == "conv1"


def test_optimization_is_switched_off(classifier_dir: Path, polygraphy: Run) -> None:
    for level in ("ORT_DISABLE_ALL", "enable_basic"):
        done = polygraphy(
            f"polygraphy run -v model.onnx --onnxrt --onnx --graph-optimization-level {level}"
        )
        assert done.code == 0


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_real_architectures_layer_by_layer(name: str, tmp_path: Path, polygraphy: Run) -> None:
    source = LIGHT / f"light_{name}.onnx"
    done = polygraphy(f"polygraphy run {source} --onnxrt --onnxrt --mark-all -q", cwd=tmp_path)
    assert done.code == 0
    nodes = onnx.load(source).graph.node
    model = modify_outputs(onnx_from_path(str(source)), outputs=["*"])
    constants = {name for node in nodes if node.op_type == "Constant" for name in node.output}
    assert [value.name for value in model.graph.output] == [
        output for node in nodes for output in node.output if output not in constants
    ]
