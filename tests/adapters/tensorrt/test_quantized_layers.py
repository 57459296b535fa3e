"""8 bits on strongly typed networks, for the whole model and for layers: built with TensorRT-RTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.backend.onnx import convert_to_fp16
from polygraphy.backend.trt import (
    Calibrator,
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxModel,
    SetLayerPrecisions,
    engine_bytes_from_network,
    network_from_onnx_model,
    postprocess_network,
    set_layer_precisions,
)
from polygraphy.domain.errors import BackendError, UsageError
from tests.support import models
from tests.support.rtx import dtypes

pytestmark = pytest.mark.usefixtures("rtx")

FEED = [{"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}]


def data(feed: Any = FEED) -> Any:
    """Return what calibrates in the quickest way."""
    return Calibrator(feed, BaseClass="IInt8MinMaxCalibrator")


def _seen(precisions: dict[str, Any], *, given: Any = None, **settings: Any) -> dict[str, str]:
    """Build a model of two layers, `hidden` and `logits`; return the data types of its tensors."""
    seen: dict[str, str] = {}
    load = NetworkFromOnnxModel(models.mlp())

    def observed() -> Any:
        parts = load()
        if precisions:
            parts = SetLayerPrecisions(load, precisions, calibrator=given)()
        seen.update(dtypes(parts[1]))
        return parts

    plan = EngineBytesFromNetwork(observed, CreateConfig(**settings))()
    assert plan.nbytes > 0
    return seen


def _quantized(seen: dict[str, str]) -> dict[str, str]:
    """Return the types that the inputs of the layers were quantized to, by tensor."""
    tail = "_QuantizeLinear_Output"
    return {name[: -len(tail)]: dtype for name, dtype in seen.items() if name.endswith(tail)}


@pytest.mark.parametrize(("setting", "dtype"), [("int8", "INT8"), ("fp8", "FP8")])
def test_a_model_is_quantized_but_for_layers_that_are_named(setting: str, dtype: str) -> None:
    whole: dict[str, Any] = {setting: True, "calibrator": data()}
    assert _quantized(_seen({}, **whole)) == {"x": dtype, "h_relu": dtype}
    assert _quantized(_seen({"logits": "float32"}, **whole)) == {"x": dtype}
    both = _seen({"hidden": "float32"}, fp16=True, **whole)
    assert _quantized(both) == {"h_relu": dtype}
    assert both["h"] == "FLOAT"  # It is not cast, either.
    lower = _seen({"hidden": "float16"}, **whole)
    assert _quantized(lower) == {"h_relu": dtype}
    assert (lower["h"], lower["h_relu"]) == ("HALF", "FLOAT")


@pytest.mark.parametrize(("dtype", "native"), [("int8", "INT8"), ("float8e4m3fn", "FP8")])
def test_layers_that_are_named_are_the_only_ones_that_are_quantized(
    dtype: str, native: str
) -> None:
    assert _quantized(_seen({"hidden": dtype}, given=data())) == {"x": native}
    rest = _seen({"hidden": dtype}, given=data(), fp16=True)
    assert _quantized(rest) == {"x": native}
    assert rest["h_relu"] == "HALF"
    with pytest.raises(UsageError, match="requires data"):
        _seen({"hidden": dtype})


def test_two_types_for_the_same_end_are_refused() -> None:
    with pytest.raises(BackendError, match="cannot use float8e4m3fn while"):
        _seen({"hidden": "fp8"}, int8=True, calibrator=data())
    with pytest.raises(BackendError, match="cannot use float8e4m3fn, int8 together"):
        _seen({"hidden": "fp8", "logits": "int8"}, given=data())
    with pytest.raises(BackendError, match="cannot use int32 for the layer 'hidden'"):
        _seen({"hidden": "int32"})


def test_what_cannot_be_quantized_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _seen({"relu": "int8", "hidden": "int8"}, given=data())
    shown = " ".join(capsys.readouterr().out.split())
    assert "Layer 'relu' (Relu) cannot be quantized" in shown
    assert "'hidden'" not in shown


def test_layers_of_a_parsed_network_are_kept_when_it_is_cast_later() -> None:
    parts = network_from_onnx_model(models.mlp())
    parts = set_layer_precisions(parts, {"hidden": "float32"})
    seen: list[Any] = []

    def look(builder: Any, network: Any) -> Any:
        return CreateConfig(fp16=True)(builder, network)

    parts = postprocess_network(parts, lambda network: seen.append(dtypes(network)))
    engine_bytes_from_network(parts, look)
    assert (seen[-1]["h"], seen[-1]["h_relu"]) == ("FLOAT", "HALF")


def test_a_model_of_float16_is_quantized() -> None:
    model = convert_to_fp16(models.mlp(), cast_io=True)
    feed = [{"x": FEED[0]["x"].astype(np.float16)}]
    for setting in ("int8", "fp8"):
        wanted = {setting: True}
        plan = engine_bytes_from_network(
            network_from_onnx_model(model), CreateConfig(calibrator=data(feed), **wanted)
        )
        assert plan.nbytes > 0
