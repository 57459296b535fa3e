"""Comparing layer by layer within a budget of memory, as users do it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.fake import RecordingConsole
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind
from polygraphy.comparator import AccuracyResults, Comparator, RunResults
from polygraphy.ports.reporting import Console
from tests.support import classifier_files
from tests.support.helpers.layer_runs import LAYERS, compared_outputs

Run = Callable[..., Any]
BUDGET = "--memory-budget 20K"


@pytest.mark.parametrize("backends", ["--onnxrt --onnx", "--onnxrt --onnxrt"])
@pytest.mark.parametrize("marked", ["--mark-all", "--onnx-outputs '*'"])
def test_a_budget_changes_nothing_but_memory(
    classifier_dir: Path, polygraphy: Run, backends: str, marked: str
) -> None:
    done = polygraphy(f"polygraphy run -v model.onnx {backends} {marked} {BUDGET} --iterations 2")
    assert done.code == 0
    assert compared_outputs(done) == LAYERS * 2
    assert f"Layerwise | {len(LAYERS)} tensors | " in done.out
    assert "Pass Rate: 100.0%" in done.out
    assert "Passed: 2/2 iterations" in done.out


@pytest.mark.parametrize("budget", ["", BUDGET, "--memory-budget 1"])
def test_a_weight_that_is_an_output_is_compared(
    classifier_dir: Path, polygraphy: Run, budget: str
) -> None:
    model = onnx.load("model.onnx")
    weight = next(each for each in model.graph.initializer if each.data_type == 1)
    kind = onnx.helper.make_tensor_value_info(weight.name, 1, list(weight.dims))
    model.graph.output.append(kind)
    onnx.save(model, "weighty.onnx")
    done = polygraphy(f"polygraphy run -v weighty.onnx --onnxrt --onnx --mark-all {budget}")
    assert done.code == 0
    assert sorted(compared_outputs(done)) == sorted([*LAYERS, weight.name])


def test_without_need_the_model_is_loaded_once(classifier_dir: Path, polygraphy: Run) -> None:
    done = polygraphy("polygraphy run -v model.onnx --onnxrt --onnx --mark-all --no-unmarked")
    assert done.code == 0
    assert done.out.count("Loading model") == 1
    assert done.out.count("Creating ONNX-Runtime Inference Session") == 1
    assert "segments" not in done.out


def test_what_differs_is_found_saved_and_drawn(classifier_dir: Path, polygraphy: Run) -> None:
    pytest.importorskip("matplotlib")
    done = polygraphy(
        f"polygraphy run -v model.onnx --onnxrt --onnx --mark-all {BUDGET} --rtol 0 --atol 0"
        " --save-worst 2 worst.safetensors --save-error-by-depth depth.png"
        " --save-accuracy-results verdicts.json"
    )
    assert done.code == 1
    assert done.out.index("'conv1_output' at") < done.out.index("'relu1_output' at")
    (found,) = AccuracyResults.load("verdicts.json")
    assert found.output_names() == LAYERS
    saved = RunResults.load("worst.safetensors")
    names = list(saved.values()[0][0])
    assert len(names) == 2
    excess = {name: answer.excess for _, _, name, answer in found.outputs() if not answer}
    [(_, [one]), (_, [other])] = saved.items()
    for name in names:
        assert np.abs(one[name] - other[name]).max() > 0
    assert not excess or names[0] in excess
    assert Path("depth.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_that_is_changed_first(classifier_dir: Path, polygraphy: Run) -> None:
    done = polygraphy(
        f"polygraphy run -v model.onnx --onnxrt --onnx --mark-all --fp-to-fp16 {BUDGET} --rtol auto"
        " --atol auto --exclude-outputs output1"
    )
    assert done.code == 0
    assert "output1" not in compared_outputs(done)
    assert "segments of layers" in done.out


def test_weights_beside_the_model(classifier_dir: Path, polygraphy: Run) -> None:
    onnx.save(
        classifier_files.classifier(),
        "split.onnx",
        save_as_external_data=True,
        location="w",
        size_threshold=0,
    )
    done = polygraphy(f"polygraphy run -v split.onnx --onnxrt --onnx --mark-all {BUDGET}")
    assert (done.code, compared_outputs(done)) == (0, LAYERS)
    Path("w").unlink()
    assert polygraphy(f"polygraphy run split.onnx --onnxrt --onnx --mark-all {BUDGET}").code == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--onnxrt --onnx", "requires a comparison of every tensor. Add --mark-all"),
        ("--onnxrt --mark-all", "requires at least two runners"),
        ("--onnxrt --onnx --mark-all --load-outputs a.json", "requires at least two runners"),
        (
            "--onnxrt --pluginref --mark-all",
            "requires runners of an ONNX model: --onnxrt, --onnx, --openvino and --trt",
        ),
        (
            "--onnxrt --onnx --mark-all --save-outputs a.json",
            "cannot be combined with --save-outputs",
        ),
        ("--onnxrt --onnx --mark-all --warm-up 1", "the runners take turns"),
        ("--onnxrt --onnx --mark-all --save-onnx a.onnx", "cannot be combined with --save-onnx"),
        ("--onnxrt --trt --mark-all --save-engine a.engine", "is a separate engine"),
    ],
)
def test_where_a_budget_means_nothing(
    classifier_dir: Path, polygraphy: Run, options: str, text: str
) -> None:
    done = polygraphy(f"polygraphy run -v model.onnx {options} {BUDGET}")
    assert done.code == 2
    assert "--memory-budget: " in done.err
    assert text in done.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--onnxrt --save-worst 1", "there is no comparison"),
        ("--onnxrt --save-error-by-depth a.png", "there is no comparison"),
        ("--onnxrt --onnx --save-worst 0", "0 is less than 1"),
        ("--onnxrt --onnx --save-worst 1 a b", "'a b' is more than a number and a path"),
        ("--onnxrt --onnx --save-worst 1 a.json --save-outputs a.json", "have the same path"),
        ("--onnxrt --onnx --save-worst 1 model.onnx", "have the same path"),
        ("--onnxrt --onnx --save-worst 1 a.npz", "can be read, but not written"),
        ("--onnxrt --onnx --save-error-by-depth a.txt", "is not a supported image format"),
    ],
)
def test_mistakes_about_what_is_kept(
    classifier_dir: Path, polygraphy: Run, options: str, text: str
) -> None:
    done = polygraphy(f"polygraphy run model.onnx {options}")
    assert done.code in (2, 3)
    assert text in done.out + done.err


def test_the_worst_are_saved_of_any_comparison(classifier_dir: Path, polygraphy: Run) -> None:
    polygraphy("polygraphy run -v model.onnx --onnxrt --save-outputs good.json")
    done = polygraphy("polygraphy run -v model.onnx --onnx --load-outputs good.json --save-worst 1")
    assert done.code == 0
    assert len(RunResults.load("worst.safetensors").values()[0][0]) == 1


@pytest.mark.parametrize("budget", [None, 100])
def test_layers_do_not_pass_where_the_outputs_fail(budget: int | None) -> None:
    """ONNX Runtime takes one of two pairs of QuantizeLinear and DequantizeLinear away, unless what
    lies between them is an output.
    """
    model = two_quantizations()
    makers = [partial(_session, level=level) for level in ("ENABLE_ALL", "DISABLE_ALL")]
    data = [{"x": np.linspace(-3, 3, 1000, dtype=np.float32)}]
    if Comparator.compare_accuracy(Comparator.run([make(model) for make in makers], data)):
        pytest.skip("this ONNX Runtime does not have the fault")
    run = partial(Comparator.run_layerwise, makers, model, data, memory_budget=budget)
    with bind(Console, RecordingConsole()) as console:
        assert not Comparator.compare_accuracy(run())
    assert ["Marking" in text for (text,) in console.arguments_of("note")] == [True]
    assert Comparator.compare_accuracy(run(unmarked=False))


def _session(model: onnx.ModelProto, level: str) -> OnnxrtRunner:
    return OnnxrtRunner(SessionFromOnnx(model, graph_optimization_level=level))


def two_quantizations() -> onnx.ModelProto:
    names = ["x", "a", "b", "c", "y"]
    nodes = [
        onnx.helper.make_node(kind, [names[i], scale, "zero"], [names[i + 1]])
        for i, (kind, scale) in enumerate(
            zip(("QuantizeLinear", "DequantizeLinear") * 2, ("small", "small", "large", "large"))
        )
    ]
    constants = {"small": np.float32(0.02), "large": np.float32(0.05), "zero": np.uint8(128)}
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1000])
        for name in ("x", "y")
    ]
    weights = [onnx.numpy_helper.from_array(np.array(a), name) for name, a in constants.items()]
    graph = onnx.helper.make_graph(nodes, "qdq", values[:1], values[1:], weights)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
