"""The digits example: the committed model and inputs, and the code that made them."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import checker, shape_inference
from onnx.reference import ReferenceEvaluator

from tests.support.examples import scaled

Array = npt.NDArray[Any]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"
MODEL = FOLDER / "digits.onnx"
INPUTS = FOLDER / "digits_inputs.json"


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """Import the example's modules as its scripts do, and forget them afterwards."""
    names = ("network", "onnx_export", "train")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def network(example: Any) -> ModuleType:
    return importlib.import_module("network")


@pytest.fixture(scope="module")
def training(example: Any) -> ModuleType:
    """Import the training with the data of scikit-learn, whose import takes seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        pytest.skip("scikit-learn is not installed")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(path, delimiter=",")
    digits = SimpleNamespace(images=rows[:, :-1].reshape(-1, 8, 8), target=rows[:, -1].astype(int))
    datasets = ModuleType("sklearn.datasets")
    datasets.load_digits = lambda: digits  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sklearn", ModuleType("sklearn"))
        patch.setitem(sys.modules, "sklearn.datasets", datasets)
        return importlib.import_module("train")


def by_onnxruntime(model: onnx.ModelProto, images: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs: list[Array] = session.run(["logits", "probabilities"], {"image": images})
    return outputs


def by_reference(model: onnx.ModelProto, images: Array) -> list[Array]:
    outputs = ReferenceEvaluator(model).run(None, {"image": images})
    assert isinstance(outputs, list)
    return outputs


def saved_batches() -> list[Array]:
    iterations = json.loads(INPUTS.read_text(encoding="utf-8"))
    batches = []
    for iteration in iterations:
        assert list(iteration) == ["image"]
        assert iteration["image"]["polygraphy_class"] == "ndarray"
        file = io.BytesIO(base64.b64decode(iteration["image"]["array"], validate=True))
        batches.append(np.load(file, allow_pickle=False))
    return batches


class TestModel:
    def test_it_is_valid_described_and_small(self) -> None:
        model = onnx.load(MODEL)
        checker.check_model(model, full_check=True)
        shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        assert model.opset_import[0].version == 17
        assert model.doc_string
        for value in (*model.graph.input, *model.graph.output):
            assert value.doc_string
            assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
        assert MODEL.stat().st_size < 150_000
        assert INPUTS.stat().st_size < 60_000

    def test_signature(self) -> None:
        session = onnxruntime.InferenceSession(str(MODEL))
        assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
            ("image", "tensor(float)", ["batch", 1, 8, 8])
        ]
        assert [(o.name, o.shape) for o in session.get_outputs()] == [
            ("logits", ["batch", 10]),
            ("probabilities", ["batch", 10]),
        ]

    def test_backends_agree_on_the_saved_inputs(self) -> None:
        model = onnx.load(MODEL)
        for batch in saved_batches():
            for ours, theirs in zip(
                by_onnxruntime(model, batch), by_reference(model, batch), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("batch", [1, 3, 17])
    def test_any_batch_gives_probabilities(self, batch: int) -> None:
        images = np.random.RandomState(0).rand(batch, 1, 8, 8).astype(np.float32)
        scores, probabilities = by_onnxruntime(onnx.load(MODEL), images)
        assert scores.shape == probabilities.shape == (batch, 10)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(scores.argmax(axis=1), probabilities.argmax(axis=1))

    def test_it_reads_held_out_digits(self, training: ModuleType) -> None:
        _, (images, labels) = training.load_data()
        scores, _ = by_onnxruntime(onnx.load(MODEL), images)
        assert np.mean(scores.argmax(axis=1) == labels) >= 0.97


class TestInputs:
    def test_four_batches_of_eight_pictures(self) -> None:
        batches = saved_batches()
        assert [batch.shape for batch in batches] == [(8, 1, 8, 8)] * 4
        for batch in batches:
            assert batch.dtype == np.float32
            assert batch.min() == 0
            assert batch.max() == 1

    def test_they_are_held_out_digits(self, training: ModuleType) -> None:
        (seen, _), (held_out, _) = training.load_data()
        saved = np.concatenate(saved_batches())
        np.testing.assert_array_equal(saved, held_out[:32])
        assert not {image.tobytes() for image in saved} & {image.tobytes() for image in seen}


class TestNetwork:
    # Derandomized: the slope is measured, and is off where a step crosses the kink of a ReLU.
    @settings(max_examples=scaled(20), deadline=None, derandomize=True)
    @given(seed=st.integers(0, 2**32 - 1), batch=st.integers(1, 3))
    def test_gradients_are_the_slopes_of_the_loss(
        self, network: ModuleType, seed: int, batch: int
    ) -> None:
        random = np.random.RandomState(seed)
        drawn = network.initialize(random)
        parameters = {name: array.astype(np.float64) for name, array in drawn.items()}
        images = random.rand(batch, 1, 8, 8)
        labels = random.randint(0, 10, batch)

        def loss(moved: dict[str, Array]) -> float:
            return float(network.loss_and_gradients({**parameters, **moved}, images, labels)[0])

        _, gradients = network.loss_and_gradients(parameters, images, labels)
        assert gradients.keys() == parameters.keys()
        for name, gradient in gradients.items():
            step = 1e-7 * random.standard_normal(gradient.shape)
            change = loss({name: parameters[name] + step}) - loss({name: parameters[name] - step})
            np.testing.assert_allclose(change, 2 * np.sum(gradient * step), rtol=1e-3, atol=1e-12)

    def test_equal_pixels_share_the_gradient_of_the_pooling(self, network: ModuleType) -> None:
        images = np.ones((1, 1, 2, 2))
        gradient = network._pool_gradient(images, np.ones((1, 1, 1, 1)), np.full((1, 1, 1, 1), 8.0))
        np.testing.assert_array_equal(gradient, np.full((1, 1, 2, 2), 2.0))

    def test_the_export_computes_the_same(self, network: ModuleType) -> None:
        export = importlib.import_module("onnx_export")
        random = np.random.RandomState(3)
        parameters = network.initialize(random)
        for bias in ("conv1.bias", "conv2.bias", "dense.bias"):
            parameters[bias] += random.rand(*parameters[bias].shape).astype(np.float32)
        images = random.rand(5, 1, 8, 8).astype(np.float32)
        expected = network.logits(parameters, images)
        scores, probabilities = by_reference(export.to_onnx(parameters, "test"), images)
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
        exponentials = np.exp(expected - expected.max(axis=1, keepdims=True))
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities, softmax, rtol=1e-4, atol=1e-6)

    @pytest.mark.slow
    def test_an_epoch_already_learns_most_digits(self, training: ModuleType) -> None:
        (images, labels), held_out = training.load_data()
        parameters = training.train(images[:800], labels[:800], epochs=1)
        assert training.accuracy(parameters, *held_out) > 0.6


@pytest.mark.parametrize("name", ["digits.onnx", "digits_inputs.json"])
def test_the_readme_names_its_files(name: str) -> None:
    assert name in (FOLDER / "README.md").read_text(encoding="utf-8")
