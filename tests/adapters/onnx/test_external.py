"""Weights in files beside a model: where they are read from, and where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from polygraphy.adapters.onnx_common.loadable import loadable_form
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.domain.errors import FileError, ModelError
from tests.support import models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with model.onnx and its weights in weights.bin."""
    home = tmp_path / "home"
    save_onnx(models.conv_net(), str(home / "model.onnx"), "weights.bin", size_threshold=0)
    return home


def relocated(folder: Path, location: str) -> str:
    """Let the model in a folder name another file for its weights, and return its path."""
    path = folder / "model.onnx"
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = location
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_weights_are_loaded(folder: Path) -> None:
    model = onnx_from_path(str(folder / "model.onnx"))
    assert model == models.conv_net()


def test_weights_in_another_folder(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "weights.bin").rename(elsewhere / "weights.bin")
    path = str(folder / "model.onnx")
    with pytest.raises(FileError, match=r"weights\.bin") as error:
        onnx_from_path(path)
    assert "--external-data-dir" in error.value.hint
    assert onnx_from_path(path, external_data_dir=str(elsewhere)) == models.conv_net()


def test_weights_that_are_not_asked_for_are_not_needed(folder: Path) -> None:
    (folder / "weights.bin").unlink()
    model = onnx_from_path(str(folder / "model.onnx"), ignore_external_data=True)
    assert model.graph.node[0].op_type == "Conv"
    assert not model.graph.initializer[0].HasField("raw_data")


@pytest.mark.parametrize(
    "location", ["../secret.bin", "a/../../secret.bin", "..\\secret.bin", "C:\\secret.bin", ""]
)
def test_paths_that_leave_the_folder_are_refused(folder: Path, location: str) -> None:
    (folder.parent / "secret.bin").write_bytes(bytes(100_000))
    with pytest.raises(FileError, match="outside its folder"):
        onnx_from_path(relocated(folder, location))


def test_absolute_paths_are_refused(folder: Path) -> None:
    location = str((folder / "weights.bin").resolve())
    with pytest.raises(FileError, match="outside its folder"):
        onnx_from_path(relocated(folder, location))


def test_links_that_leave_the_folder_are_refused(folder: Path) -> None:
    (folder / "weights.bin").rename(folder.parent / "secret.bin")
    (folder / "weights.bin").symlink_to("../secret.bin")
    with pytest.raises(FileError, match="outside its folder"):
        onnx_from_path(str(folder / "model.onnx"))


def test_a_cache_of_links_is_read(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for name in ("model.onnx", "weights.bin"):
        (snapshot / name).symlink_to(os.path.relpath(folder / name, snapshot))
    assert onnx_from_path(str(snapshot / "model.onnx")) == models.conv_net()


def test_a_folder_below_is_fine(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "weights.bin").rename(folder / "a" / "weights.bin")
    assert onnx_from_path(relocated(folder, "a/weights.bin")) == models.conv_net()


def test_a_truncated_file_is_named(folder: Path) -> None:
    path = folder / "weights.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"dense\.bias.*weights\.bin"):
        onnx_from_path(str(folder / "model.onnx"))


@pytest.mark.parametrize(("key", "value"), [("length", "8"), ("offset", "-4"), ("offset", "x")])
def test_nonsense_in_the_model_is_named(folder: Path, key: str, value: str) -> None:
    path = folder / "model.onnx"
    model = onnx.load(str(path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="does not fit its file"):
        onnx_from_path(str(path))


def test_without_offset_and_length_a_file_is_one_weight(tmp_path: Path) -> None:
    values = np.arange(3, dtype=np.float32)
    model = models.conv_net()
    tensor = model.graph.initializer[0]
    tensor.Clear()
    tensor.name, tensor.data_type = "w", onnx.TensorProto.FLOAT
    tensor.dims.append(3)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(values.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    loaded = onnx_from_path(str(path)).graph.initializer[0]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(loaded), values)


def test_a_model_above_the_size_limit_is_not_copied_to_find_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = models.make(
        "m",
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        [models.value("x", [2])],
        [models.value("y", [2])],
        weights={"w": np.ones(2, np.float32)},
    )
    monkeypatch.setattr("polygraphy.adapters.onnx_common.loadable._MOST_ELEMENTS", 1)
    with loadable_form(model) as form:
        assert isinstance(form, str) and onnx.load(form).graph.node == model.graph.node
