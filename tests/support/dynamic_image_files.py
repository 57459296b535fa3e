"""The identity model with dynamic height and width."""

from __future__ import annotations

from pathlib import Path

from tests.support import models
from tests.support.files import copy_script

__all__ = ["build"]


def build(folder: Path) -> None:
    """Write dynamic_identity.onnx, X float32 [1, 2, height, width] -> Y, and data_loader.py."""
    models.save(models.dynamic_identity(), folder / "dynamic_identity.onnx")
    copy_script("dynamic_image_data_loader.py", folder / "data_loader.py")
