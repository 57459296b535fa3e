"""What a use case may ask of what writes models."""

from __future__ import annotations

from pathlib import Path

from polygraphy.backend.onnx import onnx_from_path
from polygraphy.ports.models import save_model
from tests.support import models


def test_a_model_is_found_where_it_was_written(tmp_path: Path) -> None:
    path, model = str(tmp_path / "m.onnx"), models.mlp(features=512)
    save_model(model, path)
    assert onnx_from_path(path) == model == models.mlp(features=512)


def test_weights_are_beside_the_model(tmp_path: Path) -> None:
    save_model(models.mlp(features=512), str(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx.data").stat().st_size == 512 * 16 * 4
