"""Saved ONNX models, and the files that their weights go to."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from polygraphy.adapters.onnx.storage import saving
from polygraphy.backend.onnx import onnx_from_path, save_onnx
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.surgeon import strip_weights
from tests.support import models
from tests.support.examples import scaled


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def large() -> onnx.ModelProto:
    """Return y = x + small + large; the weights have 16 bytes and 2 MiB."""
    weights = {
        "small": np.arange(4, dtype=np.float32),
        "large": np.arange(1 << 19, dtype=np.float32).reshape(-1, 4),
    }
    return models.make(
        "large",
        [
            helper.make_node("Add", ["x", "small"], ["t"]),
            helper.make_node("Add", ["t", "large"], ["y"]),
        ],
        [models.value("x", [4])],
        [models.value("y", [1 << 17, 4])],
        weights=weights,
    )


def test_one_file_unless_asked_otherwise(tmp_path: Path) -> None:
    model = large()
    assert save_onnx(model, str(tmp_path / "new" / "m.onnx")) is model
    assert files(tmp_path / "new") == ["m.onnx"]
    assert onnx.load(str(tmp_path / "new" / "m.onnx")) == large()


@pytest.mark.parametrize(("given", "name"), [("", "m.onnx.data"), ("w.bin", "w.bin")])
def test_large_weights_go_to_a_file(tmp_path: Path, given: str, name: str) -> None:
    model = large()
    save_onnx(model, str(tmp_path / "m.onnx"), external_data_path=given)
    assert files(tmp_path) == sorted(["m.onnx", name])
    assert (tmp_path / "m.onnx").stat().st_size < 1000
    assert model == large(), "the model in memory stays as it is"
    assert onnx_from_path(str(tmp_path / "m.onnx")) == large()
    theirs = onnx.load(str(tmp_path / "m.onnx"))  # The onnx package reads it, too.
    for mine, other in zip(large().graph.initializer, theirs.graph.initializer, strict=True):
        assert mine.raw_data == other.raw_data


def test_the_threshold(tmp_path: Path) -> None:
    for threshold, expected in ((15, {"small", "large"}), (16, {"large"}), (1 << 21, set())):
        save_onnx(large(), str(tmp_path / "m.onnx"), "w.bin", size_threshold=threshold)
        saved = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False)
        assert {t.name for t in saved.graph.initializer if t.external_data} == expected
        (tmp_path / "w.bin").unlink(missing_ok=True)


def test_a_file_for_each_weight(tmp_path: Path) -> None:
    model = large()
    model.graph.initializer[1].name = "layer/large:0"
    save_onnx(model, str(tmp_path / "m.onnx"), "w", size_threshold=0, all_tensors_to_one_file=False)
    assert files(tmp_path) == ["m.onnx", "w.layer_large_0", "w.small"]
    assert onnx_from_path(str(tmp_path / "m.onnx")) == model


def test_names_that_look_alike_get_files_of_their_own(tmp_path: Path) -> None:
    model = large()
    for tensor, name in zip(model.graph.initializer, ("a/b", "A:b")):
        tensor.name = name
    save_onnx(model, str(tmp_path / "m.onnx"), "w", size_threshold=0, all_tensors_to_one_file=False)
    assert len(files(tmp_path)) == 3
    assert onnx_from_path(str(tmp_path / "m.onnx")) == model


def test_large_weights_can_be_mapped_into_memory(tmp_path: Path) -> None:
    save_onnx(large(), str(tmp_path / "m.onnx"), "w.bin", size_threshold=0)
    saved = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False)
    entries = {e.key: e.value for e in saved.graph.initializer[1].external_data}
    assert int(entries["offset"]) == 1 << 16


def test_two_gigabytes_leave_the_model_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_LIMIT", 1 << 21)
    save_onnx(large(), str(tmp_path / "m.onnx"))
    assert files(tmp_path) == ["m.onnx", "m.onnx.data"]
    monkeypatch.setattr(saving, "_LIMIT", 1 << 22)
    save_onnx(large(), str(tmp_path / "n.onnx"))
    assert "n.onnx.data" not in files(tmp_path)


def test_nothing_is_harmed_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_onnx(large(), str(tmp_path / "m.onnx"), "w.bin")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(model: object, stream: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_model", fail)
    with pytest.raises(FileError, match="No space left"):
        save_onnx(models.conv_net(), str(tmp_path / "m.onnx"), "w.bin", size_threshold=0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_old_weights_are_replaced_not_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        save_onnx(large(), str(tmp_path / "m.onnx"), "w.bin")
    assert (tmp_path / "w.bin").stat().st_size == 1 << 21


@pytest.mark.parametrize("one_file", [True, False])
def test_weights_of_another_model_are_not_overwritten(tmp_path: Path, one_file: bool) -> None:
    def save(name: str) -> None:
        path = str(tmp_path / name)
        save_onnx(large(), path, "w.bin", all_tensors_to_one_file=one_file)

    save("first.onnx")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="may belong to a different model"):
        save("second.onnx")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "third.onnx").write_bytes(b"no model")
    with pytest.raises(UsageError, match="may belong to a different model"):
        save("third.onnx")


def test_an_empty_file_is_no_weights_of_another_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").touch()
    save_onnx(large(), str(tmp_path / "m.onnx"), "w.bin")
    assert (tmp_path / "w.bin").stat().st_size == 1 << 21
    assert onnx_from_path(str(tmp_path / "m.onnx")).graph == large().graph


@pytest.mark.parametrize("long", ["model", "weights"])
def test_names_of_models_and_weights_may_be_long(tmp_path: Path, long: str) -> None:
    model, weights = ("m" * 250, "w.bin") if long == "model" else ("m.onnx", "w" * 250)
    for _ in range(2):
        save_onnx(large(), str(tmp_path / model), weights)
        assert {path.name for path in tmp_path.iterdir()} == {model, weights}


@pytest.mark.parametrize("location", ["m.onnx", "../w.bin", "./m.onnx"])
def test_places_where_weights_cannot_go(tmp_path: Path, location: str) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(UsageError):
        save_onnx(large(), str(tmp_path / "home" / "m.onnx"), location)
    assert files(tmp_path) == ["home"]
    assert files(tmp_path / "home") == []


def test_weights_that_were_not_loaded_are_not_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    save_onnx(large(), path, "w.bin")
    bare = onnx_from_path(path, ignore_external_data=True)
    with pytest.raises(UsageError, match="would overwrite"):
        save_onnx(bare, path, "w.bin")
    save_onnx(bare, path)
    assert onnx_from_path(path) == large()


def test_weights_inside_branches(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["t"])], "b", [], [models.value("t", [1000])], [weight]
    )
    model = models.make(
        "branches",
        [helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)],
        [models.value("flag", [], onnx.TensorProto.BOOL)],
        [models.value("y", [1000])],
    )
    save_onnx(model, str(tmp_path / "m.onnx"), "")
    assert (tmp_path / "m.onnx").stat().st_size < 1000
    assert onnx_from_path(str(tmp_path / "m.onnx")) == model


DTYPES = [np.float32, np.float16, np.int64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4]


@settings(max_examples=scaled(40), deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 5), max_size=3),
    st.booleans(),
    st.integers(0, 64),
)
def test_every_weight_survives(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: type,
    shape: list[int],
    typed: bool,
    threshold: int,
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    values = (np.arange(math.prod(shape)) % 2).reshape(shape).astype(dtype)
    tensor = onnx.numpy_helper.from_array(values, "w")
    if typed and dtype is np.float32:
        tensor = helper.make_tensor("w", onnx.TensorProto.FLOAT, shape, values.reshape(-1).tolist())
    graph = helper.make_graph(
        [], "g", [], [helper.make_tensor_value_info("w", tensor.data_type, shape)], [tensor]
    )
    save_onnx(helper.make_model(graph), str(folder / "m.onnx"), "", size_threshold=threshold)
    [loaded] = onnx_from_path(str(folder / "m.onnx")).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(loaded), values)


def test_weights_that_were_left_out_stay_in_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_LIMIT", 1 << 20)
    model = strip_weights(large_product())
    save_onnx(model, str(tmp_path / "m.onnx"))
    assert files(tmp_path) == ["m.onnx"], "it takes no 2 GB without them"
    save_onnx(model, str(tmp_path / "n.onnx"), "n.data")
    assert onnx_from_path(str(tmp_path / "n.onnx")) == model


def large_product() -> onnx.ModelProto:
    """Return y = x * w; w has 1 MiB."""
    return models.make(
        "product",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [models.value("x", [1, 512])],
        [models.value("y", [1, 512])],
        weights={"w": np.ones((512, 512), np.float32)},
    )
