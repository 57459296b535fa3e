#!/usr/bin/env python3
"""The classifier of digits in PyTorch: train it and write digits.onnx, or load the trained weights.

Needs torch and onnxscript, and scikit-learn for the data; takes a few seconds on one core. The seed
is fixed; another processor or version may round differently.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

__all__ = ["Digits", "load_model", "main"]

MODEL = Path(__file__).resolve().parent / "digits.onnx"

SEED = 7
HELD_OUT = 360
EPOCHS = 12
BATCH = 32
RATE = 3e-3


class Digits(nn.Module):
    """Two 3x3 convolutions, max pooling and a dense layer.

    Takes gray images, float32 [batch, 1, 8, 8] in 0..1. Returns scores and probabilities of the
    digits 0 to 9, float32 [batch, 10] each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 24, 3, padding=1)
        self.dense = nn.Linear(24 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the scores and the probabilities of images."""
        features = torch.relu(self.conv2(torch.relu(self.conv1(image))))
        logits = self.dense(torch.max_pool2d(features, 2).flatten(1))
        return {"logits": logits, "probabilities": torch.softmax(logits, 1)}


def load_model() -> Digits:
    """Return the network with the weights in digits.onnx; what ``--torch torch_model.py`` calls."""
    model = Digits()
    weights = {tensor.name: tensor for tensor in onnx.load(MODEL).graph.initializer}
    trained = {
        name: torch.from_numpy(numpy_helper.to_array(weights[name]).copy())
        for name in model.state_dict()
    }
    model.load_state_dict(trained)
    return model.eval()


def load_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return shuffled images, float32 [1797, 1, 8, 8] in 0..1, and their labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.RandomState(SEED).permutation(len(digits.images))
    images = (digits.images[order, None] / 16).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(digits.target[order])


def train(images: torch.Tensor, labels: torch.Tensor, epochs: int = EPOCHS) -> Digits:
    """Return a network trained with Adam."""
    torch.manual_seed(SEED)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch])["logits"], labels[batch])
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch + 1:2}/{epochs}: loss {loss.item():.4f}")
    return model.eval()


def accuracy(model: Digits, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the fraction of images whose largest score is at the label."""
    with torch.no_grad():
        return float((model(images)["logits"].argmax(1) == labels).float().mean())


def export(model: Digits, path: Path) -> None:
    """Write the network as an ONNX model with a dynamic batch."""
    torch.onnx.export(
        model,
        (torch.zeros(2, 1, 8, 8),),
        path,
        input_names=["image"],
        output_names=["logits", "probabilities"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    exported = onnx.load(path)
    for node in exported.graph.node:  # Where each came from on this machine.
        del node.metadata_props[:]
    onnx.save(exported, path)


def main() -> None:
    """Train, print the accuracy on held-out digits, and write digits.onnx beside this script."""
    images, labels = load_data()
    model = train(images[HELD_OUT:], labels[HELD_OUT:])
    held_out = accuracy(model, images[:HELD_OUT], labels[:HELD_OUT])
    print(f"accuracy on {HELD_OUT} held-out digits: {held_out:.2%}")
    export(model, MODEL)


if __name__ == "__main__":
    main()
