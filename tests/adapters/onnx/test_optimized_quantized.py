"""Dynamically quantized models, as quantized and as ONNX Runtime's optimizer stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.edit.quantized_model import open_quantized
from polygraphy.adapters.onnx.edit.quantized_nodes import nodes_for_any_rank
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.adapters.onnxruntime.quantizing_again import quantize_again
from polygraphy.domain.quantization.causes import cause_of
from polygraphy.domain.quantization.lines import excluded_names
from polygraphy.domain.quantization.losses import weight_loss
from polygraphy.domain.quantization.requantization import Requantization
from tests.support.models import make, value

_DRAW = np.random.default_rng(0).standard_normal
_SIZE = 16


def two_products() -> onnx.ModelProto:
    """Two products of one tensor with biases, and a third of their sum."""
    draw = np.random.default_rng(1).standard_normal
    nodes = []
    for name in ("q", "k"):
        nodes.append(helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_p"], name))
        nodes.append(helper.make_node("Add", [f"{name}_p", f"{name}_b"], [name], f"{name}_add"))
    nodes.append(helper.make_node("Mul", ["q", "k"], ["m"], "m"))
    nodes.append(helper.make_node("Gemm", ["m", "o_w", "o_b"], ["y"], "o", transB=1))
    weights = {f"{name}_w": draw((_SIZE, _SIZE)).astype(np.float32) for name in "qko"}
    weights |= {f"{name}_b": draw(_SIZE).astype(np.float32) for name in "qko"}
    ends = [value("x", [4, _SIZE])], [value("y", [4, _SIZE])]
    return make("products", nodes, *ends, weights=weights)


def lstm() -> onnx.ModelProto:
    draw = np.random.default_rng(2).standard_normal
    weights = {name: draw((2, 16, 4)).astype(np.float32) for name in ("w", "r")}
    options: dict[str, Any] = {"hidden_size": 4, "direction": "bidirectional"}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["h"], "lstm", **options)
    return make(
        "lstm", [node], [value("x", [3, 1, 4])], [value("h", [3, 2, 1, 4])], weights=weights
    )


def quantize(model: onnx.ModelProto, folder: Path, **options: Any) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    copy = onnx.load_from_string(model.SerializeToString())
    quantize_dynamic(copy, folder / "quantized.onnx", **options)
    return onnx.load(str(folder / "quantized.onnx"))


def optimize(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    data = model.SerializeToString()
    onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return onnx.load(str(folder / "optimized.onnx"))


def scaled(model: onnx.ModelProto, name: str, factor: float) -> onnx.ModelProto:
    [weight] = [one for one in model.graph.initializer if one.name == name]
    array = numpy_helper.to_array(weight) * np.float32(factor)
    weight.CopyFrom(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("per_channel", [False, True])
def test_fused_products_and_their_biases_are_sites_with_the_names_of_the_quantizer(
    per_channel: bool, tmp_path: Path
) -> None:
    reference = two_products()
    model = optimize(quantize(reference, tmp_path, per_channel=per_channel), tmp_path)
    ops = {node.op_type for node in model.graph.node}
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} <= ops
    opened = open_quantized(model, [reference])
    assert opened.producer == "dynamic"
    assert sorted(site.name for site in opened.sites) == ["k_p", "q_p", "y"]
    assert excluded_names(opened.nodes, ["q", "o"]) == ["q", "o_MatMul"]
    feed = {"x": _DRAW((4, _SIZE)).astype(np.float32)}
    exact, off, on, own = (
        OnnxrtParty().load(form)(feed)["y"]
        for form in (
            reference, opened.float_at_sites(range(3)), opened.float_at_sites(()), model,
        )
    )  # fmt: skip
    np.testing.assert_allclose(off, exact, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(on, own, rtol=1e-5, atol=1e-4)
    request = Requantization("dynamic", reference, model, opened.sites, [feed], [[]], [False], 60)
    [again] = quantize_again(request) or []
    assert any(node.op_type == "MatMulInteger" for node in again.graph.node)


@pytest.mark.parametrize("name", ["q_w_scale", "o_w_Transposed_scale"])
def test_a_wrong_scale_of_a_fused_product_is_named(name: str, tmp_path: Path) -> None:
    model = scaled(optimize(quantize(two_products(), tmp_path), tmp_path), name, 1.5)
    assert wrong_sites(model, two_products()) == {"q_p" if name[0] == "q" else "y": "scale"}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ["w_scale", "r_scale"])
def test_a_wrong_scale_of_an_lstm_is_named_and_corrected(
    name: str, per_channel: bool, tmp_path: Path
) -> None:
    from onnxruntime.quantization import QuantType

    types = {"weight_type": QuantType.QInt8, "per_channel": per_channel}
    model, healthy = (quantize(lstm(), tmp_path, **types) for _ in range(2))
    assert wrong_sites(healthy, lstm()) == {}
    assert wrong_sites(scaled(model, name, 1.5), lstm()) == {"h": "scale"}
    opened = open_quantized(model, [lstm()])
    loss = weight_loss(opened.sites[0])
    assert loss is not None and loss.best is not None
    feed = {"x": _DRAW((3, 1, 4)).astype(np.float32)}
    corrected, expected = (
        OnnxrtParty().load(form)(feed)["h"]
        for form in (opened.proto_with_schemes({0: loss.best}), healthy)
    )
    np.testing.assert_allclose(corrected, expected, atol=0.01)


def wrong_sites(model: onnx.ModelProto, reference: onnx.ModelProto) -> dict[str, str]:
    """Return the causes of sites that lose much more than they have to."""
    causes = {}
    for site in open_quantized(model, [reference]).sites:
        loss = weight_loss(site)
        if loss is not None and loss.loss > 5 * loss.least and loss.loss > 0.1:
            causes[site.name] = cause_of(site, loss)
    return causes


def test_constants_and_weights_of_four_bits_are_quantized_again(tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_static

    half = numpy_helper.from_array(np.float32(0.5))
    nodes = [
        helper.make_node("Constant", [], ["half"], "constant", value=half),
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Mul", ["a", "half"], ["b"], "mul"),
        helper.make_node("Concat", ["a", "b"], ["y"], "join", axis=1),
    ]
    ends = [value("x", [4, _SIZE])], [value("y", [4, 2 * _SIZE])]
    weight = np.random.default_rng(3).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    reference = make("constant", nodes, *ends, weights={"w": weight})
    copy, path = onnx.load_from_string(reference.SerializeToString()), str(tmp_path / "q.onnx")
    types = {"weight_type": QuantType.QInt4, "activation_type": QuantType.QUInt8}
    quantize_static(copy, path, Reader(), per_channel=True, **types)
    model = onnx.load(path)
    opened = open_quantized(model, [reference])
    assert "int4" in {site.scheme.dtype for site in opened.sites if site.scheme is not None}
    request = Requantization("static", reference, model, opened.sites, [], [[]], [False], 60)
    [again] = quantize_again(request) or []
    counts = [
        sum(node.op_type == "QuantizeLinear" for node in one.graph.node) for one in (again, model)
    ]
    assert counts[0] == counts[1] > 2


class Reader:
    """Data for a calibration."""

    def __init__(self) -> None:
        """Start with one feed."""
        self._feeds = iter([{"x": _DRAW((4, _SIZE)).astype(np.float32)}])

    def get_next(self) -> Any:
        """Return the next feed; None at the end."""
        return next(self._feeds, None)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_channels_of_a_quantized_gemm_follow_its_layout(
    transposed: bool, tmp_path: Path
) -> None:
    from onnxruntime.quantization import QuantFormat, quantize_static

    weight = (_DRAW((_SIZE, _SIZE)) * 10.0 ** np.linspace(-2, 0, _SIZE)).astype(np.float32)
    weights = {"w": weight.T.copy() if transposed else weight, "b": np.zeros(_SIZE, np.float32)}
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "gemm", transB=int(transposed))
    ends = [value("x", [4, _SIZE])], [value("y", [4, _SIZE])]
    reference = make("gemm", [node], *ends, weights=weights)
    path, options = str(tmp_path / "q.onnx"), {"quant_format": QuantFormat.QOperator}
    copy = onnx.load_from_string(reference.SerializeToString())
    quantize_static(copy, path, Reader(), per_channel=True, **options)
    opened = open_quantized(onnx.load(path), [reference])
    [loss] = [weight_loss(site) for site in opened.sites if site.kind == "weight"]
    assert loss is not None and loss.loss < 0.02


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_gemm_of_the_reference_computes_data_of_any_rank(transposed: int, has_bias: bool) -> None:
    """An optimizer writes it between reshapes, which the quantized model does not have."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((5, 3)).astype(np.float32)}
    exact = 0.5 * weights["w"]
    if transposed:
        weights["w"] = weights["w"].T.copy()
    if has_bias:
        weights["b"] = rng.standard_normal(3).astype(np.float32)
    gemm = helper.make_node(
        "Gemm", ["x", *weights], ["y"], "gemm", alpha=0.5, beta=2.0, transB=transposed
    )
    x, bias = rng.standard_normal((2, 4, 5)).astype(np.float32), 2 * weights.get("b", np.float32(0))
    model = make(
        "net",
        nodes_for_any_rank(gemm, weights),
        [value("x", [2, 4, 5])],
        [value("y", [2, 4, 3])],
        weights=weights,
    )
    found = OnnxParty().load(model)({"x": x})["y"]
    np.testing.assert_allclose(found, x @ exact + bias, rtol=1e-5, atol=1e-5)
