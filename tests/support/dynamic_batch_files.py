"""The identity model with a dynamic batch."""

from __future__ import annotations

from pathlib import Path

from tests.support import models

__all__ = ["build"]


def build(folder: Path) -> None:
    """Write dynamic_identity.onnx, X float32 [batch_size, 3, 28, 28] -> Y."""
    model = models.dynamic_identity(("batch_size", 3, 28, 28))
    models.save(model, folder / "dynamic_identity.onnx")
