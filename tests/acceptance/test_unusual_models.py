"""Models without outputs, and models whose inputs are no tensors: one clear line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

from tests.acceptance.conftest import Done
from tests.support import models

Run = Callable[..., Done]

BACKENDS = ["--onnxrt", "--onnx", "--pluginref"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_without_outputs_is_named(backend: str, polygraphy: Run) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "none", [models.value("x", [2])], []
    )
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "none.onnx")
    done = polygraphy(f"polygraphy run none.onnx {backend}")
    assert done.code == 3
    assert (
        "[!] The model has no outputs, so there is nothing to run. Mark tensors of an ONNX model as outputs with --onnx-outputs"
        in done.err
    )
    assert polygraphy(f"polygraphy run none.onnx {backend} --onnx-outputs y").code == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_that_is_no_tensor_is_named(backend: str, polygraphy: Run) -> None:
    graph = helper.make_graph(
        [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        "sequence",
        [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)],
        [models.value("y", [None])],
    )
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "sequence.onnx")
    done = polygraphy(f"polygraphy run sequence.onnx {backend}")
    assert done.code == 3
    assert "[!] Input 's' of the model is a sequence, not a tensor" in done.err
