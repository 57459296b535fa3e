"""Create 500 images of four shapes, in one folder per class, and two classifiers for them:
`float32.onnx`, and `int8.onnx`, the same model with 8-bit weights and a scale that is too coarse.

    python make.py FOLDER

It requires NumPy, onnx and Pillow, and takes a few seconds. The seed is fixed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw

CLASSES = ("circle", "cross", "square", "triangle")
SIZE, HIDDEN, TRAINED, SHOWN = 32, 400, 500, 125
"""Pixels, random features, and images per class for training and for the folder."""
COARSE = 11.0
"""Factor of the scale of the int8 weights."""


def picture(kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw a shape with random position, size, color and noise."""
    back, front = random.integers(0, 90, 3), random.integers(140, 256, 3)
    image = Image.new("RGB", (SIZE, SIZE), tuple(map(int, back)))
    draw, fill = ImageDraw.Draw(image), tuple(map(int, front))
    size = int(random.integers(7, 12))
    x, y = map(int, random.integers(13, 20, 2))
    box = [x - size, y - size, x + size, y + size]
    if kind == "circle":
        draw.ellipse(box, fill=fill)
    elif kind == "square":
        draw.rectangle(box, fill=fill)
    elif kind == "triangle":
        draw.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], fill=fill)
    else:
        draw.line([x - size, y, x + size, y], fill=fill, width=4)
        draw.line([x, y - size, x, y + size], fill=fill, width=4)
    noisy = np.asarray(image).astype(float) + random.normal(0, 20, (SIZE, SIZE, 3))
    return noisy.clip(0, 255).astype(np.uint8)


def features(pictures: Any, weight: Any, bias: Any) -> Any:
    """Return the output of the hidden layer; see `model`."""
    gray = pictures.astype(np.float32).mean(axis=3) / 255
    half = SIZE // 2
    pooled = gray.reshape(-1, half, 2, half, 2).mean(axis=(2, 4)).reshape(len(gray), -1)
    return np.maximum(pooled @ weight + bias, 0)


def model(layers: list[tuple[Any, Any]], scale: float | None) -> onnx.ModelProto:
    """Return a classifier for images [batch, 3, 32, 32] with values from 0 to 1. With `scale`, the
    last weights have 8 bits, and `scale` multiplies their usual scale.
    """
    (weight, bias), (last, offset) = layers
    initializers = [
        numpy_helper.from_array(array, name)
        for array, name in ((weight, "hidden.weight"), (bias, "hidden.bias"), (offset, "last.bias"))
    ]
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["gray"], axes=[1], keepdims=1),
        helper.make_node("AveragePool", ["gray"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["small"], ["pixels"]),
        helper.make_node("Gemm", ["pixels", "hidden.weight", "hidden.bias"], ["sums"], "hidden"),
        helper.make_node("Relu", ["sums"], ["features"]),
        helper.make_node("Gemm", ["features", "last.weight", "last.bias"], ["logits"], "last"),
    ]
    if scale is None:
        initializers.append(numpy_helper.from_array(last, "last.weight"))
    else:
        step = np.float32(np.abs(last).max() / 127 * scale)
        rounded = np.clip(np.rint(last / step), -127, 127).astype(np.int8)
        initializers += [
            numpy_helper.from_array(rounded, "last.int8"),
            numpy_helper.from_array(step, "last.scale"),
        ]
        words = ["last.int8", "last.scale"]
        nodes.insert(5, helper.make_node("DequantizeLinear", words, ["last.weight"], "last.weight"))
    image = helper.make_tensor_value_info("image", 1, ["batch", 3, SIZE, SIZE])
    logits = helper.make_tensor_value_info("logits", 1, ["batch", len(CLASSES)])
    graph = helper.make_graph(nodes, "shapes", [image], [logits], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder: Path) -> None:
    """Draw the images, and fit the last layer to other images by least squares."""
    random = np.random.default_rng(2)
    for kind in CLASSES:
        (folder / "samples" / kind).mkdir(parents=True, exist_ok=True)
        for number in range(SHOWN):
            drawn = Image.fromarray(picture(kind, random))
            drawn.save(folder / "samples" / kind / f"{number:03}.png")
    seen = np.stack([picture(kind, random) for kind in CLASSES for _ in range(TRAINED)])
    truth = np.repeat(np.eye(len(CLASSES)), TRAINED, axis=0)
    weight = random.normal(0, 0.25, (SIZE * SIZE // 4, HIDDEN)).astype(np.float32)
    bias = random.normal(0, 0.25, HIDDEN).astype(np.float32)
    found = np.concatenate([features(seen, weight, bias), np.ones((len(seen), 1))], 1)
    squares = found.T.astype(float) @ found + np.eye(HIDDEN + 1)
    solved = np.linalg.solve(squares, found.T.astype(float) @ truth).astype(np.float32)
    layers = [(weight, bias), (solved[:-1], solved[-1])]
    onnx.save(model(layers, None), folder / "float32.onnx")
    onnx.save(model(layers, COARSE), folder / "int8.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
