#!/usr/bin/env python3
"""Train the classifier of handwritten digits and write digits.onnx and digits_inputs.json.

Needs NumPy, onnx and scikit-learn (for the data), and a few seconds on one core. The seed is fixed;
another processor, number of threads or version of NumPy may round differently.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from network import SIDE, Adam, Array, Parameters, initialize, logits, loss_and_gradients
from onnx_export import to_onnx, write_inputs
from sklearn.datasets import load_digits

__all__ = ["accuracy", "load_data", "main", "train"]

FOLDER = Path(__file__).resolve().parent

SEED = 7
HELD_OUT = 360
EPOCHS = 15
BATCH = 32
RATE = 3e-3

INPUT_ITERATIONS = 4
INPUT_BATCH = 8


def load_data() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return (images, labels) to train with, and 360 others held out.

    Images are float32 [n, 1, 8, 8] in 0..1, labels integers [n]. The split is always the same.
    """
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32).reshape(-1, 1, SIDE, SIDE)
    order = np.random.RandomState(SEED).permutation(len(images))
    held_out, rest = order[:HELD_OUT], order[HELD_OUT:]
    return (images[rest], digits.target[rest]), (images[held_out], digits.target[held_out])


def train(images: Array, labels: Array, epochs: int = EPOCHS) -> Parameters:
    """Return weights trained with Adam; the learning rate falls to zero along a cosine."""
    random = np.random.RandomState(SEED)
    parameters = initialize(random)
    optimizer = Adam(parameters)
    for epoch in range(epochs):
        rate = RATE * (1 + np.cos(np.pi * epoch / epochs)) / 2
        order = random.permutation(len(images))
        losses = []
        for start in range(0, len(images), BATCH):
            batch = order[start : start + BATCH]
            loss, gradients = loss_and_gradients(parameters, images[batch], labels[batch])
            optimizer.step(gradients, rate)
            losses.append(loss)
        print(f"epoch {epoch + 1:2}/{epochs}: loss {np.mean(losses):.4f}")
    return parameters


def accuracy(parameters: Parameters, images: Array, labels: Array) -> float:
    """Return the fraction of `images` whose largest logit is at the label."""
    return float(np.mean(logits(parameters, images).argmax(axis=1) == labels))


def main() -> None:
    """Train, print the accuracy on held-out digits, and write both files beside this script."""
    training, (images, labels) = load_data()
    parameters = train(*training)
    correct = accuracy(parameters, images, labels)
    count = sum(array.size for array in parameters.values())
    print(f"{count} parameters, accuracy on {len(labels)} held-out digits: {correct:.2%}")
    description = (
        "Handwritten digits (scikit-learn's load_digits) classified by two convolutions, "
        f"max pooling and a dense layer: {count} parameters, accuracy {correct:.2%} on "
        f"{len(labels)} digits that it was not trained with."
    )
    model = to_onnx(parameters, description)
    (FOLDER / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    shown = images[: INPUT_ITERATIONS * INPUT_BATCH]
    write_inputs(FOLDER / "digits_inputs.json", np.split(shown, INPUT_ITERATIONS))


if __name__ == "__main__":
    main()
