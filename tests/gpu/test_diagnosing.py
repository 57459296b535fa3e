"""`diagnose --trt --fp16` names the node that must not compute in fp16, and builds the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from polygraphy.adapters.tensorrt.library.gpu import has_gpu
from polygraphy.adapters.tensorrt.library.module import is_installed
from tests.application.diagnose.test_half import BLAMED, network
from tests.gpu.commands import Run, run

__all__ = ["run"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]


@pytest.mark.parametrize("cause", ["overflow", "epsilon"])
def test_a_planted_fault_is_found(cause: str, run: Run, tmp_path: Path) -> None:
    onnx.save(network(cause), str(tmp_path / "m.onnx"))
    code, said = run("diagnose m.onnx --trt --fp16 --format json")
    document = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
    assert code == 1
    assert document["verdict"] == "fault"
    nodes = [name for one in document["culprits"] for name in one["nodes"]]
    assert BLAMED[cause] in nodes
    remedy = document["culprits"][0]["remedy"]
    assert remedy["proven"]
    assert "--layer-precisions" in remedy["command"]
    code, _ = run(remedy["command"].removeprefix("polygraphy ") + " --rtol 1e-2 --atol 1e-2")
    assert code == 0


def test_a_healthy_model_is_not_blamed(run: Run, tmp_path: Path) -> None:
    onnx.save(network(None), str(tmp_path / "m.onnx"))
    code, _ = run("diagnose m.onnx --trt --fp16")
    assert code == 0
