"""Searches for builds and layers that are to blame, with engines that run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.tensorrt.library.capabilities import capabilities
from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.domain.results.results import RunResults
from polygraphy.domain.tactics import TacticReplay
from tests.gpu.commands import Run, run
from tests.support import models

__all__ = ["run"]  # The fixture that is used here.

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]


def overflowing() -> onnx.ModelProto:
    """Return products whose sum over 256 elements is beyond float16, and is scaled back after."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["large"], name="product"),
        helper.make_node("Mul", ["large", "large"], ["larger"], name="square"),
        helper.make_node("Mul", ["larger", "scale"], ["small"], name="scaling"),
        helper.make_node("Softmax", ["small"], ["y"], name="softmax"),
    ]
    weights = {"w": np.full((256, 16), 20, np.float32), "scale": np.float32(1e-5).reshape(())}
    inputs, outputs = [models.value("x", (4, 256))], [models.value("y", (4, 16))]
    return models.make("overflowing", nodes, inputs, outputs, weights=weights)


def test_each_build_leaves_its_replay_and_is_run(run: Run) -> None:
    if not capabilities().has("algorithm_selector"):
        pytest.skip("this TensorRT records no tactics")
    models.save(models.conv_net(), Path("model.onnx"))
    code, said = run("debug build model.onnx --num-iterations 2 --save-tactics multiple.json")
    assert code == 0, said
    assert "Passed: 2/2" in said
    for name in ("multiple.0.json", "multiple.1.json"):
        assert TacticReplay.load(name)
    assert not Path("polygraphy_debug.engine").exists()


def test_replays_are_sorted_by_the_answer_of_the_check(run: Run) -> None:
    if not capabilities().has("algorithm_selector"):
        pytest.skip("this TensorRT records no tactics")
    models.save(models.identity(), Path("identity.onnx"))
    assert run("run identity.onnx --onnxrt --save-outputs golden.json")[0] == 0
    line = (
        "debug build identity.onnx --fp16 --save-tactics replay.json --artifacts-dir replays"
        " --artifacts replay.json --until=2 --check polygraphy run polygraphy_debug.engine --trt"
        " --load-outputs golden.json"
    )
    code, said = run(line)
    assert code == 0, said
    assert len(list(Path("replays/good").iterdir())) == 2
    assert run("run identity.onnx --onnxrt --seed 7 --save-outputs other.json")[0] == 0
    assert run(line.replace("golden.json", "other.json"))[0] == 0
    assert len(list(Path("replays/bad").iterdir())) == 2
    code, said = run("inspect diff-tactics --dir replays")
    assert code == 0, said


@pytest.mark.parametrize("mode", ["bisect", "linear", "minimal"])
def test_layers_that_need_more_precision_are_found(run: Run, mode: str) -> None:
    models.save(overflowing(), Path("model.onnx"))
    assert run("run model.onnx --onnxrt --mark-all --save-outputs golden.json")[0] == 0
    code, said = run(
        f"debug precision model.onnx --mode {mode} --golden-outputs golden.json --rtol 5e-2"
        " --atol 5e-2 --mark-all --save-layer-outputs analysis.json"
    )
    assert code == 0, said
    assert "The check passes with" in said
    assert list(RunResults.load("analysis.json").values())
    assert "comparison_results" in json.loads(Path("analysis.json").read_text())
