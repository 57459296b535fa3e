"""Models are described as they are, and their weights are left in their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.describe.reading import describe_file
from polygraphy.adapters.onnx.storage import model as mapped
from polygraphy.adapters.onnx.storage import parsing as wire
from polygraphy.adapters.onnx.storage.model import load_structure
from polygraphy.domain.errors import FileError, ModelError
from polygraphy.domain.model import EVERYTHING, Detail, Model, ModelSource
from tests.support import models
from tests.support.examples import scaled


def read(path: Path, detail: Detail = EVERYTHING) -> Model:
    return describe_file(ModelSource(str(path)), detail)


@pytest.fixture
def all_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as if it were large, and every weight of more than 16 bytes."""
    monkeypatch.setattr(mapped, "_SMALL_FILE", 0)
    monkeypatch.setattr(mapped, "_SMALL", 16)


MODELS = {
    "mlp": models.mlp,
    "conv_net": models.conv_net,
    "every_dtype": models.every_dtype,
    "bfloat16_output": models.bfloat16_output,
    "identity_fp16": models.identity_fp16,
    "custom_op": models.custom_op,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_mapped_model_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "model.onnx"
    models.save(MODELS[name](), path)
    expected = read(path)
    monkeypatch.setattr(mapped, "_SMALL_FILE", 0)
    monkeypatch.setattr(mapped, "_SMALL", 16)
    found = read(path)
    assert found == expected
    for one, other in zip(found.graph.weights, expected.graph.weights):
        assert one.location is None
        np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.usefixtures("all_mapped")
def test_weights_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    models.save(models.mlp(), path)
    structure = load_structure(path)
    whole = onnx.load(path)
    assert structure.ByteSize() < whole.ByteSize() - 4 * 8 * 16
    weight = read(path).graph.weights[0]
    assert isinstance(weight.values.base, np.memmap)
    np.testing.assert_array_equal(weight.values, numpy_helper.to_array(whole.graph.initializer[0]))


@pytest.mark.usefixtures("all_mapped")
def test_weights_of_inner_graphs_and_attributes_are_left_out_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    array = np.arange(64, dtype=np.float32)
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["t"])], "branch", [], [models.value("t", [64])],
        [numpy_helper.from_array(array, "c")],
    )  # fmt: skip
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(array, "v"))
    choice = helper.make_node("If", ["cond"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [models.value("cond", [], TensorProto.BOOL), models.value("x", [64])]
    models.save(models.make("m", [constant, choice], inputs, [models.value("y", [64])]), path)
    assert load_structure(path).ByteSize() < 1500
    described = read(path)
    node = described.graph.nodes[1]
    np.testing.assert_array_equal(node.attribute("then_branch").weights[0].values, array)
    np.testing.assert_array_equal(described.graph.nodes[0].attribute("value").values, array)


@pytest.mark.usefixtures("all_mapped")
@settings(deadline=None, max_examples=scaled(100))
@given(data=st.data())
def test_damaged_bytes_are_an_error_or_a_model(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(models.mlp().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(content)
    try:
        read(path)
    except (ModelError, FileError) as error:
        assert "model.onnx" in str(error) or "Weight" in str(error)


def test_nothing_is_read_that_was_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    models.save(models.mlp(), path)
    brief = read(path, Detail())
    assert brief.graph.nodes == ()
    assert brief.graph.node_count == 3
    assert [weight.values for weight in brief.graph.weights] == [None] * 4
    assert brief.graph.weights[0].shape == (8, 16)
    assert read(path, Detail(layers=True)).graph.nodes[0].attributes == ()


def external(folder: Path, location: str = "weights.bin", length: int = 16) -> Path:
    """Save a model whose weight is in another file."""
    model = models.make(
        "m", [helper.make_node("Add", ["x", "w"], ["y"])], [models.value("x", [4])],
        [models.value("y", [4])], weights={"w": np.arange(4, dtype=np.float32)},
    )  # fmt: skip
    tensor = model.graph.initializer[0]
    (folder / "weights.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="length", value=str(length))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_in_other_files(tmp_path: Path) -> None:
    path = external(tmp_path)
    [weight] = read(path).graph.weights
    assert weight.location == "weights.bin"
    np.testing.assert_array_equal(weight.values, [0, 1, 2, 3])
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "weights.bin").rename(moved / "weights.bin")
    assert read(path, Detail(layers=True)).graph.weights[0].nbytes == 16
    source = ModelSource(str(path), external_data_dir=str(moved))
    found = describe_file(source, EVERYTHING).graph.weights[0]
    np.testing.assert_array_equal(found.values, [0, 1, 2, 3])
    skipped = ModelSource(str(path), ignore_external_data=True)
    assert describe_file(skipped, EVERYTHING).graph.weights[0].values is None
    with pytest.raises(FileError, match="missing file"):
        read(path)


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    with pytest.raises(FileError, match="outside its folder"):
        read(external(inner, "../secret"))
    with pytest.raises(ModelError, match="does not fit its file"):
        read(external(inner, length=64))


@pytest.mark.parametrize("content", [b"\x08", b"\x3a\xff\xff\xff\xff\x0f", bytes(3), b"PK\x03\x04"])
@pytest.mark.usefixtures("all_mapped")
def test_what_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"ONNX model is invalid: .*model\.onnx"):
        read(path)


def test_deep_nesting_is_an_error_and_no_crash(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [], [models.value("y", [1])]
    )
    content = graph.SerializeToString()
    for _ in range(200):
        attribute = b"\x0a\x01b\xa0\x01\x05" + b"\x32" + wire.encode_varint(len(content)) + content
        node = b"\x22\x02If" + b"\x2a" + wire.encode_varint(len(attribute)) + attribute
        content = b"\x0a" + wire.encode_varint(len(node)) + node
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"\x08\x08\x3a" + wire.encode_varint(len(content)) + content)
    with pytest.raises(
        ModelError, match=r"deep\.onnx contains subgraphs that are nested too deeply"
    ):
        read(path)
