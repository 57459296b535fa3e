"""What every reader of models promises, asked of each."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import attrs
import pytest

from polygraphy.binding import function_for
from polygraphy.domain.errors import FileError, ModelError, PolygraphyException
from polygraphy.domain.model import EVERYTHING, Detail, ModelSource
from polygraphy.ports.models import describe_file
from tests.support import models

# By key: a kind of its models, and the package without which nothing is read.
READERS = {
    "onnx": ("onnx", "onnx"),
    "tensorflow": ("frozen", "tensorflow"),
    "tensorrt": ("engine", "tensorrt"),
}


@pytest.fixture(params=READERS)
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def source(key: str, path: Path) -> ModelSource:
    return ModelSource(str(path), READERS[key][0])


def needs(key: str) -> None:
    try:
        importlib.import_module(READERS[key][1])
    except ImportError:
        pytest.skip(f"{key} is not installed")


def test_without_the_file_or_the_package_the_error_is_ours(key: str, tmp_path: Path) -> None:
    with pytest.raises(PolygraphyException):
        function_for(describe_file, key)(source(key, tmp_path / "missing"), Detail())


@pytest.mark.parametrize("content", [b"", b"no model at all", bytes(range(256)) * 8])
def test_what_is_no_model_is_an_error_of_ours(key: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(PolygraphyException) as caught:
        function_for(describe_file, key)(source(key, path), EVERYTHING)
    assert "Traceback" not in str(caught.value)


def test_a_missing_file_is_a_file_error(key: str, tmp_path: Path) -> None:
    needs(key)
    with pytest.raises(FileError, match="missing"):
        function_for(describe_file, key)(source(key, tmp_path / "missing"), Detail())


@pytest.mark.parametrize("detail", [Detail(), Detail(layers=True, attrs=True), EVERYTHING])
def test_onnx_models_become_frozen_descriptions(detail: Detail, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(models.identity().SerializeToString())
    described: Any = function_for(describe_file, "onnx")(source("onnx", path), detail)
    again = function_for(describe_file, "onnx")(source("onnx", path), detail)
    assert [each.name for each in described.graph.inputs]
    assert bool(described.graph.nodes) == detail.layers
    assert [each.name for each in again.graph.inputs] == [
        each.name for each in described.graph.inputs
    ]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        described.graph = None


def test_text_is_no_onnx_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_text("no model at all")
    with pytest.raises(ModelError):
        function_for(describe_file, "onnx")(source("onnx", path), Detail())
