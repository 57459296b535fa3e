"""TensorRT-RTX builds without a GPU: what tests need to build with it for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polygraphy.adapters.tensorrt.library.module import use_module
from tests.support import models

__all__ = ["dtypes", "mlp_path", "output_names", "rtx"]


@pytest.fixture
def rtx() -> Iterator[Any]:
    """Use TensorRT-RTX as TensorRT, and yield its module; skip if it is not installed."""
    module = pytest.importorskip("tensorrt_rtx")
    with use_module(module):
        yield module


@pytest.fixture
def mlp_path(tmp_path: Path) -> str:
    """Return the path of a model with a dynamic batch: two layers of eight and sixteen neurons."""
    path = tmp_path / "mlp.onnx"
    models.save(models.mlp(), path)
    return str(path)


def output_names(network: Any) -> list[str]:
    """Return the names of the outputs of a network."""
    return [network.get_output(index).name for index in range(network.num_outputs)]


def dtypes(network: Any) -> dict[str, str]:
    """Return the data type of each tensor of a network."""
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        tensors += [layer.get_output(output) for output in range(layer.num_outputs)]
    return {tensor.name: tensor.dtype.name for tensor in tensors}
