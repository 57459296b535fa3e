"""An image classifier with two heads, and the files that commands about it name.

``input`` -> conv1 -> ``conv1_output`` -> ``relu1_output`` -> ... -> ``intermediate`` -> ...
-> ``output1`` -> ``output`` (softmax) and ``output2`` -> ``final_output`` (sigmoid).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from tests.support import models, pictures, replays
from tests.support.files import copy_script

__all__ = ["BAD_TACTICS", "MODEL_FILES", "build", "classifier", "masked_mean"]

MODEL_FILES = (
    "model.onnx",
    "resnet50.onnx",
    "dynamic_model.onnx",
    "large_model.onnx",
    "huge_model.onnx",
    "clean.onnx",
    "reduced.onnx",
    "models/a.onnx",
    "changed_models/a.onnx",
)
"""Every name under which `build` writes the classifier."""

BAD_TACTICS: replays.Layers = {"sensitive_layer + relu2": replays.algorithm(0x1A2B)}
"""The choices of build2.json that differ from those of build1.json."""

_BUILD: replays.Layers = {
    "conv1 + relu1": replays.algorithm(0x0C0D),
    "sensitive_layer + relu2": replays.algorithm(0x0E0F),
    "problematic_layer": replays.algorithm(0),
}

_SEED = 1
_PICTURES = 4


def build(folder: Path) -> None:
    """Write the models, scripts, pictures and tactic replays of the group into `folder`."""
    for name in MODEL_FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        models.save(classifier(), path)
    models.save(masked_mean(), folder / "multi_input_model.onnx")
    models.save(models.custom_op(("batch", 3, 224, 224)), folder / "custom_op.onnx")
    copy_script("classifier_data_loader.py", folder / "data_loader.py")
    copy_script("classifier_calibration_data.py", folder / "calibration_data.py")
    (folder / "calibration_images").mkdir()
    for index in range(_PICTURES):
        picture = pictures.gradient(32, hue=64 * index)
        pictures.write_png(folder / "calibration_images" / f"{index}.png", picture)
    replays.write(folder / "build1.json", _BUILD)
    replays.write(folder / "build2.json", {**_BUILD, **BAD_TACTICS})
    replays.write(folder / "bad_tactics.json", BAD_TACTICS)


def classifier() -> onnx.ModelProto:
    """Return the classifier: float32 [batch, 3, 224, 224] to [batch, 10] and [batch, 4].

    `sensitive_layer` and `problematic_layer` are names that precision constraints mention. The
    node `scale` depends on weights alone: constant folding removes it and nothing else.
    """
    nodes = [
        helper.make_node(
            "Conv",
            ["input", "conv1.weight", "conv1.bias"],
            ["conv1_output"],
            name="conv1",
            kernel_shape=[4, 4],
            strides=[4, 4],
        ),
        helper.make_node("Relu", ["conv1_output"], ["relu1_output"], name="relu1"),
        helper.make_node(
            "MaxPool",
            ["relu1_output"],
            ["pool1_output"],
            name="pool1",
            kernel_shape=[4, 4],
            strides=[4, 4],
        ),
        helper.make_node(
            "Conv",
            ["pool1_output", "conv2.weight", "conv2.bias"],
            ["intermediate"],
            name="sensitive_layer",
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("Relu", ["intermediate"], ["relu2_output"], name="relu2"),
        helper.make_node("GlobalAveragePool", ["relu2_output"], ["pool2_output"], name="pool2"),
        helper.make_node("Flatten", ["pool2_output"], ["features"], name="flatten", axis=1),
        helper.make_node("Div", ["gain", "temperature"], ["scale"], name="scale"),
        helper.make_node("Mul", ["features", "scale"], ["scaled"], name="rescale"),
        helper.make_node(
            "Gemm", ["scaled", "fc1.weight", "fc1.bias"], ["output1"], name="problematic_layer"
        ),
        helper.make_node("Softmax", ["output1"], ["output"], name="softmax", axis=1),
        helper.make_node("Gemm", ["scaled", "fc2.weight", "fc2.bias"], ["output2"], name="fc2"),
        helper.make_node("Sigmoid", ["output2"], ["final_output"], name="sigmoid"),
    ]
    return models.make(
        "classifier",
        nodes,
        [models.value("input", ("batch", 3, 224, 224))],
        [models.value("output", ("batch", 10)), models.value("final_output", ("batch", 4))],
        weights=_classifier_weights(),
    )


def masked_mean() -> onnx.ModelProto:
    """Return a model that computes the mean color under a mask.

    `image` is float32 [b, 3, 224, 224], `mask` float32 [b, 1, 224, 224], `output` [b, 3, 1, 1].
    """
    return models.make(
        "masked_mean",
        [
            helper.make_node("Mul", ["image", "mask"], ["masked"], name="apply_mask"),
            helper.make_node("GlobalAveragePool", ["masked"], ["output"], name="mean"),
        ],
        [
            models.value("image", ("b", 3, 224, 224)),
            models.value("mask", ("b", 1, 224, 224)),
        ],
        [models.value("output", ("b", 3, 1, 1))],
    )


def _classifier_weights() -> dict[str, npt.NDArray[np.generic]]:
    """Return random weights by name, which keep the activations within float16."""
    random = np.random.RandomState(_SEED)

    def draw(*shape: int, fan_in: int) -> npt.NDArray[np.float32]:
        """Return random weights of a shape, scaled for a number of inputs."""
        weights: npt.NDArray[np.float64] = random.standard_normal(shape) * np.sqrt(2 / fan_in)
        return weights.astype(np.float32)

    return {
        "conv1.weight": draw(8, 3, 4, 4, fan_in=48),
        "conv1.bias": draw(8, fan_in=48),
        "conv2.weight": draw(16, 8, 3, 3, fan_in=72),
        "conv2.bias": draw(16, fan_in=72),
        "gain": np.array([3], dtype=np.float32),
        "temperature": np.array([2], dtype=np.float32),
        "fc1.weight": draw(16, 10, fan_in=16),
        "fc1.bias": draw(10, fan_in=16),
        "fc2.weight": draw(16, 4, fan_in=16),
        "fc2.bias": draw(4, fan_in=16),
    }
