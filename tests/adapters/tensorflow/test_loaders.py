"""Every format that TensorFlow saves becomes the same graph."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import h5py

from polygraphy.backend.tf import (
    GraphFromCkpt,
    GraphFromFrozen,
    GraphFromKeras,
    GraphFromSavedModel,
    SessionFromGraph,
    TfRunner,
    graph_from_ckpt,
    graph_from_frozen,
    graph_from_keras,
    graph_from_saved_model,
    save_graph,
)
from polygraphy.domain.errors import FileError, ModelError, UnknownNameError
from tests.adapters.tensorflow import graphs

X = np.random.RandomState(0).standard_normal((5, 4)).astype(np.float32)


def outputs(loader: Any, feed: dict[str, Any]) -> dict[str, Any]:
    with TfRunner(SessionFromGraph(loader)) as runner:
        return dict(runner.infer(feed))


def write_frozen(path: Path) -> None:
    save_graph((graphs.two_layers(), ["y:0"]), str(path))


FORMATS: dict[str, tuple[Callable[[Path], None], Any, str, str]] = {
    "model.pb": (write_frozen, GraphFromFrozen, "x:0", "y:0"),
    "model.keras": (graphs.write_keras, GraphFromKeras, "x:0", "y:0"),
    "model.h5": (graphs.write_keras, GraphFromKeras, "x:0", "y:0"),
    "model.hdf5": (graphs.write_keras, GraphFromKeras, "x:0", "y:0"),
    "saved_model": (graphs.write_saved_model, GraphFromSavedModel, "x:0", "y:0"),
    "saved_model_as_keras": (graphs.write_saved_model, GraphFromKeras, "x:0", "y:0"),
    "saved_model_1": (graphs.write_saved_model_v1, GraphFromSavedModel, "x:0", "scores:0"),
    "checkpoint": (graphs.write_checkpoint, GraphFromCkpt, "x:0", "y:0"),
    "checkpoint_of_resources": (
        lambda path: graphs.write_checkpoint(path, resources=True),
        GraphFromCkpt,
        "x:0",
        "y:0",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_computes_the_same(name: str, tmp_path: Path) -> None:
    write, loader, x, y = FORMATS[name]
    path = tmp_path / name
    write(path)
    graph, names = loader(str(path))()
    assert y in names
    assert not [op.name for op in graph.get_operations() if "Variable" in op.type]
    found = outputs((graph, names), {x: X})
    assert list(found) == names
    np.testing.assert_allclose(found[y], graphs.dense(X), rtol=1e-5, atol=1e-5)


def test_keras_outputs_are_called_like_their_layers(tmp_path: Path) -> None:
    graphs.write_keras(tmp_path / "m.keras")
    graph, names = graph_from_keras(str(tmp_path / "m.keras"))
    assert names == ["y:0", "total:0"]
    found = outputs((graph, names), {"x:0": X})
    np.testing.assert_allclose(found["total:0"], found["y:0"].sum(1, keepdims=True), rtol=1e-5)


def test_a_model_of_several_inputs_takes_them_by_name(tmp_path: Path) -> None:
    import keras

    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    path = str(tmp_path / "m.keras")
    keras.Model([b, a], keras.layers.Subtract(name="less")([a, b])).save(path)
    one = np.ones((1, 2), np.float32)
    found = outputs(GraphFromKeras(path), {"a:0": 5 * one, "b:0": 2 * one})
    np.testing.assert_array_equal(found["less:0"], 3 * one)


def test_python_code_in_a_keras_model_is_not_run(tmp_path: Path) -> None:
    import keras

    x = keras.Input((2,), name="x")
    keras.Model(x, keras.layers.Lambda(lambda t: t + 1)(x)).save(tmp_path / "m.keras")
    with pytest.raises(ModelError, match=r"m\.keras.*SavedModel"):
        graph_from_keras(str(tmp_path / "m.keras"))


def test_a_keras_file_of_another_release_is_reported_for_it(tmp_path: Path) -> None:
    graphs.write_keras(tmp_path / "here.keras")
    graphs.write_keras(tmp_path / "m.h5")
    with (
        zipfile.ZipFile(tmp_path / "here.keras") as here,
        zipfile.ZipFile(tmp_path / "m.keras", "w") as later,
    ):
        for name in here.namelist():
            content = here.read(name)
            if name == "metadata.json":
                content = json.dumps({"keras_version": "9.1.0"}).encode()
            later.writestr(name, content.replace(b'"units": 3', b'"units": 3, "of_the_future": 1'))
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file.attrs["keras_version"] = "9.1.0"
        file.attrs["model_config"] = file.attrs["model_config"].replace("Dense", "DenseOfTheFuture")
    for name, word in {"m.keras": "of_the_future", "m.h5": "DenseOfTheFuture"}.items():
        with pytest.raises(
            ModelError, match=rf"{word}.*saved by Keras 9\.1\.0, and this"
        ) as caught:
            graph_from_keras(str(tmp_path / name))
        assert "\n" not in str(caught.value)


def test_signatures_are_chosen_by_name(tmp_path: Path) -> None:
    graphs.write_saved_model(tmp_path)
    found = outputs(GraphFromSavedModel(str(tmp_path), "twice"), {"a:0": X[0]})
    np.testing.assert_array_equal(found["b:0"], X[0] * 2)
    _, names = graph_from_saved_model(str(tmp_path / "saved_model.pb"))
    assert sorted(names) == ["product:0", "y:0"]
    with pytest.raises(UnknownNameError, match="'twice'"):
        graph_from_saved_model(str(tmp_path), "twic")


def test_checkpoints_are_chosen_by_name(tmp_path: Path) -> None:
    graphs.write_checkpoint(tmp_path, "first")
    graphs.write_checkpoint(tmp_path, "second")
    for name in ("first", "second", None):
        assert graph_from_ckpt(str(tmp_path), name)[1] == ["y:0"]
    with pytest.raises(UnknownNameError, match="'first'"):
        graph_from_ckpt(str(tmp_path), "firts")
    (tmp_path / "checkpoint").unlink()
    assert graph_from_ckpt(str(tmp_path), "first")[1] == ["y:0"]
    with pytest.raises(FileError, match="--ckpt"):
        graph_from_ckpt(str(tmp_path))
    (tmp_path / "second.meta").unlink()
    with pytest.raises(ModelError, match=r"second\.meta"):
        graph_from_ckpt(str(tmp_path), "second")


def test_what_cannot_be_loaded_is_explained_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.pb"
    text.write_text("no model\n")
    empty = tmp_path / "empty.keras"
    empty.touch()
    other = tmp_path / "other.keras"
    other.write_bytes(b"PK\x03\x04 no archive")
    graphs.write_saved_model(tmp_path / "saved")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    graphs.write_checkpoint(damaged)
    meta = damaged / "model.meta"
    meta.write_bytes(meta.read_bytes()[:300])
    cases: list[tuple[Callable[[str], Any], Path]] = [
        (graph_from_frozen, text),
        (graph_from_frozen, tmp_path / "missing.pb"),
        (graph_from_frozen, tmp_path / "saved"),
        (graph_from_frozen, tmp_path / "saved" / "saved_model.pb"),
        (graph_from_keras, empty),
        (graph_from_keras, other),
        (graph_from_keras, text),
        (graph_from_saved_model, tmp_path),
        (graph_from_saved_model, text),
        (graph_from_saved_model, tmp_path / "missing"),
        (graph_from_ckpt, tmp_path / "missing"),
        (graph_from_ckpt, tmp_path / "saved"),
        (graph_from_ckpt, damaged),
    ]
    for load, path in cases:
        with pytest.raises(FileError) as caught:
            load(str(path))
        assert "\n" not in str(caught.value), path
        assert path.name in str(caught.value), path


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    from polygraphy.domain.errors import BackendError

    definition = graphs.two_layers().as_graph_def()
    definition.node[-1].op = "NoSuchOperator"
    (tmp_path / "m.pb").write_bytes(definition.SerializeToString())
    with pytest.raises(BackendError, match=r"NoSuchOperator.*Unsupported operator"):
        graph_from_frozen(str(tmp_path / "m.pb"))
