"""What a use case may ask of what lowers the precision of a model."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.onnx.cast.precision import OnnxPrecisionCaster
from polygraphy.adapters.onnxruntime.quantizer import OnnxrtQuantizer
from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.editing import PrecisionCaster, Quantizer
from tests.support import models

FEED = {"x": np.ones((1, 8), dtype=np.float32)}


@pytest.fixture
def caster() -> PrecisionCaster:
    return OnnxPrecisionCaster()


@pytest.fixture
def quantizer() -> Quantizer:
    return OnnxrtQuantizer()


def interface(model: onnx.ModelProto) -> list[tuple[str, bytes]]:
    values = [*model.graph.input, *model.graph.output]
    return [(value.name, value.type.SerializeToString(deterministic=True)) for value in values]


def test_both_take_the_arguments_of_the_port() -> None:
    _same_parameters(PrecisionCaster.cast, OnnxPrecisionCaster.cast)
    _same_parameters(Quantizer.quantize, OnnxrtQuantizer.quantize)


def _same_parameters(wanted: Any, found: Any) -> None:
    wanted, found = inspect.signature(wanted).parameters, inspect.signature(found).parameters
    assert [(p.name, p.kind, p.default) for p in found.values()] == [
        (p.name, p.kind, p.default) for p in wanted.values()
    ]


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_casting_gives_another_model_with_the_same_interface(
    caster: PrecisionCaster, dtype: DataTypeEntry
) -> None:
    model = models.mlp()
    before = model.SerializeToString(deterministic=True)
    cast = caster.cast(model, dtype, keep_ops={"Relu"}, keep_nodes=["logits"])
    assert isinstance(cast, onnx.ModelProto)
    assert cast.SerializeToString(deterministic=True) != before
    assert model.SerializeToString(deterministic=True) == before
    assert interface(cast) == interface(model)
    onnx.checker.check_model(cast)


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.BOOL, DataType.STRING], ids=str)
def test_casting_to_what_is_no_float_is_refused(
    caster: PrecisionCaster, dtype: DataTypeEntry
) -> None:
    with pytest.raises(UsageError, match=dtype.name):
        caster.cast(models.mlp(), dtype)


def test_quantising_gives_another_model_with_the_same_interface(quantizer: Quantizer) -> None:
    model = models.mlp()
    before = model.SerializeToString(deterministic=True)
    quantized = quantizer.quantize(model, iter([FEED, FEED]), DataType.INT8)
    assert isinstance(quantized, onnx.ModelProto)
    assert quantized.SerializeToString(deterministic=True) != before
    assert model.SerializeToString(deterministic=True) == before
    assert interface(quantized) == interface(model)


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.FLOAT8E4M3FN], ids=str)
def test_quantising_leaves_nodes_alone(quantizer: Quantizer, dtype: DataTypeEntry) -> None:
    quantized = quantizer.quantize(models.mlp(), [FEED], dtype, keep_nodes=["logits"])
    [kept] = [node for node in quantized.graph.node if node.name == "logits"]
    assert list(kept.input) == ["h_relu", "logits.weight", "logits.bias"]
    assert interface(quantized) == interface(models.mlp())


def test_quantising_without_data_is_refused(quantizer: Quantizer) -> None:
    with pytest.raises(InputError):
        quantizer.quantize(models.mlp(), [], DataType.INT8)


def test_quantising_with_data_of_another_model_is_refused(quantizer: Quantizer) -> None:
    with pytest.raises(InputError, match="'x'"):
        quantizer.quantize(models.mlp(), [FEED, {"other": FEED["x"]}], DataType.INT8)


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BOOL, DataType.INT64], ids=str)
def test_quantising_to_a_wide_type_is_refused(quantizer: Quantizer, dtype: DataTypeEntry) -> None:
    with pytest.raises(UsageError, match=dtype.name):
        quantizer.quantize(models.mlp(), [FEED], dtype)
