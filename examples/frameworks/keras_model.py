#!/usr/bin/env python3
"""The classifier of digits in Keras: write digits.keras, with the weights of digits.onnx.

Needs TensorFlow and onnx.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import onnx
from onnx import numpy_helper

__all__ = ["build", "main"]

FOLDER = Path(__file__).resolve().parent


def build(weights: dict[str, Any]) -> keras.Model:
    """Return the network.

    Inputs and outputs are those of the other frameworks, pictures of [batch, 1, 8, 8]; inside,
    channels are last, as TensorFlow's convolutions on the CPU want them.

    Args:
        weights: arrays, as PyTorch names and arranges them.
    """
    image = keras.Input((1, 8, 8), name="image")
    x = keras.layers.Permute((2, 3, 1))(image)
    for name, channels in (("conv1", 16), ("conv2", 24)):
        layer = keras.layers.Conv2D(channels, 3, padding="same", activation="relu", name=name)
        x = layer(x)
        kernel = weights[f"{name}.weight"].transpose(2, 3, 1, 0)
        layer.set_weights([kernel, weights[f"{name}.bias"]])
    x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.Flatten()(keras.layers.Permute((3, 1, 2))(x))
    dense = keras.layers.Dense(10, name="logits")
    logits = dense(x)
    dense.set_weights([weights["dense.weight"].T, weights["dense.bias"]])
    probabilities = keras.layers.Softmax(name="probabilities")(logits)
    return keras.Model(image, [logits, probabilities])


def main() -> None:
    """Write digits.keras beside this script."""
    tensors = onnx.load(FOLDER / "digits.onnx").graph.initializer
    model = build({tensor.name: numpy_helper.to_array(tensor) for tensor in tensors})
    model.save(FOLDER / "digits.keras")


if __name__ == "__main__":
    main()
