"""What is reported about TensorFlow graphs without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from polygraphy.adapters.tensorflow.reading import describe_file
from polygraphy.backend.tf import save_graph
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.model import EVERYTHING, Detail, ModelSource, Tensor
from polygraphy.inspect import inspect_model
from tests.adapters.tensorflow import graphs


@pytest.fixture
def frozen(tmp_path: Path) -> str:
    path = tmp_path / "model.pb"
    save_graph((graphs.two_layers(), ["y:0"]), str(path))
    return str(path)


def read(path: str, kind: str, detail: Detail = EVERYTHING, **options: Any) -> Any:
    return describe_file(ModelSource(path, kind=kind, **options), detail)


def test_a_graph_is_described(frozen: str) -> None:
    described = read(frozen, "frozen")
    graph = described.graph
    assert described.kind == "frozen"
    assert graph.inputs == (Tensor("x:0", "float32", (None, 4)),)
    assert graph.outputs == (Tensor("y:0", "float32", (None, 3)),)
    assert [node.op for node in graph.nodes] == ["MatMul", "AddV2", "Relu"]
    assert graph.nodes[0].inputs == ("x:0", "weight:0")
    assert graph.nodes[0].attribute("transpose_a") == 0
    assert graph.nodes[0].attribute("T") == "float32"
    weight, bias = graph.weights
    assert (weight.name, weight.shape, weight.nbytes) == ("weight:0", (4, 3), 48)
    np.testing.assert_array_equal(bias.values, graphs.BIAS)


def test_only_what_is_asked_for_is_read(frozen: str) -> None:
    graph = read(frozen, "frozen", Detail()).graph
    assert (graph.nodes, graph.node_count) == ((), 3)
    assert graph.weights[0].values is None
    assert read(frozen, "frozen", Detail(layers=True)).graph.nodes[0].attributes == ()


def test_outputs_and_size_are_chosen(frozen: str, tmp_path: Path) -> None:
    every = read(frozen, "frozen", outputs=("*",)).graph
    assert [tensor.name for tensor in every.outputs] == ["product:0", "sum:0", "y:0"]
    one = read(frozen, "frozen", outputs=("sum",), optimizes=True).graph
    assert [node.name for node in one.nodes] == ["product", "sum"]
    with pytest.raises(UnknownNameError):
        read(frozen, "frozen", outputs=("none",))


def test_attributes_of_every_kind() -> None:
    def build(tf: Any, v1: Any) -> None:
        x = v1.placeholder(tf.float32, [1, 4, 4, 2], name="x")
        filters = tf.ones([2, 2, 2, 1])
        tf.raw_ops.Conv2D(input=x, filter=filters, strides=[1, 2, 2, 1], padding="SAME", name="c")
        tf.raw_ops.LeakyRelu(features=x, alpha=0.5, name="leaky")

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/m.pb"
        save_graph((graphs.in_graph(build), ["c:0", "leaky:0"]), path)
        nodes = {node.name: node for node in read(path, "frozen").graph.nodes}
    conv = {each.name: (each.kind, each.value) for each in nodes["c"].attributes}
    assert conv["strides"] == ("ints", (1, 2, 2, 1))
    assert conv["padding"] == ("string", "SAME")
    assert conv["T"] == ("dtype", "float32")
    assert nodes["leaky"].attribute("alpha") == 0.5


@pytest.mark.parametrize("kind", ["keras", "saved-model", "ckpt"])
def test_every_type_is_shown(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m"
    if kind == "keras":
        path = tmp_path / "m.keras"
        graphs.write_keras(path)
    elif kind == "ckpt":
        graphs.write_checkpoint(path, "first")
        graphs.write_checkpoint(path, "second")
    else:
        graphs.write_saved_model(path)
    options = {"checkpoint": "first"} if kind == "ckpt" else {}
    inspect_model(str(path), model_type=kind, show=["layers"], **options)
    shown = capsys.readouterr().out
    assert "==== TensorFlow Graph ====" in shown
    assert f"Type: {kind}" in shown
    assert "{x:0 [dtype=float32, shape=(-1, 4)]}" in shown
    assert "[Op: MatMul]" in shown
    with pytest.raises(UsageError, match="ONNX"):
        inspect_model(str(path), model_type=kind, stats=True)
