"""Models in a lower precision keep their interface."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.editing import cast_precision, quantize
from tests.support import models

FEED = {"x": np.ones((1, 8), dtype=np.float32)}


def interface(model: onnx.ModelProto) -> list[tuple[str, bytes]]:
    values = [*model.graph.input, *model.graph.output]
    return [(value.name, value.type.SerializeToString(deterministic=True)) for value in values]


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_casting_gives_another_model_with_the_same_interface(dtype: DataTypeEntry) -> None:
    model = models.mlp()
    before = model.SerializeToString(deterministic=True)
    cast = cast_precision(model, dtype, keep_ops={"Relu"}, keep_nodes=["logits"])
    assert isinstance(cast, onnx.ModelProto)
    assert cast.SerializeToString(deterministic=True) != before
    assert model.SerializeToString(deterministic=True) == before
    assert interface(cast) == interface(model)
    onnx.checker.check_model(cast)


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.BOOL, DataType.STRING], ids=str)
def test_casting_to_what_is_no_float_is_refused(dtype: DataTypeEntry) -> None:
    with pytest.raises(UsageError, match=dtype.name):
        cast_precision(models.mlp(), dtype)


def test_quantizing_gives_another_model_with_the_same_interface() -> None:
    model = models.mlp()
    before = model.SerializeToString(deterministic=True)
    quantized = quantize(model, iter([FEED, FEED]), DataType.INT8)
    assert isinstance(quantized, onnx.ModelProto)
    assert quantized.SerializeToString(deterministic=True) != before
    assert model.SerializeToString(deterministic=True) == before
    assert interface(quantized) == interface(model)


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.FLOAT8E4M3FN], ids=str)
def test_quantizing_leaves_nodes_alone(dtype: DataTypeEntry) -> None:
    quantized = quantize(models.mlp(), [FEED], dtype, keep_nodes=["logits"])
    [kept] = [node for node in quantized.graph.node if node.name == "logits"]
    assert list(kept.input) == ["h_relu", "logits.weight", "logits.bias"]
    assert interface(quantized) == interface(models.mlp())


def test_quantizing_without_data_is_refused() -> None:
    with pytest.raises(InputError):
        quantize(models.mlp(), [], DataType.INT8)


def test_quantizing_with_data_of_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="'x'"):
        quantize(models.mlp(), [FEED, {"other": FEED["x"]}], DataType.INT8)


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BOOL, DataType.INT64], ids=str)
def test_quantizing_to_a_wide_type_is_refused(dtype: DataTypeEntry) -> None:
    with pytest.raises(UsageError, match=dtype.name):
        quantize(models.mlp(), [FEED], dtype)
