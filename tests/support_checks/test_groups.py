"""The groups hold what the commands about them expect."""

from __future__ import annotations

import ast
import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import checker, shape_inference

from tests.support import classifier_files, dynamic_batch_files, dynamic_image_files, identity_files

Array = npt.NDArray[Any]
BUILDERS = {
    "classifier": classifier_files.build,
    "identity": identity_files.build,
    "dynamic_image": dynamic_image_files.build,
    "dynamic_batch": dynamic_batch_files.build,
}


def run(path: Path, feed: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def signature(values: Iterator[onnx.ValueInfoProto]) -> dict[str, tuple[str | int, ...]]:
    """Map names to the type's name followed by the dimensions."""
    return {
        value.name: (
            onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type),
            *(d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim),
        )
        for value in values
    }


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def load_data(folder: Path, script: str) -> list[dict[str, Array]]:
    return list(runpy.run_path(str(folder / script))["load_data"]())


def functions(script: Path) -> set[str]:
    """Return the names that `script` defines, without running it."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("group", BUILDERS)
def test_building_twice_gives_the_same_bytes(group: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        BUILDERS[group](tmp_path / name)
    assert content(tmp_path / "first") == content(tmp_path / "second")


@pytest.mark.parametrize("group", BUILDERS)
def test_models_are_valid_and_small(group: str, built_group: Callable[[str], Path]) -> None:
    paths = sorted(built_group(group).rglob("*.onnx"))
    assert paths
    for path in paths:
        model = onnx.load(path)
        checker.check_model(model, full_check=path.name != "custom_op.onnx")
        assert path.stat().st_size < 100_000


def test_each_test_gets_its_own_copy(
    dynamic_image_dir: Path, built_group: Callable[[str], Path]
) -> None:
    assert Path.cwd() == dynamic_image_dir
    (dynamic_image_dir / "dynamic_identity.onnx").unlink()
    assert (built_group("dynamic_image") / "dynamic_identity.onnx").is_file()


class TestG1:
    def test_signature_and_tensor_names(self, classifier_dir: Path) -> None:
        model = shape_inference.infer_shapes(
            onnx.load(classifier_dir / "model.onnx"), strict_mode=True
        )
        assert signature(model.graph.input) == {"input": ("FLOAT", "batch", 3, 224, 224)}
        assert signature(model.graph.output) == {
            "output": ("FLOAT", "batch", 10),
            "final_output": ("FLOAT", "batch", 4),
        }
        inner = {value.name for value in model.graph.value_info}
        assert {"conv1_output", "relu1_output", "intermediate", "output1", "output2"} <= inner

    def test_every_model_file_is_the_classifier(self, classifier_dir: Path) -> None:
        files = {(classifier_dir / name).read_bytes() for name in classifier_files.MODEL_FILES}
        assert len(files) == 1

    @pytest.mark.parametrize("batch", [1, 4])
    def test_it_runs_for_any_batch(self, classifier_dir: Path, batch: int) -> None:
        image = np.random.RandomState(0).rand(batch, 3, 224, 224).astype(np.float32)
        outputs = run(classifier_dir / "model.onnx", {"input": image})
        assert outputs["output"].shape == (batch, 10)
        assert outputs["final_output"].shape == (batch, 4)
        np.testing.assert_allclose(outputs["output"].sum(axis=1), 1, rtol=1e-5)

    def test_the_outputs_depend_on_the_input(self, classifier_dir: Path) -> None:
        zeros = np.zeros((1, 3, 224, 224), dtype=np.float32)
        ones = np.ones_like(zeros)
        dark, bright = (
            run(classifier_dir / "model.onnx", {"input": image}) for image in (zeros, ones)
        )
        for name, array in dark.items():
            assert np.abs(array - bright[name]).max() > 0.01

    def test_one_inference_takes_milliseconds(self, classifier_dir: Path) -> None:
        session = onnxruntime.InferenceSession(str(classifier_dir / "model.onnx"))
        image = np.zeros((1, 3, 224, 224), dtype=np.float32)
        fastest = float("inf")
        for _ in range(10):
            start = perf_counter()
            session.run(None, {"input": image})
            fastest = min(fastest, perf_counter() - start)
        assert fastest < 0.05

    def test_multi_input_model(self, classifier_dir: Path) -> None:
        image = np.full((2, 3, 224, 224), 4, dtype=np.float32)
        mask = np.zeros((2, 1, 224, 224), dtype=np.float32)
        mask[:, :, :112] = 1
        outputs = run(classifier_dir / "multi_input_model.onnx", {"image": image, "mask": mask})
        np.testing.assert_allclose(outputs["output"], np.full((2, 3, 1, 1), 2), rtol=1e-5)

    def test_custom_op_model_does_not_run(self, classifier_dir: Path) -> None:
        assert [n.op_type for n in onnx.load("custom_op.onnx").graph.node] == ["CustomOp", "Relu"]
        with pytest.raises(Exception, match="CustomOp"):
            onnxruntime.InferenceSession(str(classifier_dir / "custom_op.onnx"))

    def test_data_loader_yields_different_noise_each_time(self, classifier_dir: Path) -> None:
        first, second = (load_data(classifier_dir, "data_loader.py") for _ in range(2))
        assert len(first) == len(second) == 10
        for feed in first:
            assert list(feed) == ["input"]
            assert feed["input"].dtype == np.float32
            assert feed["input"].shape == (1, 3, 224, 224)
        assert not np.array_equal(first[0]["input"], second[0]["input"])

    def test_calibration_data_are_the_normalized_pictures(self, classifier_dir: Path) -> None:
        batches = load_data(classifier_dir, "calibration_data.py")
        assert len(batches) == len(list(Path("calibration_images").iterdir())) == 4
        for index, feed in enumerate(batches):
            image = feed["input"]
            assert image.dtype == np.float32
            assert image.shape == (1, 3, 224, 224)
            # The first two channels run from 0 to 255, the third is constant: 64 x the index.
            np.testing.assert_allclose(image[0, 0, :, 0], -0.485 / 0.229, rtol=1e-5)
            np.testing.assert_allclose(image[0, 1, -1], (1 - 0.456) / 0.224, rtol=1e-5)
            np.testing.assert_allclose(image[0, 2], (64 * index / 255 - 0.406) / 0.225, rtol=1e-5)

    def test_replays_differ_in_the_bad_tactic_only(self, classifier_dir: Path) -> None:
        good, bad, excluded = (
            json.loads((classifier_dir / name).read_text(encoding="utf-8"))["replay"]
            for name in ("build1.json", "build2.json", "bad_tactics.json")
        )
        assert good.keys() == bad.keys()
        assert {layer: bad[layer] for layer in good if good[layer] != bad[layer]} == excluded


class TestG2:
    def test_identity(self, identity_dir: Path) -> None:
        model = onnx.load(identity_dir / "identity.onnx")
        assert model.ir_version == 3
        assert [(i.domain, i.version) for i in model.opset_import] == [("", 8)]
        assert model.graph.name == "test_identity"
        assert signature(model.graph.input) == {"x": ("FLOAT", 1, 1, 2, 2)}
        assert signature(model.graph.output) == {"y": ("FLOAT", 1, 1, 2, 2)}
        x = np.array([[[[0.1, -2.5], [1e30, 0]]]], dtype=np.float32)
        np.testing.assert_array_equal(run(identity_dir / "identity.onnx", {"x": x})["y"], x)

    def test_identity_fp16_rounds_to_float16(self, identity_dir: Path) -> None:
        model = onnx.load(identity_dir / "identity_fp16.onnx")
        assert [node.op_type for node in model.graph.node] == ["Cast", "Identity", "Cast"]
        assert model.opset_import[0].version == 8
        x = np.array([[[[0.1, -2.5], [1e-3, 7]]]], dtype=np.float32)
        y = run(identity_dir / "identity_fp16.onnx", {"x": x})["y"]
        np.testing.assert_array_equal(y, x.astype(np.float16).astype(np.float32))
        assert not np.array_equal(x, y)

    def test_data_loader(self, identity_dir: Path) -> None:
        feeds = load_data(identity_dir, "data_loader.py")
        assert len(feeds) == 5
        for feed in feeds:
            ones = np.ones((1, 1, 2, 2), dtype=np.float32)
            np.testing.assert_array_equal(feed["x"], ones, strict=True)

    def test_scripts_are_where_commands_look_for_them(self, identity_dir: Path) -> None:
        assert {"load_network", "create_network"} <= functions(identity_dir / "example.py")
        relative = "../../../api/04_int8_calibration_in_tensorrt/example.py"
        assert "calib_data" in functions(Path(relative))

    def test_replays(self, identity_dir: Path) -> None:
        good = sorted((identity_dir / "replays" / "good").iterdir())
        assert len(good) == 2
        assert list((identity_dir / "replays" / "bad").iterdir()) == []
        for path in [*good, identity_dir / "replay.json"]:
            record = json.loads(path.read_text(encoding="utf-8"))
            assert record["polygraphy_class"] == "TacticReplayData"
            assert record["replay"]["node_of_y"]["tactic"] == 0


@pytest.mark.parametrize(
    ("group", "dims", "concrete"),
    [
        ("dynamic_image", (1, 2, "height", "width"), (1, 2, 28, 5)),
        ("dynamic_batch", ("batch_size", 3, 28, 28), (16, 3, 28, 28)),
    ],
)
def test_dynamic_identity(
    group: str,
    dims: tuple[str | int, ...],
    concrete: tuple[int, ...],
    built_group: Callable[[str], Path],
) -> None:
    path = built_group(group) / "dynamic_identity.onnx"
    model = onnx.load(path)
    assert model.opset_import[0].version == 10
    assert signature(model.graph.input) == {"X": ("FLOAT", *dims)}
    assert signature(model.graph.output) == {"Y": ("FLOAT", *dims)}
    x = np.random.RandomState(0).rand(*concrete).astype(np.float32)
    np.testing.assert_array_equal(run(path, {"X": x})["Y"], x)
