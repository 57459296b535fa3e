"""What everything that lowers the precision of a model promises, asked of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from polygraphy.adapters.fake import FakePrecisionCaster, FakeQuantizer
from polygraphy.adapters.onnx.cast.precision import OnnxPrecisionCaster
from polygraphy.adapters.onnxruntime.quantizer import OnnxrtQuantizer
from polygraphy.domain.errors import InputError, UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.ports.editing import PrecisionCaster, Quantizer
from tests.support import models

CASTERS: dict[str, Callable[[], PrecisionCaster]] = {
    "fake": FakePrecisionCaster,
    "onnx": OnnxPrecisionCaster,
}
QUANTIZERS: dict[str, Callable[[], Quantizer]] = {
    "fake": FakeQuantizer,
    "onnxruntime": OnnxrtQuantizer,
}
FEED = {"x": np.ones((1, 8), dtype=np.float32)}


@pytest.fixture(params=CASTERS)
def caster(request: pytest.FixtureRequest) -> PrecisionCaster:
    return CASTERS[request.param]()


@pytest.fixture(params=QUANTIZERS)
def quantizer(request: pytest.FixtureRequest) -> Quantizer:
    return QUANTIZERS[request.param]()


def interface(model: onnx.ModelProto) -> list[tuple[str, bytes]]:
    values = [*model.graph.input, *model.graph.output]
    return [(value.name, value.type.SerializeToString(deterministic=True)) for value in values]


@pytest.mark.parametrize("made", CASTERS.values(), ids=CASTERS)
def test_a_caster_takes_the_arguments_of_the_port(made: type) -> None:
    _same_parameters(PrecisionCaster.cast, made.cast)  # type: ignore[attr-defined]


@pytest.mark.parametrize("made", QUANTIZERS.values(), ids=QUANTIZERS)
def test_a_quantizer_takes_the_arguments_of_the_port(made: type) -> None:
    _same_parameters(Quantizer.quantize, made.quantize)  # type: ignore[attr-defined]


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


# What the fakes promise on top.


def test_the_fake_caster_marks_the_copy_and_remembers_the_call() -> None:
    caster = FakePrecisionCaster()
    cast = caster.cast(models.mlp(), DataType.FLOAT16, keep_ops=["Relu"])
    assert {prop.key: prop.value for prop in cast.metadata_props} == {"cast_to": "float16"}
    caster.cast(models.mlp(), DataType.BFLOAT16, keep_nodes=("logits",))
    assert caster.calls == [
        (DataType.FLOAT16, frozenset({"Relu"}), frozenset()),
        (DataType.BFLOAT16, frozenset(), frozenset({"logits"})),
    ]


def test_the_fake_quantizer_marks_the_copy_and_counts_the_data() -> None:
    quantizer = FakeQuantizer()
    quantized = quantizer.quantize(models.mlp(), [FEED] * 3, DataType.FLOAT8E4M3FN)
    assert {p.key: p.value for p in quantized.metadata_props} == {"quantized_to": "float8e4m3fn"}
    assert quantizer.calls == [(DataType.FLOAT8E4M3FN, 3)]


def test_the_fake_quantizer_asks_for_no_weights() -> None:
    model = models.mlp()
    model.graph.input.append(models.value("hidden.bias", [16]))
    FakeQuantizer().quantize(model, [FEED], DataType.INT8)
