"""Every tensor of a model compared between ONNX Runtime and TensorRT, as users do it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from tests.gpu.commands import Run, run
from tests.support import models
from tests.support.networks import encoder, resnet50

__all__ = ["run"]  # The fixture that is used here.

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

FIRST = "  node      "
"""Before the node that made the first tensor that fails."""


@pytest.mark.parametrize("budget", ["", "--memory-budget 64M", "--memory-budget 20K"])
@pytest.mark.parametrize("name", ["conv_net", "mlp"])
def test_every_tensor_of_a_small_model(name: str, budget: str, tmp_path: Path, run: Run) -> None:
    models.save(getattr(models, name)(), tmp_path / "model.onnx")
    code, said = run(
        f"run model.onnx --onnxrt --trt --mark-all --rtol 1e-4 --atol 1e-4 {budget}"
        " --save-accuracy-results verdicts.json"
    )
    assert code == 0, said[-3000:]
    assert FIRST not in said
    nodes = onnx.load(tmp_path / "model.onnx").graph.node
    assert all(output in said for node in nodes for output in node.output)


@pytest.mark.parametrize("budget", ["", "--memory-budget 20K"])
def test_the_first_tensor_that_fails_is_named(budget: str, tmp_path: Path, run: Run) -> None:
    models.save(models.mlp(), tmp_path / "model.onnx")
    code, said = run(
        f"run model.onnx --onnxrt --trt --fp16 --mark-all --rtol 1e-7 --atol 1e-7 {budget}"
    )
    assert code == 1, said[-3000:]
    # TensorRT may compute a part that is built alone in float32, without any difference.
    assert f"{FIRST}Gemm '{'logits' if budget and ' 0     1/1' in said else 'hidden'}'" in said


@pytest.mark.parametrize("budget", ["", "--memory-budget 64M"])
def test_resnet50(budget: str, tmp_path: Path, run: Run) -> None:
    onnx.save(resnet50(batch=1), tmp_path / "resnet50.onnx")
    code, said = run(
        f"run resnet50.onnx --onnxrt --trt --mark-all --rtol 1e-3 --atol 1e-3 {budget}"
    )
    print(said[-4000:])
    assert code == 0
    assert "PASSED  175 outputs matched" in said


def test_an_encoder(tmp_path: Path, run: Run) -> None:
    onnx.save(encoder(layers=1), tmp_path / "encoder.onnx")
    code, said = run(
        "run encoder.onnx --onnxrt --trt --mark-all --input-shapes tokens:[2,16] --rtol 1e-3"
        " --atol 1e-3"
    )
    print(said[-4000:])
    assert code == 0
